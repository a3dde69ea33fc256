"""Scores a segmentation checkpoint on rendered and real pages.

    python evaluate_segmentation.py --weights weights.safetensors --fonts FONT_DIR --corpus corpus.txt \
        --dev DEV_DIR --real REAL_DIR --threshold 0.85 --overlays OVERLAY_DIR

Rendered pages (held-out fonts, and DEV_DIR with its `NAME.json` geometry): intersection over union of the pixels, and
recall and precision of lines, where a connected component and a line match at an IoU of 0.5 or more. Components that lie on
one line of the page are merged, as the extraction of lines does.
Real pages (`NAME.jpg|tif` with one text line per image line in `NAME.txt`): share of pages with the right number of lines,
all pages and held-out pages.
"""

import argparse
import json
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch

from page_preparation import TILE, frame_size, prepare, stitch, tiles
from page_drawing import ABOVE_HEAD, BELOW_HEAD, Corpus, band_pitch, font_metrics, font_paths, load_font
from render_pages import render_page
from train_segmentation import load


@dataclass
class Component:
    """Connected component of a mask: x, y, width, height and area, with its label."""

    label: int
    x: int
    y: int
    width: int
    height: int
    area: int
    level: float = 0.0
    """Height of the centre on the page after its skew is taken out."""


@torch.no_grad()
def probabilities(model: torch.nn.Module, frame: np.ndarray) -> np.ndarray:
    """Probability of line core for each pixel of a prepared frame."""
    grid = tiles(frame, 1)
    flat = torch.from_numpy(grid.reshape(-1, 1, TILE, TILE).astype(np.float32))
    rows = [torch.sigmoid(model(flat[i : i + 4].contiguous(memory_format=torch.channels_last))) for i in range(0, len(flat), 4)]
    return stitch(torch.cat(rows).numpy().reshape(grid.shape), frame.shape[::-1])


