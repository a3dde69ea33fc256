"""Renders lines of Tibetan text as the program cuts them from pages, for training the recogniser.

    python render_lines.py --fonts FONT_DIR --corpus corpus.txt --out POOL --lines 8000 --seed 1

Every line is drawn with its neighbours on a strip of a page, bent a little, and inked and scanned as in `render_pages`. A core band along
its head line stands for what the segmenter finds; the band is dilated as in `models/src/line_extraction/cut.rs`, so the image
is about 1.2 line pitches high, shows parts of the neighbouring lines, and is white where the mask ends. POOL receives numbered
`.npz` shards: `ink` [64, sum of widths] holds ink maps side by side, 0 = paper, 255 = ink, prepared as in
`models/src/recognition/line_image/ink.rs`; `widths`, `texts` and `fonts` have one entry a line. A share of `--numbers` of the
lines are page numbers, see `number_lines.py`.
"""

import argparse
import random
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
from PIL import ImageFont

from page_preparation import LINEAR
from number_lines import latin_fonts, number_strip
from page_drawing import (
    ABOVE_HEAD,
    BELOW_HEAD,
    CURSIVE_FONTS,
    Canvas,
    Corpus,
    HELD_OUT_FONTS,
    Line,
    Style,
    advance,
    band_pitch,
    fill_line,
    font_metrics,
    font_paths,
    font_size_for,
    pick_style,
)
from page_layouts import rule
from scan_effects import bilevel_scan, grey_scan, inked, red_ink, smooth_noise

HEIGHT = 64
SMALLEST_WIDTH = 16
PAPER_PERCENTILE, INK_PERCENTILE, LEAST_CONTRAST = 25, 98.5, 0.05
MASK_FACTOR, MASK_STEP, TALLEST_CUT = 1.7, 0.1, 3.0
LEGIBLE_SHARE = 0.7
FEWEST_LETTERS = 4
HEAD_MARK = "༄༅། །"
SAMPLE, SAMPLE_STACKS = "བཀྲ་ཤིས་བདེ་ལེགས་ཕུན་སུམ་ཚོགས", 19
BILEVEL_SCANS, CLEAN_SCANS = 0.3, 0.35
NARROWEST_STACK, TIGHTEST_PITCH = (7.5, 14.0), 0.65
PITCHES, SMALL_PITCHES, SMALL_WRITING = (45, 112), (26, 45), 0.2
NOTES, NOTES_OF_HANDS, SIZE_OF_NOTES = 0.07, 0.22, (0.35, 0.6)
SLANTED_HANDS, STEEPEST_SLANT = 0.5, 0.3


@lru_cache(maxsize=None)
def draws(font_path: str, symbol: str) -> bool:
    """Whether the font has a glyph of its own for a code point."""
    font = ImageFont.truetype(font_path, 40, layout_engine=ImageFont.Layout.BASIC)
    shape, missing = font.getmask(symbol), font.getmask("\uffff")
    return symbol == " " or (shape.size, bytes(shape)) != (missing.size, bytes(missing))


class Recorder:
    """Syllables that a font can draw, and what was taken so far."""

    def __init__(self, source, font: str):
        self.source, self.font, self.taken = source, font, []

    def __iter__(self):
        return self

    def __next__(self) -> str:
        while True:
            syllable = next(self.source)
            if all(draws(self.font, symbol) for symbol in syllable):
                self.taken.append(syllable)
                return syllable


