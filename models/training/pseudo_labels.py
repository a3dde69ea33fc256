"""Makes training tiles from real pages of which only the text is known.

    python pseudo_labels.py --weights checkpoint.safetensors --real REAL_DIR --out REAL_POOL --overlays OVERLAYS

A checkpoint finds the lines of each page that is not held out. Where it finds as many lines as the transcription has, or
some more that are short or stand outside the block of text, each line is replaced by a smooth band along its head line: a low
polynomial through the middle of the prediction, with the height that the page shows. What else was found becomes background.
Other pages, and those named with `--exclude` after looking at the overlays, are left out.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import torch

from evaluate_segmentation import Component, components, held_out_names, merge_rows, overlay, probabilities, real_pages
from page_preparation import prepare, tiles
from train_segmentation import load

LONGEST_EXTRA = 0.6


def middle_curve(probability: np.ndarray, labels: np.ndarray, row: list[Component]) -> tuple[np.ndarray, np.ndarray, float]:
    """Columns and heights of the middle of a line, and its median thickness."""
    x0, x1 = min(c.x for c in row), max(c.x + c.width for c in row)
    y0, y1 = min(c.y for c in row), max(c.y + c.height for c in row)
    inside = np.isin(labels[y0:y1, x0:x1], [c.label for c in row]) * probability[y0:y1, x0:x1]
    weight = inside.sum(axis=0)
    heights = (inside * np.arange(y0, y1)[:, None]).sum(axis=0) / np.maximum(weight, 1e-6)
    known = weight > 1
    thickness = float(np.median((inside > 0.5).sum(axis=0)[known]))
    columns = np.arange(x0, x1)
    degree = int(np.clip((x1 - x0) / (12 * thickness), 1, 6))
    centre, spread = (x0 + x1) / 2, max(1.0, (x1 - x0) / 2)
    use = known.copy()
    for _ in range(3):
        fit = np.polynomial.Polynomial.fit((columns[use] - centre) / spread, heights[use], degree, domain=[-1, 1])
        smooth = fit((columns - centre) / spread)
        use = known & (np.abs(heights - smooth) < 0.35 * thickness)
        if use.sum() < 0.5 * known.sum():
            break
    return columns, smooth, thickness


def without_extra_rows(rows: list[list[Component]], wanted: int) -> list[list[Component]]:
    """The `wanted` widest rows, if the others are so short that they cannot be lines of the block; otherwise all rows."""
    ink = lambda row: sum(c.width for c in row)
    by_width = sorted(rows, key=ink, reverse=True)
    kept, extra = by_width[:wanted], by_width[wanted:]
    if not extra or ink(extra[0]) > LONGEST_EXTRA * ink(kept[-1]):
        return rows
    return sorted(kept, key=lambda row: row[0].level)


def smooth_bands(frame: np.ndarray, probability: np.ndarray, wanted: int) -> tuple[np.ndarray, int]:
    """Bands of a frame and how many lines they are."""
    mask = (probability > 0.5).astype(np.uint8)
    found, labels = components(mask, smallest_area=0.0003)
    rows = without_extra_rows(merge_rows(found), wanted)
    bands = np.zeros(frame.shape, np.uint8)
    curves = [middle_curve(probability, labels, row) for row in rows]
    if not curves:
        return bands, 0
    usual = float(np.median([thickness for _, _, thickness in curves]))
    for columns, middle, thickness in curves:
        half = float(np.clip(thickness, 0.75 * usual, 1.25 * usual)) / 2
        outline = np.concatenate([np.stack([columns, middle - half], 1), np.stack([columns, middle + half], 1)[::-1]])
        cv2.fillPoly(bands, [np.round(outline).astype(np.int32)], 1)
    return bands, len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--real", required=True, help="folder with pages and transcriptions")
    parser.add_argument("--out", required=True, help="folder for the shard")
    parser.add_argument("--overlays")
    parser.add_argument("--exclude", nargs="*", default=[], help="page names, or beginnings of names, to leave out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    model = load(arguments.weights).to(memory_format=torch.channels_last).eval()
    pages = real_pages(arguments.real)
    held_out = held_out_names(pages)
    inputs, labels = [], []
    for path, wanted in pages:
        if path.stem in held_out or path.stem.startswith(tuple(arguments.exclude)):
            continue
        frame = prepare(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE))
        bands, found = smooth_bands(frame, probabilities(model, frame), wanted)
        print(f"{path.stem}: {found} of {wanted} lines", flush=True)
        if arguments.overlays:
            folder = Path(arguments.overlays) / ("used" if found == wanted else "left_out")
            overlay(frame, bands, folder / f"{path.stem}.png", f"{found} of {wanted}")
        if found == wanted:
            inputs.append(np.packbits(tiles(frame, 1).reshape(-1, 512, 512), axis=-1))
            labels.append(np.packbits(tiles(bands, 0).reshape(-1, 512, 512), axis=-1))
    Path(arguments.out).mkdir(parents=True, exist_ok=True)
    np.savez(Path(arguments.out) / f"{Path(arguments.weights).stem}.npz", pages=np.concatenate(inputs), bands=np.concatenate(labels))
    print(f"{len(inputs)} pages")


if __name__ == "__main__":
    main()