def components(
    mask: np.ndarray, smallest_height: int = 4, smallest_area: float = 0.001
) -> tuple[list[Component], np.ndarray]:
    """Components that pass the area and width filter of the runtime; `smallest_area` is a share of the page."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask)
    height, width = mask.shape
    found = [Component(i, *map(int, stats[i])) for i in range(1, count)]
    kept = [c for c in found if c.area > smallest_area * height * width and c.width >= 0.01 * width and c.height >= smallest_height]
    set_levels(kept, labels)
    return kept, labels


def set_levels(found: list[Component], labels: np.ndarray):
    """Fills in the levels; the slope of the page is the median of the slopes of its long components."""
    slopes, centres = [], []
    for c in found:
        part = (labels[c.y : c.y + c.height, c.x : c.x + c.width] == c.label).astype(np.uint8)
        moments = cv2.moments(part, binaryImage=True)
        centres.append((c.x + moments["m10"] / moments["m00"], c.y + moments["m01"] / moments["m00"]))
        if c.width > 6 * c.height:
            slopes.append((moments["mu11"] / moments["mu20"], c.area))
    slope = 0.0
    if slopes:
        slopes.sort()
        weights = np.cumsum([area for _, area in slopes])
        slope = slopes[int(np.searchsorted(weights, weights[-1] / 2))][0]
    for c, (x, y) in zip(found, centres):
        c.level = y - slope * x


def overlap_across(a: Component, b: Component) -> int:
    return min(a.x + a.width, b.x + b.width) - max(a.x, b.x)


def merge_rows(found: list[Component]) -> list[list[Component]]:
    """Groups components beside one another on a line, top to bottom, once the skew of the page is taken out."""
    if not found:
        return []
    reach = 0.5 * float(np.median([c.height for c in found]))
    groups: list[list[Component]] = []
    for component in sorted(found, key=lambda c: c.level):
        near = groups and component.level - groups[-1][0].level <= reach
        if near and all(overlap_across(component, other) < 0.3 * min(component.width, other.width) for other in groups[-1]):
            groups[-1].append(component)
        else:
            groups.append([component])
    return groups


def match_lines(mask: np.ndarray, truth: np.ndarray) -> tuple[int, int, int]:
    """Matched lines, lines in the truth, lines found."""
    found, found_labels = components(mask)
    wanted, wanted_labels = components(truth, smallest_height=2)
    found_rows, wanted_rows = merge_rows(found), merge_rows(wanted)
    found_of = np.zeros(found_labels.max() + 1, np.int64)
    wanted_of = np.zeros(wanted_labels.max() + 1, np.int64)
    for rows, table in ((found_rows, found_of), (wanted_rows, wanted_of)):
        for i, row in enumerate(rows):
            for component in row:
                table[component.label] = i + 1
    a, b = found_of[found_labels], wanted_of[wanted_labels]
    joint = np.bincount((a * (len(wanted_rows) + 1) + b).ravel(), minlength=(len(found_rows) + 1) * (len(wanted_rows) + 1))
    joint = joint.reshape(len(found_rows) + 1, len(wanted_rows) + 1).astype(float)
    union = joint.sum(1, keepdims=True) + joint.sum(0, keepdims=True) - joint
    ious = (joint / np.maximum(union, 1))[1:, 1:]
    return int((ious >= 0.5).sum()), len(wanted_rows), len(found_rows)


def band_of_dev_page(description: dict, fonts: str, size: tuple[int, int]) -> np.ndarray:
    """Bands of a page that comes with baselines, text and the name of its font; the font size follows from the width."""
    path = str(Path(fonts) / description["font"])
    metrics, typeface = font_metrics(path), load_font(path, 100)
    middles = [np.mean([p[1] for p in line["baseline"]]) for line in description["lines"]]
    pitch = float(np.median(np.diff(middles))) if len(middles) > 1 else 1e9
    scale_x, scale_y = size[0] / description["width"], size[1] / description["height"]
    bands = np.zeros((size[1], size[0]), np.uint8)
    for line in description["lines"]:
        baseline = np.array(line["baseline"], np.float64)
        left, _, right, _ = typeface.getbbox(line["text"], anchor="ls", language="bo")
        font_size = 100 * (baseline[-1, 0] - baseline[0, 0]) / (right - left)
        unit = band_pitch(path, font_size, pitch)
        head = metrics.head * font_size
        above, below = baseline + [0, head - ABOVE_HEAD * unit], baseline + [0, head + BELOW_HEAD * unit]
        outline = np.concatenate([above, below[::-1]]) * [scale_x, scale_y]
        cv2.fillPoly(bands, [np.round(outline).astype(np.int32)], 1)
    return bands


@dataclass
class Score:
    pages: int = 0
    joint: int = 0
    union: int = 0
    marked: int = 0
    labelled: int = 0
    matched: int = 0
    wanted: int = 0
    found: int = 0
    right_count: int = 0

    def add(self, mask: np.ndarray, truth: np.ndarray):
        matched, wanted, found = match_lines(mask, truth)
        self.pages += 1
        self.joint += int((mask & truth).sum())
        self.union += int((mask | truth).sum())
        self.marked += int(mask.sum())
        self.labelled += int(truth.sum())
        self.matched += matched
        self.wanted += wanted
        self.found += found
        self.right_count += wanted == found

    def report(self, name: str, threshold: float):
        print(
            f"{name:24s} threshold {threshold:.2f} pages {self.pages:3d} IoU {self.joint / max(1, self.union):.4f} "
            f"area ratio {self.marked / max(1, self.labelled):.3f} recall {self.matched / max(1, self.wanted):.4f} precision {self.matched / max(1, self.found):.4f} "
            f"count right {self.right_count / max(1, self.pages):.3f}",
            flush=True,
        )


def overlay(frame: np.ndarray, mask: np.ndarray, path: Path, note: str = ""):
    picture = np.repeat((frame * 255)[:, :, None], 3, axis=2)
    picture[mask > 0] = picture[mask > 0] // 2 + np.array([0, 0, 127], np.uint8)
    cv2.putText(picture, note, (5, frame.shape[0] - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (255, 0, 0), 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), picture)


def real_pages(folder: str) -> list[tuple[Path, int]]:
    """Pages with a transcription, with the number of their lines."""
    pages = []
    for path in sorted(Path(folder).iterdir()):
        text = path.with_suffix(".txt")
        if path.suffix in (".jpg", ".tif", ".png") and text.exists():
            pages.append((path, sum(1 for line in text.read_text(encoding="utf8").splitlines() if line.strip())))
    return pages


def collection(name: str) -> str:
    return re.sub(r"[_-]?\d*$", "", name)


def is_held_out(order: int) -> bool:
    """Every third page of a collection, counted in the order of names, is kept from training."""
    return order % 3 == 1


def held_out_names(pages: list[tuple[Path, int]]) -> set[str]:
    order: dict[str, int] = defaultdict(int)
    names = set()
    for path, _ in pages:
        if is_held_out(order[collection(path.stem)]):
            names.add(path.stem)
        order[collection(path.stem)] += 1
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--fonts", help="folder with fonts, for rendered pages")
    parser.add_argument("--corpus")
    parser.add_argument("--rendered", type=int, default=40, help="number of pages in held-out fonts")
    parser.add_argument("--dev", help="folder with rendered pages and their geometry")
    parser.add_argument("--real", help="folder with real pages")
    parser.add_argument("--threshold", type=float, action="append", help="may be given several times")
    parser.add_argument("--overlays", help="folder for overlays of the real pages, at the first threshold")
    arguments = parser.parse_args()
    thresholds = arguments.threshold or [0.85]
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    model = load(arguments.weights).to(memory_format=torch.channels_last).eval()

    def score(name: str, pages):
        scores = {t: Score() for t in thresholds}
        for frame, truth in pages:
            probability = probabilities(model, frame)
            for t in thresholds:
                scores[t].add((probability > t).astype(np.uint8), truth)
        for t in thresholds:
            scores[t].report(name, t)

    if arguments.dev and arguments.fonts:
        def dev_pages():
            for description_path in sorted(Path(arguments.dev).glob("*.json")):
                description = json.loads(description_path.read_text(encoding="utf8"))
                grey = cv2.imread(str(description_path.parent / description["image"]), cv2.IMREAD_GRAYSCALE)
                frame = prepare(grey)
                yield frame, band_of_dev_page(description, arguments.fonts, frame_size(grey.shape[1], grey.shape[0]))
        score("dev pages", dev_pages())
    if arguments.fonts and arguments.corpus:
        fonts, corpus = font_paths(arguments.fonts, held_out=True), Corpus(arguments.corpus)
        score("held-out fonts", (render_page(random.Random(900_000 + i), fonts, corpus)[:2] for i in range(arguments.rendered)))
    if arguments.real:
        pages = real_pages(arguments.real)
        held_out = held_out_names(pages)
        results: dict[float, dict[str, list[tuple[bool, int, int]]]] = {t: defaultdict(list) for t in thresholds}
        for path, wanted in pages:
            frame = prepare(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE))
            probability = probabilities(model, frame)
            for t in thresholds:
                mask = (probability > t).astype(np.uint8)
                found = len(merge_rows(components(mask)[0]))
                results[t][collection(path.stem)].append((path.stem in held_out, wanted, found))
                if arguments.overlays and t == thresholds[0]:
                    overlay(frame, mask, Path(arguments.overlays) / f"{path.stem}.png", f"{found} of {wanted}")
        for t in thresholds:
            everything = [row for rows in results[t].values() for row in rows]
            for name, rows in [*results[t].items(), ("all real pages", everything)]:
                unseen = [row for row in rows if row[0]]
                right = lambda rows: sum(wanted == found for _, wanted, found in rows)
                lines = max(1, sum(row[1] for row in unseen))
                extra = sum(max(0, found - wanted) for _, wanted, found in unseen) / lines
                missing = sum(max(0, wanted - found) for _, wanted, found in unseen) / lines
                print(
                    f"{name:34s} threshold {t:.2f} all {right(rows)}/{len(rows)} held-out {right(unseen)}/{len(unseen)} "
                    f"extra lines {extra:.3f} missing lines {missing:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
