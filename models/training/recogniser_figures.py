"""Draws what goes beside the card of a recogniser: error rates against steps, and the worst of the held-out lines.

    python recogniser_figures.py --log model.safetensors.jsonl --plot training.png
    python recogniser_figures.py --weights model.safetensors --charset charset.json --real LINES --fonts FONTS \
        --worst worst-lines.png
    python recogniser_figures.py --weights model.safetensors --charset charset.json --page-lines HELD_OUT_PAGE_LINES --fonts FONTS \
        --worst worst-page-lines.png

The sheet shows each line as the network sees it, what it says, and what the stacks head reads, greedily.
"""

import argparse
import json
import re
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from rapidfuzz.distance import Levenshtein

from line_text import letters
from line_samples import all_lines, real_lines
from train_recogniser import load_net

COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#16a085", "#7f8c8d", "#34495e", "#b03a6e", "#6e7f0e")
PLOT, MARGIN = (1000, 440), (60, 20, 310, 40)
SHEET_WIDTH = 1000


def plot(log: Path, groups: list[str]) -> Image.Image:
    font = ImageFont.load_default(13)
    entries = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines()]
    scores = {}
    for entry in entries:
        if "scores" in entry:
            scores[entry["step"]] = {group: rates[1] for group, rates in entry["scores"].items()}
    groups = groups or sorted(set().union(*scores.values()))
    low, high = 0.001, 1.0
    last = max(scores) or 1
    left, top, right, bottom = MARGIN
    image = Image.new("RGB", PLOT, "white")
    draw = ImageDraw.Draw(image)
    wide, tall = PLOT[0] - left - right, PLOT[1] - top - bottom

    def place(step: int, rate: float) -> tuple[float, float]:
        return left + wide * step / last, top + tall * (1 - np.log(min(max(rate, low), high) / low) / np.log(high / low))

    for rate in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        y = place(0, rate)[1]
        draw.line((left, y, left + wide, y), fill="#dddddd")
        draw.text((left - 8, y), f"{100 * rate:g} %", fill="black", font=font, anchor="rm")
    for part in range(5):
        step = round(last * part / 4)
        draw.text((place(step, low)[0], top + tall + 8), str(step), fill="black", font=font, anchor="ma")
    caption = "steps; character error rate, stacks read greedily"
    draw.text((left + wide / 2, PLOT[1] - 2), caption, fill="black", font=font, anchor="md")
    for number, group in enumerate(groups):
        points = [place(step, rates[group]) for step, rates in sorted(scores.items()) if group in rates]
        colour = COLOURS[number % len(COLOURS)]
        draw.line(points, fill=colour, width=2)
        y = top + 20 * number + 10
        draw.line((left + wide + 15, y, left + wide + 35, y), fill=colour, width=3)
        draw.text((left + wide + 42, y), group, fill="black", font=font, anchor="lm")
    return image


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """The text in pieces of at most `width` pixels, cut after syllables where that is possible."""
    pieces = [""]
    for syllable in re.findall(r"[^་ ]*[་ ]?", text):
        if pieces[-1] and font.getlength(pieces[-1] + syllable) > width:
            pieces.append("")
        pieces[-1] += syllable
    return pieces


def worst_lines(arguments: argparse.Namespace, font: ImageFont.FreeTypeFont) -> Image.Image:
    net, heads = load_net(arguments.charset, arguments.weights)
    net.eval()
    if arguments.page_lines:
        samples = all_lines(arguments.page_lines)
    else:
        samples = real_lines(arguments.real, set(arguments.collections.split(",")))[1]
    latin, lines = ImageFont.load_default(12), []
    for sample in samples:
        with torch.no_grad():
            logits = net(torch.from_numpy(sample.ink[None, None].astype(np.float32) / 255))[1]
        read = heads[1].decode(logits[0].argmax(0).tolist())
        truth = letters(sample.text)
        lines.append((Levenshtein.distance(truth, letters(read)) / max(1, len(truth)), sample, read))
    lines.sort(key=lambda line: -line[0])
    rows = [row_of(line, font, latin) for line in lines[: arguments.count]]
    sheet = Image.new("L", (SHEET_WIDTH, sum(row.height for row in rows)), 255)
    y = 0
    for row in rows:
        sheet.paste(row, (0, y))
        y += row.height
    return sheet


def row_of(line, font: ImageFont.FreeTypeFont, latin: ImageFont.ImageFont) -> Image.Image:
    """A line as the network sees it, with what it says and what was read below."""
    rate, sample, read = line
    left, step = 90, 21
    width = SHEET_WIDTH - left - 6
    ink = 255 - sample.ink
    scale = min(1.0, width / ink.shape[1])
    ink = cv2.resize(ink, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    texts = [(name, wrapped(" ".join(text.split()), font, width)) for name, text in (("truth", sample.text), ("read", read))]
    y = max(ink.shape[0] + 6, 38)  # below the labels
    row = Image.new("L", (SHEET_WIDTH, y + step * sum(len(pieces) for _, pieces in texts) + 6), 255)
    draw = ImageDraw.Draw(row)
    row.paste(Image.fromarray(ink), (left, 2))
    draw.text((4, 4), f"{100 * rate:.0f} %", fill=0, font=latin)
    draw.text((4, 20), sample.group.removeprefix("oet-"), fill=0, font=latin)
    for name, pieces in texts:
        draw.text((4, y), name, fill=90, font=latin)
        for piece in pieces:
            draw.text((left, y), piece, fill=0, font=font)
            y += step
    draw.line((0, row.height - 1, SHEET_WIDTH, row.height - 1), fill=200)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, help="OUT.jsonl of train_recogniser.py")
    parser.add_argument("--groups", default="", help="to plot; all by default")
    parser.add_argument("--plot", help="PNG to write")
    parser.add_argument("--weights")
    parser.add_argument("--charset")
    parser.add_argument("--real", type=Path)
    parser.add_argument("--page-lines", type=Path, help="lines cut from held-out pages, in the place of those of --real")
    parser.add_argument("--collections", default="TCCG,proj19,proj42")
    parser.add_argument("--fonts", help="folder with NotoSansTibetan-Regular.ttf")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--worst", help="PNG to write")
    arguments = parser.parse_args()
    if arguments.plot:
        plot(arguments.log, [group for group in arguments.groups.split(",") if group]).save(arguments.plot, optimize=True)
    if arguments.worst:
        font = ImageFont.truetype(f"{arguments.fonts}/NotoSansTibetan-Regular.ttf", 13, layout_engine=ImageFont.Layout.RAQM)
        worst_lines(arguments, font).quantize(4).save(arguments.worst, optimize=True)


if __name__ == "__main__":
    main()
