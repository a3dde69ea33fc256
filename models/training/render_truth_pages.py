"""Renders pages with their truth, for scoring by `node eval`: fonts that are never trained on, text line by line.

    python render_truth_pages.py --fonts FONT_DIR --corpus corpus.txt --out FOLDER --pages 40 --seed 70 [--degraded | --columns 2]

FOLDER receives `NAME.png` and `NAME.json` with the text and the outline of every line, in pixels of the image. A page is a leaf of
five to eight lines of running text, turned a little, inked, and scanned as bilevel or grey image. With `--degraded` it is as the
segmenter is trained on them (`render_pages.py`): of every layout, worn, curled, stained and badly scanned. With `--columns` it is of a modern
book that has so many, read one after the other.
"""

import argparse
import json
import random
from pathlib import Path

import cv2
import numpy as np

from page_drawing import Canvas, Corpus, HELD_OUT_FONTS, Run, advance, font_metrics, font_paths
from page_layouts import book, frame_rules
from render_lines import Recorder, clean_scan
from render_pages import legible_scan, line_pitch
from scan_effects import bilevel_scan, inked

WIDEST_ANGLE = 1.5
LONGEST_RUN = 120


def set_line(canvas: Canvas, font: str, source: Recorder, x0: float, x1: float, head: float, size: float) -> str:
    """Draws as many syllables as fit and returns them."""
    source.taken.clear()
    x, run, start = x0, "", x0
    while x + (width := advance(font, next(source)) * size) <= x1:
        run += source.taken[-1]
        x += width
        if len(run) > LONGEST_RUN and run.endswith(" "):
            canvas.text(font, Run(run, start, head, size))
            run, start = "", x
    canvas.text(font, Run(run, start, head, size))
    return "".join(source.taken[:-1]).strip()


def leaf(rng: random.Random, font: str, corpus: Corpus) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
    """A grey image, and the text and corners of every line."""
    width, height, lines = rng.randint(2700, 3300), rng.randint(680, 940), rng.randint(5, 8)
    canvas = Canvas(width, height)
    margin_x, margin_y = width * rng.uniform(0.05, 0.08), height * rng.uniform(0.08, 0.13)
    pitch = (height - 2 * margin_y) / lines
    metrics = font_metrics(font)
    size = pitch / (metrics.tall * rng.uniform(0.95, 1.15))
    if rng.random() < 0.8:
        frame_rules(canvas, rng, margin_x, margin_y, width - margin_x, height - margin_y, pitch)
    above = (pitch - metrics.tall * size) / 2 + (metrics.head - metrics.top) * size
    x0, x1 = margin_x + 0.3 * pitch, width - margin_x - 0.3 * pitch
    source = Recorder(corpus.syllables(rng), font)
    truth = []
    for row in range(lines):
        top = margin_y + row * pitch
        text = set_line(canvas, font, source, x0, x1, top + above, size)
        truth.append((text, np.array([[x0, top], [x1, top], [x1, top + pitch], [x0, top + pitch]])))
    grey, turn = turned_scan(rng, canvas, pitch)
    return grey, [(text, corners @ turn[:, :2].T + turn[:, 2]) for text, corners in truth]


def turned_scan(rng: random.Random, canvas: Canvas, pitch: float) -> tuple[np.ndarray, np.ndarray]:
    """A grey image of a page that lies askew, and the matrix of its turn."""
    height, width = canvas.ink.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), rng.uniform(-WIDEST_ANGLE, WIDEST_ANGLE), 1.0)
    noise = np.random.default_rng(rng.getrandbits(63))
    strokes = inked(rng, noise, cv2.warpAffine(canvas.ink, turn, (width, height)), 0.35 * pitch)
    return (bilevel_scan if rng.random() < 0.5 else clean_scan)(rng, noise, strokes), turn


def book_page(rng: random.Random, font: str, corpus: Corpus, columns: int) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
    """The same of a page of a book."""
    canvas = book(rng, [font], corpus, 1536, rng.choice((1.0, 1.3, 1.7)), columns)
    grey, turn = turned_scan(rng, canvas, line_pitch(canvas))
    areas = cv2.warpAffine(canvas.areas.astype(np.float32), turn, grey.shape[::-1], flags=cv2.INTER_NEAREST)
    return grey, outlined(canvas.texts, areas)


def degraded(rng: random.Random, font: str, corpus: Corpus) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
    """The same of any page there is."""
    scan = legible_scan(rng, [font], corpus)
    return scan.grey, outlined(scan.texts, scan.areas)


def outlined(texts: list[str], areas: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The texts with the corners of their areas, which are numbered from 1; without those that have none."""
    outlines = ((text, outline(areas == number)) for number, text in enumerate(texts, 1))
    return [(text, corners) for text, corners in outlines if len(corners)]


def outline(area: np.ndarray) -> np.ndarray:
    """Corners of a polygon about the largest part of an area; none if it has no pixels."""
    parts, _ = cv2.findContours(area.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return cv2.approxPolyDP(max(parts, key=cv2.contourArea), 1.0, True)[:, 0] if parts else np.empty((0, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fonts", required=True, help="folder with Tibetan fonts")
    parser.add_argument("--corpus", required=True, help="plain text, one segment a line")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--seed", type=int, default=70)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--degraded", action="store_true", help="pages of every layout and degradation")
    kind.add_argument("--columns", type=int, help="pages of books with so many columns")
    arguments = parser.parse_args()
    fonts, corpus = font_paths(arguments.fonts, held_out=True), Corpus(arguments.corpus)
    assert all(Path(font).name in HELD_OUT_FONTS for font in fonts)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for page in range(arguments.pages):
        rng = random.Random(arguments.seed * 1_000_003 + page)
        font = fonts[page % len(fonts)]
        if arguments.columns:
            grey, lines = book_page(rng, font, corpus, arguments.columns)
        else:
            grey, lines = (degraded if arguments.degraded else leaf)(rng, font, corpus)
        name = f"page_{page:03d}"
        cv2.imwrite(str(arguments.out / f"{name}.png"), grey)
        truth = [{"text": text, "polygon": np.round(corners.astype(float), 1).tolist()} for text, corners in lines]
        record = {"image": f"{name}.png", "font": Path(font).name, "lines": truth}
        (arguments.out / f"{name}.json").write_text(json.dumps(record, ensure_ascii=False), encoding="utf8")


if __name__ == "__main__":
    main()
