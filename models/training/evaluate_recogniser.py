"""Scores recogniser weights on lines cut from rendered pages, on real lines and on pools of rendered lines.

    python evaluate_recogniser.py --weights model.safetensors --charset charset.json --fonts FONT_DIR --dev DEV --real LINES \
        --pool held=HELD_OUT_POOL

DEV holds pages with their geometry and text in `NAME.json`; a line is cut around the core band that its baseline and font
give, once the page is turned upright, so the scores do not depend on a segmenter. Of the real lines only held-out pages are scored. Prints the character error
rate of both heads, read greedily, by font or collection.
"""

import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import torch

from evaluate_segmentation import band_of_dev_page
from page_preparation import LINEAR, is_bilevel
from render_lines import cut, prepared
from line_samples import Sample, pool_shard, real_lines
from train_recogniser import error_rates, load_net


def page_lines(description_path: Path, fonts: str) -> list[Sample]:
    """The lines of a rendered page."""
    description = json.loads(description_path.read_text(encoding="utf8"))
    grey = cv2.imread(str(description_path.with_name(description["image"])), cv2.IMREAD_GRAYSCALE)
    bilevel = is_bilevel(grey)
    if not bilevel:
        grey = LINEAR[grey]
    bands = band_of_dev_page(description, fonts, (grey.shape[1], grey.shape[0]))
    lines = []
    size = (grey.shape[1], grey.shape[0])
    upright = cv2.getRotationMatrix2D((size[0] / 2, size[1] / 2), description["angle_deg"], 1)
    grey = cv2.warpAffine(grey, upright, size, flags=cv2.INTER_LINEAR, borderValue=255)
    bands = cv2.warpAffine(bands, upright, size, flags=cv2.INTER_NEAREST)
    labels = cv2.connectedComponents(bands)[1]
    for line in description["lines"]:
        outline = np.zeros(grey.shape, np.uint8)
        polygon = cv2.transform(np.array(line["polygon"])[None], upright)
        cv2.fillPoly(outline, [np.round(polygon).astype(np.int32)], 1)
        found = np.bincount(labels[(outline > 0) & (bands > 0)], minlength=1)
        core = (labels == found.argmax()).astype(np.uint8)
        lines.append(Sample(prepared(cut(grey, core), bilevel), line["text"], f"dev {description['font']}"))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--charset", required=True)
    parser.add_argument("--fonts", help="folder with the fonts of the pages in DEV")
    parser.add_argument("--dev", type=Path, help="folder with rendered pages")
    parser.add_argument("--real", type=Path, help="folder with line images and texts")
    parser.add_argument("--collections", default="TCCG,proj19,proj42,Lhasa", help="of the real lines")
    parser.add_argument("--pool", action="append", default=[], help="NAME=FOLDER or FOLDER of render_lines.py")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    net, heads = load_net(arguments.charset, arguments.weights)
    samples: list[Sample] = []
    if arguments.dev:
        for path in sorted(arguments.dev.glob("*.json")):
            samples += page_lines(path, arguments.fonts)
    if arguments.real:
        samples += real_lines(arguments.real, set(arguments.collections.split(",")))[1]
    for named in arguments.pool:
        name, folder = named.split("=", 1) if "=" in named else (None, named)
        for path in sorted(Path(folder).glob("*.npz")):
            samples += pool_shard(path, name)
    for group, rates in error_rates(net, samples, heads).items():
        print(f"{group}: codepoints {rates[0]:.4f}, stacks {rates[1]:.4f}")


if __name__ == "__main__":
    main()
