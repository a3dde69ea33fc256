"""Draws what goes beside the card of a recogniser: error rates against steps, and the worst of the held-out lines.

    python recogniser_figures.py --log model.safetensors.jsonl --plot training.png
    python recogniser_figures.py --weights model.safetensors --charset charset.json --real LINES --fonts FONTS \
        --worst worst-lines.png

The sheet shows each line as the network sees it, what it says, and what the stacks head reads, greedily.
"""

import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from rapidfuzz.distance import Levenshtein

from line_text import letters
from train_recogniser import load_net, real_lines

COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#16a085", "#7f8c8d", "#34495e", "#b03a6e", "#6e7f0e")
PLOT, MARGIN = (900, 420), (60, 20, 230, 40)


def plot(log: Path, groups: list[str]) -> Image.Image:
    font = ImageFont.load_default(13)
    entries = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines()]
    scores = {}
    for entry in entries:
        if "scores" in entry:
            scores[entry["step"]] = {group: rates[1] for group, rates in entry["scores"].items()}
    groups = groups or sorted(set().union(*scores.values()))
    low, high = 0.001, 0.5
    last = max(scores) or 1
    left, top, right, bottom = MARGIN
    image = Image.new("RGB", PLOT, "white")
    draw = ImageDraw.Draw(image)
    wide, tall = PLOT[0] - left - right, PLOT[1] - top - bottom

    def place(step: int, rate: float) -> tuple[float, float]:
        return left + wide * step / last, top + tall * (1 - np.log(max(rate, low) / low) / np.log(high / low))

    for rate in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5):
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


def worst_lines(arguments: argparse.Namespace, font: ImageFont.FreeTypeFont) -> Image.Image:
    net, heads = load_net(arguments.charset, arguments.weights)
    net.eval()
    latin, lines = ImageFont.load_default(12), []
    for sample in real_lines(arguments.real, set(arguments.collections.split(",")))[1]:
        with torch.no_grad():
            logits = net(torch.from_numpy(sample.ink[None, None].astype(np.float32) / 255))[1]
        read = heads[1].decode(logits[0].argmax(0).tolist())
        truth = letters(sample.text)
        lines.append((Levenshtein.distance(truth, letters(read)) / max(1, len(truth)), sample, read))
    lines.sort(key=lambda line: -line[0])
    width, tall = 1000, 84
    sheet = Image.new("L", (width, tall * min(arguments.count, len(lines))), 255)
    draw = ImageDraw.Draw(sheet)
    for row, (rate, sample, read) in enumerate(lines[: arguments.count]):
        y = row * tall
        ink = 255 - sample.ink
        scale = min(1.0, (width - 70) / ink.shape[1])
        ink = cv2.resize(ink, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        sheet.paste(Image.fromarray(ink), (64, y + 2))
        draw.text((4, y + 4), f"{100 * rate:.0f} %", fill=0, font=latin)
        draw.text((4, y + 20), sample.group, fill=0, font=latin)
        for number, (name, text) in enumerate((("truth", " ".join(sample.text.split())), ("read", " ".join(read.split())))):
            at = y + 4 + ink.shape[0] + 19 * number
            draw.text((4, at), name, fill=90, font=latin)
            draw.text((64, at), text, fill=0, font=font)
        draw.line((0, y + tall - 1, width, y + tall - 1), fill=200)
    return sheet


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, help="OUT.jsonl of train_recogniser.py")
    parser.add_argument("--groups", default="", help="to plot; all by default")
    parser.add_argument("--plot", help="PNG to write")
    parser.add_argument("--weights")
    parser.add_argument("--charset")
    parser.add_argument("--real", type=Path)
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