def prepared(grey: np.ndarray, bilevel: bool) -> np.ndarray:
    """Line image to an ink map of 64 rows, 255 = ink; the contrast of grey images is stretched."""
    width = max(SMALLEST_WIDTH, round(grey.shape[1] * HEIGHT / grey.shape[0]))
    ink = 1 - cv2.resize(grey, (width, HEIGHT), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    if not bilevel:
        low, high = np.percentile(ink, PAPER_PERCENTILE), np.percentile(ink, INK_PERCENTILE)
        ink = np.clip((ink - low) / max(LEAST_CONTRAST, high - low), 0, 1)
    return np.round(ink * 255).astype(np.uint8)


def cut(grey: np.ndarray, core: np.ndarray, reach: float = 0.0) -> np.ndarray:
    """The image of the line with this core. `reach` is what the rest of a longer sloping line adds to its height."""
    _, _, _, core_height = cv2.boundingRect(core)
    line_height, factor = core_height + reach, MASK_FACTOR
    while line_height * (1 + factor * factor) > TALLEST_CUT * line_height:
        factor -= MASK_STEP
    kernel = np.ones((max(1, int(line_height * factor * factor)), max(1, int(line_height * factor))), np.uint8)
    mask = cv2.dilate(core, kernel)
    x, y, width, height = cv2.boundingRect(mask)
    inside = mask[y : y + height, x : x + width] > 0
    return np.where(inside, grey[y : y + height, x : x + width], 255).astype(np.uint8)


def line_style(rng: random.Random, fonts: list[str], cursive_share: float) -> Style:
    """A style as on pages, but with a chosen share of cursive fonts."""
    cursive = rng.random() < cursive_share
    names = [font for font in fonts if (Path(font).name in CURSIVE_FONTS) == cursive]
    return pick_style(rng, names or fonts)


def letter_width(style: Style, size: float) -> float:
    """Mean width of a stack with its tsheg, in pixels."""
    return advance(style.font, SAMPLE) / SAMPLE_STACKS * size


def note(rng: random.Random, canvas: Canvas, style: Style, corpus: Corpus, ends: tuple[float, float], head: float, size: float):
    """Small writing between the lines, which is no part of the text."""
    start = rng.uniform(*ends)
    stop = min(ends[1], start + rng.uniform(3, 25) * size)
    for run in fill_line(rng, Recorder(corpus.syllables(rng), style.font), style, start, stop, head, size):
        canvas.text(style.font, run)


def strip(rng: random.Random, style: Style, corpus: Corpus) -> tuple[Canvas, str, float, float]:
    """Three lines of which only the middle one has a band; its text, the pitch the band is measured by and the letter width.

    Narrow letters are drawn large enough to be told apart; then long strokes reach into the next line, as they do in writing.
    """
    small = rng.random() < SMALL_WRITING
    pitch = rng.uniform(*(SMALL_PITCHES if small else PITCHES))
    size = font_size_for(style, pitch, rng, 1.5)
    size *= max(1.0, rng.uniform(*NARROWEST_STACK) * (0.75 if small else 1.0) / letter_width(style, size))
    pitch = max(pitch, TIGHTEST_PITCH * font_metrics(style.font).tall * size)
    unit = band_pitch(style.font, size, pitch)
    length, margin = rng.uniform(3.5, 13) * min(pitch, 1.5 * unit), rng.uniform(1.0, 1.6) * pitch
    canvas = Canvas(round(length + 2 * margin), round(4 * pitch))
    head, end = 1.8 * pitch, margin + length
    source = Recorder(corpus.syllables(rng), style.font)
    first = HEAD_MARK if rng.random() < 0.08 and all(draws(style.font, symbol) for symbol in HEAD_MARK) else ""
    if first:
        source.source = starting_with(first, source.source)
    runs = fill_line(rng, source, style, margin, end, head, size)
    text = "".join(source.taken[:-1]).strip()
    canvas.line(style.font, Line(runs, head, unit))
    for row in (-1, 1):
        if rng.random() < 0.75:
            start, stop = margin * rng.uniform(0.2, 1.5), end + margin * rng.uniform(-2, 0.5)
            around = fill_line(rng, Recorder(corpus.syllables(rng), style.font), style, start, stop, head + row * pitch, size)
            for run in around:
                canvas.text(style.font, run)
        elif rng.random() < 0.5:
            y = head + (1.1 * unit if row > 0 else -0.6 * pitch)
            rule(canvas, rng, (0, y), (canvas.width, y), rng.randint(1, 5))
    notes = NOTES_OF_HANDS if Path(style.font).name in CURSIVE_FONTS else NOTES
    while rng.random() < notes:
        note_head = head + rng.choice((rng.uniform(-0.65, -0.4), rng.uniform(0.4, 0.65))) * pitch
        note(rng, canvas, style, corpus, (margin, end), note_head, size * rng.uniform(*SIZE_OF_NOTES))
    if rng.random() < 0.12:
        x = rng.choice((margin * rng.uniform(0, 0.6), end + margin * rng.uniform(0.4, 1)))
        rule(canvas, rng, (x, 0), (x, canvas.height), rng.randint(1, 6))
    return canvas, text, unit, letter_width(style, size)


def bend(rng: random.Random, noise: np.random.Generator, canvas: Canvas, unit: float, cursive: bool) -> tuple[np.ndarray, np.ndarray]:
    """Slope, waves, slant and wobble that are left when a page has been straightened, the same for ink and core."""
    y, x = np.mgrid[0 : canvas.height, 0 : canvas.width].astype(np.float32)
    slope, slant = rng.gauss(0, 0.004), rng.choice((0.0, rng.gauss(0, 0.08)))
    if cursive and rng.random() < SLANTED_HANDS:
        slant = rng.uniform(-STEEPEST_SLANT, STEEPEST_SLANT)
    wave, length, phase = rng.uniform(0, 0.06) * unit, rng.uniform(5, 25) * unit, rng.uniform(0, 6.28)
    from_y = y + slope * (x - canvas.width / 2) + wave * np.sin(2 * np.pi * x / length + phase)
    from_x = x + slant * (y - canvas.height / 2)
    if rng.random() < 0.4:
        wobble = smooth_noise(noise, canvas.height, canvas.width, unit * rng.uniform(0.7, 4)) - 0.5
        from_y += rng.uniform(0.05, 0.2) * unit * wobble
    return (
        cv2.remap(canvas.ink, from_x, from_y.astype(np.float32), cv2.INTER_LINEAR, borderValue=0),
        cv2.remap(canvas.bands, from_x, from_y.astype(np.float32), cv2.INTER_LINEAR, borderValue=0),
    )


def clean_scan(rng: random.Random, noise: np.random.Generator, strokes: np.ndarray) -> np.ndarray:
    """Grey scan of even paper."""
    height, width = strokes.shape
    paper = rng.uniform(140, 252)
    page = np.full((height, width), paper, np.float32)
    for cell, depth in ((40, 24), (rng.uniform(2, 8), 16)):
        page += (smooth_noise(noise, height, width, cell) - 0.5) * rng.uniform(0, depth)
    page *= 1 - strokes * rng.uniform(0.45, 0.95)
    if rng.random() < 0.6:
        page = cv2.GaussianBlur(page, (0, 0), rng.uniform(0.4, 1.5))
    page += noise.normal(0, rng.choice((0.5, 2, 5)), page.shape)
    return np.clip(page, 0, 255).astype(np.uint8)


def starting_with(first: str, source):
    yield first
    yield from source


def render_line(rng: random.Random, arguments: argparse.Namespace, fonts: list[str], corpus: Corpus) -> tuple[np.ndarray, str, str]:
    """One ink map, its text and the font."""
    while True:
        style = line_style(rng, fonts, arguments.cursive)
        noise = np.random.default_rng(rng.getrandbits(63))
        if arguments.numbers and rng.random() < arguments.numbers:
            syllables, latin = Recorder(corpus.syllables(rng), style.font), latin_fonts(arguments.number_fonts)
            canvas, text, unit, width = number_strip(rng, style, syllables, latin, rng.uniform(*PITCHES))
        else:
            canvas, text, unit, width = strip(rng, style, corpus)
            if len(text) < FEWEST_LETTERS:
                continue
        ink, core = bend(rng, noise, canvas, unit, Path(style.font).name in CURSIVE_FONTS)
        letter = min(0.35 * unit, 1.2 * width)
        strokes = inked(rng, noise, ink, letter)
        scan = rng.random()
        bilevel = scan < BILEVEL_SCANS
        if bilevel:
            grey = bilevel_scan(rng, noise, strokes)
        else:
            strokes = red_ink(rng, strokes, core)
            grey = LINEAR[clean_scan(rng, noise, strokes) if scan < BILEVEL_SCANS + CLEAN_SCANS else grey_scan(rng, noise, strokes, letter)]
        drawn = ink > 127
        if drawn.any() and np.mean(grey[drawn] < np.median(grey)) < LEGIBLE_SHARE:
            continue
        core = (core > 127).astype(np.uint8)
        band = round((ABOVE_HEAD + BELOW_HEAD) * unit)
        thinner = max(1, round(band * rng.uniform(0, 0.3)))
        core = cv2.erode(core, np.ones((thinner, 1), np.uint8))
        if not core.any():
            continue
        reach = rng.choice((0.0, rng.uniform(0, 0.12), rng.uniform(0, 0.3))) * unit
        return prepared(cut(grey, core, reach), bilevel), text, Path(style.font).name


def save_shard(path: Path, lines: list[tuple[np.ndarray, str, str]]):
    images, texts, fonts = zip(*lines)
    partial = path.with_suffix(".partial")
    widths = np.array([image.shape[1] for image in images])
    with open(partial, "wb") as file:
        np.savez(file, ink=np.concatenate(images, axis=1), widths=widths, texts=np.array(texts), fonts=np.array(fonts))
    partial.rename(path)


def render_shard(arguments: argparse.Namespace, fonts: list[str], corpus: Corpus, numbers: range):
    """The lines of these numbers, each from a seed of its own."""
    seeds = (random.Random(arguments.seed * 1_000_003 + number) for number in numbers)
    lines = [render_line(rng, arguments, fonts, corpus) for rng in seeds]
    save_shard(arguments.out / f"seed{arguments.seed:03d}_{numbers.start // arguments.shard:05d}.npz", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fonts", required=True, help="folder with Tibetan fonts")
    parser.add_argument("--corpus", required=True, help="plain text, one segment a line")
    parser.add_argument("--out", required=True, type=Path, help="folder for the shards")
    parser.add_argument("--lines", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cursive", type=float, default=0.5, help="share of lines in cursive fonts")
    parser.add_argument("--numbers", type=float, default=0.0, help="share of lines that are page numbers, with or without a heading")
    parser.add_argument("--number-fonts", help="folder with fonts for Latin digits")
    parser.add_argument("--held-out", action="store_true", help="use only the fonts that are never trained on")
    parser.add_argument("--shard", type=int, default=200, help="lines per shard")
    parser.add_argument("--workers", type=int, default=1, help="processes; the lines are the same with any number")
    arguments = parser.parse_args()
    if arguments.numbers and not arguments.number_fonts:
        parser.error("--numbers asks for --number-fonts")
    cv2.setNumThreads(1)
    fonts, corpus = font_paths(arguments.fonts, held_out=arguments.held_out), Corpus(arguments.corpus)
    assert arguments.held_out or not any(Path(font).name in HELD_OUT_FONTS for font in fonts)
    arguments.out.mkdir(parents=True, exist_ok=True)
    numbers = range(arguments.lines)
    shards = [numbers[start : start + arguments.shard] for start in range(0, arguments.lines, arguments.shard)]
    with get_context("fork").Pool(arguments.workers) as pool:
        for _ in pool.imap_unordered(partial(render_shard, arguments, fonts, corpus), shards):
            pass


if __name__ == "__main__":
    main()
