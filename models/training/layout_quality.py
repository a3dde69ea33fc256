"""Compares what the program takes the lines of real pages for with what they are.

    node ocr PAGES --out OUT --config line_mode=layout --export pagexml
    python layout_quality.py --out OUT --truth PAGES

PAGES holds scans with their PAGE XML, `NAME.page.xml`, of which each line stands in a region of its type. A line counts as of the type of
the region that the program found and that covers half of it or more, and as text where there is none. Regions that are over no line of
the truth are counted apart.
"""

import argparse
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import cv2
import numpy as np

TEXT = "paragraph"
PICTURE = "picture"


def polygon(element: ElementTree.Element) -> np.ndarray:
    coords = next(child for child in element if child.tag.endswith("}Coords"))
    return np.array([[int(n) for n in pair.split(",")] for pair in coords.get("points").split()], np.int32)


def regions(path: Path) -> tuple[tuple[int, int], list[tuple[str, np.ndarray, list[np.ndarray]]]]:
    """Height and width of a page, and the type, the outline and the lines of its regions."""
    root = ElementTree.parse(path).getroot()
    page = next(element for element in root.iter() if element.tag.endswith("}Page"))
    size = int(page.get("imageHeight")), int(page.get("imageWidth"))
    found = []
    for element in page:
        if not re.search(r"}(Text|Image)Region$", element.tag):
            continue
        kind = element.get("type", TEXT) if "Text" in element.tag else PICTURE
        lines = [polygon(line) for line in element if line.tag.endswith("}TextLine")]
        found.append((kind, polygon(element) if not lines or kind != TEXT else None, lines))
    return size, found


def filled(size: tuple[int, int], outline: np.ndarray) -> np.ndarray:
    mask = np.zeros(size, np.uint8)
    cv2.fillPoly(mask, [outline], 1)
    return mask.astype(bool)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, help="output folder of `node ocr`")
    parser.add_argument("--truth", required=True, type=Path, help="folder with the PAGE XML of the scans")
    parser.add_argument("--pages", action="store_true", help="list the lines that are taken for something else")
    arguments = parser.parse_args()
    exported = {path.stem: path for path in arguments.out.rglob("*.xml")}
    taken, beside = Counter(), Counter()
    for path in sorted(arguments.truth.glob("*.page.xml")):
        name = path.name.removesuffix(".page.xml")
        if name not in exported:
            print(f"{name}: not in {arguments.out}")
            continue
        (size, truth), (_, found) = regions(path), regions(exported[name])
        places = [(kind, filled(size, outline)) for kind, outline, _ in found if kind != TEXT and outline is not None]
        of_truth = np.zeros(size, bool)
        for kind, _, lines in truth:
            for line in lines:
                mask = filled(size, line)
                of_truth |= mask
                shares = [(float(place[mask].mean()), other) for other, place in places]
                share, other = max(shares, default=(0.0, TEXT))
                other = other if share >= 0.5 else TEXT
                taken[kind, other] += 1
                if arguments.pages and kind != other:
                    print(f"{name}: {kind} taken for {other} at {line.mean(axis=0).round().astype(int)}")
        for kind, place in places:
            if not (place & of_truth).any():
                beside[kind] += 1
                if arguments.pages:
                    print(f"{name}: {kind} over no line at {np.argwhere(place).mean(axis=0).round().astype(int)[::-1]}")
    kinds = sorted({kind for pair in taken for kind in pair})
    print("lines that are", *(f"taken for {kind}" for kind in kinds), sep=" | ")
    for kind in kinds:
        print(kind, *(taken[kind, other] for other in kinds), sep=" | ")
    print("regions over no line:", ", ".join(f"{kind} {count}" for kind, count in sorted(beside.items())))


if __name__ == "__main__":
    main()
