"""Collects the lines that the program cuts from real pages, with what they say, for training the recogniser.

    node ocr PAGES --out OUT
    python page_lines.py --out OUT --truth PAGES --lines LINES

PAGES holds page scans with a transcription `NAME.txt`, one text line per image line. The lines that were read from a page are
aligned with its transcription in reading order, and a pair is kept where the two agree well enough to be the same line: better
than `--trust` where a line is missing on either side, better than `--trust-whole` where the page has as many lines as its
transcription. LINES receives `COLLECTION_PAGE_LINE.png` and `.txt`, where COLLECTION is the part of the name before the last
underscore, with its own underscores as hyphens. Every third page of a collection is left out: `node eval` may judge by it.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as parquet
from rapidfuzz.distance import Levenshtein

from line_text import letters

LEFT_OUT_EVERY = 3
SKIP_COST = 0.55


def difference(truth: str, read: str) -> float:
    return Levenshtein.normalized_distance(truth, read)


def aligned(truth: list[str], read: list[str]) -> list[tuple[int, int, float]]:
    """Pairs (line of the truth, line read, their difference) in order, with the least sum of differences and skips."""
    costs = np.array([[difference(t, r) for r in read] for t in truth]).reshape(len(truth), len(read))
    best = np.zeros((len(truth) + 1, len(read) + 1))
    best[:, 0], best[0, :] = np.arange(len(truth) + 1) * SKIP_COST, np.arange(len(read) + 1) * SKIP_COST
    for i in range(1, len(truth) + 1):
        for j in range(1, len(read) + 1):
            skip = min(best[i - 1, j], best[i, j - 1]) + SKIP_COST
            best[i, j] = min(skip, best[i - 1, j - 1] + costs[i - 1, j - 1])
    pairs, i, j = [], len(truth), len(read)
    while i and j:
        if best[i, j] == best[i - 1, j - 1] + costs[i - 1, j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j, costs[i, j]))
        elif best[i, j] == best[i - 1, j] + SKIP_COST:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def pages_read(out: Path) -> dict[str, list[dict]]:
    """Rows of `line_images` with the text read, by page."""
    pages = defaultdict(list)
    for images in sorted(out.glob("jobs/*/volumes/*/line_extraction/line_images.parquet")):
        texts = parquet.read_table(images.parents[1] / "ocr/ocr_results.parquet").to_pylist()
        text_of = {row["line_guid"]: row["text"] for row in texts}
        for row in parquet.read_table(images).to_pylist():
            pages[row["image_name"]].append(row | {"text": text_of.get(row["line_guid"], "")})
    return pages


def is_held_out(number: int) -> bool:
    """Whether the page of this number in its collection, from 0, gives no lines to train on."""
    return number % LEFT_OUT_EVERY == LEFT_OUT_EVERY - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, help="output folder of `node ocr`")
    parser.add_argument("--truth", required=True, type=Path, help="folder with the transcriptions")
    parser.add_argument("--lines", required=True, type=Path, help="folder for the lines")
    parser.add_argument("--trust", type=float, default=0.35)
    parser.add_argument("--trust-whole", type=float, default=0.7)
    parser.add_argument("--held-out", action="store_true", help="lines of the pages that are left out instead, for scoring")
    parser.add_argument("--without", nargs="*", default=[], help="beginnings of page names to leave out")
    arguments = parser.parse_args()
    arguments.lines.mkdir(parents=True, exist_ok=True)
    collections = defaultdict(list)
    read = pages_read(arguments.out)
    for name in sorted(read):
        if (arguments.truth / f"{name}.txt").exists():
            collections[name.rsplit("_", 1)[0].replace("_", "-")].append(name)
    for collection, names in collections.items():
        kept = total = 0
        for number, name in enumerate(names):
            if is_held_out(number) != arguments.held_out:
                continue
            if name.startswith(tuple(arguments.without)):
                continue
            truth = (arguments.truth / f"{name}.txt").read_text(encoding="utf8").splitlines()
            truth = [line for line in truth if letters(line)]
            rows = read[name]
            pairs = aligned([letters(line) for line in truth], [letters(row["text"]) for row in rows])
            trust = arguments.trust_whole if len(truth) == len(rows) == len(pairs) else arguments.trust
            total += len(truth)
            for line, row, cost in pairs:
                if cost > trust:
                    continue
                grey = cv2.imread(str(arguments.out / rows[row]["line_image_path"]), cv2.IMREAD_GRAYSCALE)
                if rows[row]["is_binary"]:
                    grey = np.where(grey > 127, 255, 0).astype(np.uint8)
                stem = arguments.lines / f"{collection}_{number:03d}_{line:02d}"
                cv2.imwrite(f"{stem}.png", grey)
                Path(f"{stem}.txt").write_text(truth[line], encoding="utf8")
                kept += 1
        print(f"{collection}: {kept} of {total} lines", flush=True)


if __name__ == "__main__":
    main()
