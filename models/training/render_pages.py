"""Renders Tibetan pages with exact line bands and stores them as tiles for training.

    python render_pages.py --fonts FONT_DIR --corpus corpus.txt --out POOL --pages 600 --seed 1

The corpus is plain UTF-8, one segment a line. Every page is prepared by `page_preparation` as at run time. The label of a
line is a band along the head line of the letters, from 0.05 pitch above to 0.35 pitch below it. POOL receives numbered
`.npz` shards with the bit-packed arrays `pages` and `bands`, [n, 512, 64] each, and with `kinds`, [n, 64, 64], of what there is in every
eighth pixel.
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from page_drawing import ABOVE_HEAD, BELOW_HEAD, PLAIN, Canvas, Corpus, font_paths
from page_layouts import book, pecha, sheet
from page_preparation import TILE, frame_size, prepare, tiles
from scan_effects import bilevel_scan, distort, grey_scan, inked, red_ink

FAINTEST_LINE = 0.06
LEGIBLE_SHARE = 0.9
SMALL_PITCHES = (13, 30)
COARSE = 8


@dataclass
class Scan:
    """A rendered page: its image, and in the same pixels the bands (255) and the areas of its lines, those of `texts[n]` being n + 1, and kinds."""

    grey: np.ndarray
    bands: np.ndarray
    areas: np.ndarray
    kinds: np.ndarray
    texts: list[str]
    pitch: float
    oversampling: float


def render_page(rng: random.Random, fonts: list[str], corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One prepared frame (1 = paper, 0 = ink), its bands (1 = band) and its kinds; almost all lines are legible."""
    while True:
        frame, bands, kinds = render_once(rng, fonts, corpus)
        visible = without_lost_lines(frame, bands)
        if visible.sum() > LEGIBLE_SHARE * bands.sum():
            return frame, visible, kinds


def legible_scan(rng: random.Random, fonts: list[str], corpus: Corpus) -> Scan:
    """One of which almost all lines are legible in the frame of the program."""
    while True:
        scan = render_scan(rng, fonts, corpus)
        height, width = scan.grey.shape
        frame, bands, _ = framed(scan, frame_size(width, height))
        if without_lost_lines(frame, bands).sum() > LEGIBLE_SHARE * bands.sum():
            return scan


def line_pitch(canvas: Canvas) -> float:
    """In pixels."""
    band_rows = cv2.connectedComponentsWithStats(canvas.bands)[2][1:, cv2.CC_STAT_HEIGHT]
    return float(np.median(band_rows)) / (ABOVE_HEAD + BELOW_HEAD) if band_rows.size else 40.0


def render_scan(rng: random.Random, fonts: list[str], corpus: Corpus) -> Scan:
    """A page with every layout and degradation there is."""
    noise = np.random.default_rng(rng.getrandbits(63))
    kind = rng.choices(("pecha", "book", "sheet"), (0.6, 0.3, 0.1))[0]
    oversampling = rng.choice((1.0, 1.0, 1.3, 1.7, 2.2))
    if kind == "pecha":
        canvas = pecha(rng, fonts, corpus, rng.choice((512, 512, 512, 512, 640, 900, rng.randint(260, 512))), oversampling)
    elif kind == "book":
        canvas = book(rng, fonts, corpus, rng.choice((1536, 1536, 1536, 1024, rng.randint(500, 1536))), oversampling)
    else:
        canvas = sheet(rng, fonts, corpus, rng.choice((512, 1024)), oversampling)
    pitch = line_pitch(canvas)
    ink, bands, areas, kinds = distort(rng, noise, canvas, pitch)
    letter = pitch * 0.35
    strokes = inked(rng, noise, ink, letter)
    binary = rng.random() < 0.3
    if binary:
        grey = bilevel_scan(rng, noise, strokes)
    else:
        grey = grey_scan(rng, noise, red_ink(rng, strokes, bands), letter)
    return Scan(grey, bands, areas, kinds, canvas.texts, pitch, oversampling)


def render_once(rng: random.Random, fonts: list[str], corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scan = render_scan(rng, fonts, corpus)
    height, width = scan.grey.shape
    size = frame_size(width, height)
    chance, frame_pitch = rng.random(), scan.pitch * size[1] / height
    if chance < 0.35:
        factor = rng.uniform(0.45, 1.0) if chance < 0.22 else min(1.0, rng.uniform(*SMALL_PITCHES) / frame_pitch)
        size = (max(64, int(size[0] * factor)), max(64, int(size[1] * factor)))
    elif scan.oversampling > 1 and rng.random() < 0.1:
        size = (width, height)
    return framed(scan, size)


def framed(scan: Scan, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The frame of the program, of a width and height, and the bands and kinds in it."""
    shrunk = cv2.resize(scan.bands, size, interpolation=cv2.INTER_AREA) if size != scan.grey.shape[::-1] else scan.bands
    kinds = cv2.resize(scan.kinds, size, interpolation=cv2.INTER_NEAREST)
    return prepare(scan.grey, size), (shrunk > 127).astype(np.uint8), kinds


def without_lost_lines(frame: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """Drops the bands whose ink did not survive the binarisation."""
    count, labels = cv2.connectedComponents(bands)
    area = np.bincount(labels.ravel(), minlength=count)
    ink = np.bincount(labels.ravel(), weights=1.0 - frame.ravel(), minlength=count)
    visible = ink > FAINTEST_LINE * area
    visible[0] = False
    return visible[labels].astype(np.uint8)


def page_tiles(rng: random.Random, frame: np.ndarray, bands: np.ndarray, kinds: np.ndarray, blank_share: float = 0.2):
    """Tiles of a page as at run time; of those without a line only a share."""
    inputs, labels, kinds = (tiles(*of).reshape(-1, TILE, TILE) for of in ((frame, 1), (bands, 0), (kinds, PLAIN)))
    keep = [i for i in range(len(inputs)) if labels[i].mean() > 0.01 or rng.random() < blank_share]
    return inputs[keep], labels[keep], kinds[keep][:, COARSE // 2 :: COARSE, COARSE // 2 :: COARSE]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fonts", required=True, help="folder with Tibetan fonts")
    parser.add_argument("--corpus", required=True, help="plain text, one segment a line")
    parser.add_argument("--out", required=True, help="folder for the shards")
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=int, default=25, help="pages per shard")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    fonts, corpus = font_paths(arguments.fonts, held_out=False), Corpus(arguments.corpus)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    inputs, labels, kinds = [], [], []
    for page in range(arguments.pages):
        rng = random.Random(arguments.seed * 1_000_003 + page)
        tile_inputs, tile_labels, tile_kinds = page_tiles(rng, *render_page(rng, fonts, corpus))
        inputs.append(np.packbits(tile_inputs, axis=-1))
        labels.append(np.packbits(tile_labels, axis=-1))
        kinds.append(tile_kinds)
        if (page + 1) % arguments.shard == 0 or page + 1 == arguments.pages:
            name = f"seed{arguments.seed:03d}_{page // arguments.shard:05d}"
            partial = out / f"{name}.partial"
            with open(partial, "wb") as file:
                arrays = {"pages": inputs, "bands": labels, "kinds": kinds}
                np.savez_compressed(file, **{name: np.concatenate(parts) for name, parts in arrays.items()})
            partial.rename(out / f"{name}.npz")
            inputs, labels, kinds = [], [], []


if __name__ == "__main__":
    main()
