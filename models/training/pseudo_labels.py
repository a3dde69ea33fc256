"""Makes training tiles from real pages of which only the text is known.

    python pseudo_labels.py --weights checkpoint.safetensors --real REAL_DIR --out REAL_POOL --overlays OVERLAYS

A checkpoint finds the lines of each page that is not held out. Where it finds as many lines as the transcription has, or
some more that are short or stand outside the block of text, each line is replaced by a smooth band along its head line: a low
polynomial through the middle of the prediction, with the height that the page shows. What else was found becomes background.
Other pages, and those named with `--exclude` after looking at the overlays, are left out.

With `--views 4` each page is used four times more: turned a little, paler or darker, and prepared at another size.
"""

import argparse
import random
import sys
from pathlib import Path

import cv2
import numpy as np
import torch

from evaluate_segmentation import Component, components, held_out_names, merge_rows, overlay, probabilities, real_pages
from page_preparation import frame_size, prepare, tiles
from train_segmentation import load

LONGEST_EXTRA = 0.6
STEEPEST_VIEW = 1.5
SMALLEST_VIEW = 0.5


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


def another_view(rng: random.Random, grey: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The frame of a page as another scan of it could give it, with its bands."""
    height, width = grey.shape
    angle = np.clip(rng.gauss(0, 0.5), -STEEPEST_VIEW, STEEPEST_VIEW)
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1)
    turned = cv2.warpAffine(grey, turn, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    light = (np.arange(256) / 255) ** rng.uniform(0.6, 1.6) * rng.uniform(150, 255)
    turned = cv2.LUT(turned, np.round(light).astype(np.uint8))
    whole = cv2.resize(bands * 255, (width, height), interpolation=cv2.INTER_LINEAR)
    whole = cv2.warpAffine(whole, turn, (width, height), flags=cv2.INTER_LINEAR)
    factor = rng.choice((1.0, rng.uniform(SMALLEST_VIEW, 1.0)))
    size = tuple(max(64, round(side * factor)) for side in frame_size(width, height))
    shrunk = cv2.resize(whole, size, interpolation=cv2.INTER_AREA)
    return prepare(turned, size), (shrunk > 127).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--real", required=True, help="folder with pages and transcriptions")
    parser.add_argument("--out", required=True, help="folder for the shard")
    parser.add_argument("--overlays")
    parser.add_argument("--exclude", nargs="*", default=[], help="page names, or beginnings of names, to leave out")
    parser.add_argument("--views", type=int, default=0, help="further views of each page")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    model = load(arguments.weights).to(memory_format=torch.channels_last).eval()
    pages = real_pages(arguments.real)
    held_out = held_out_names(pages)
    inputs, labels, used = [], [], 0
    rng = random.Random(arguments.seed)
    for path, wanted in pages:
        if path.stem in held_out or path.stem.startswith(tuple(arguments.exclude)):
            continue
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        frame = prepare(grey)
        bands, found = smooth_bands(frame, probabilities(model, frame), wanted)
        print(f"{path.stem}: {found} of {wanted} lines", flush=True)
        if arguments.overlays:
            folder = Path(arguments.overlays) / ("used" if found == wanted else "left_out")
            overlay(frame, bands, folder / f"{path.stem}.png", f"{found} of {wanted}")
        if found != wanted:
            continue
        used += 1
        for page, band in [(frame, bands), *(another_view(rng, grey, bands) for _ in range(arguments.views))]:
            inputs.append(np.packbits(tiles(page, 1).reshape(-1, 512, 512), axis=-1))
            labels.append(np.packbits(tiles(band, 0).reshape(-1, 512, 512), axis=-1))
    if not used:
        sys.exit("no page has as many lines marked as it has in its transcription: train the network longer, or on more pages")
    Path(arguments.out).mkdir(parents=True, exist_ok=True)
    shard = Path(arguments.out) / f"{Path(arguments.weights).stem}.npz"
    np.savez_compressed(shard, pages=np.concatenate(inputs), bands=np.concatenate(labels))
    print(f"{used} pages, {sum(map(len, inputs))} tiles")


if __name__ == "__main__":
    main()
