"""Lines of page numbers, alone or beside the heading of a page, in Tibetan digits or in Latin ones of another typeface."""

import random
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from page_drawing import ABOVE_HEAD, BELOW_HEAD, Canvas, Corpus, Run, Style, advance, band_pitch, font_metrics, font_size_for, load_font
from page_layouts import rule
from rare_corpus import DIGITS

ALONE = 0.5
TIBETAN_DIGITS = 0.25
LARGEST_NUMBER = 3000
HEIGHT_IN_LETTERS, RISE_IN_LETTERS = (0.8, 1.7), (-0.25, 0.35)
"""Height of Latin digits, and how far above the head line they reach, in heights of a plain letter."""
GAPS, LONGEST_HEADING = (0.4, 5.0), 9.0
"""In pitches of lines."""


@lru_cache(maxsize=1)
def latin_fonts(folder: str) -> list[str]:
    """All fonts below a folder but slanted ones."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.suffix in (".ttf", ".otf"))
    return [str(path) for path in paths if not any(slanted in path.stem.lower() for slanted in ("italic", "oblique"))]


def written(rng: random.Random, digits: str) -> str:
    """A number of one to four digits; short ones as often as long ones."""
    number = str(rng.randrange(1, rng.choice((10, 100, 1000, LARGEST_NUMBER))))
    return "".join(digits[int(digit)] for digit in number)


def paste_latin(canvas: Canvas, font_path: str, text: str, x: float, top: float, height: float) -> tuple[int, int, int, int]:
    """Draws digits that are so high; returns left, top, right and bottom of their ink."""
    box = load_font(font_path, 100).getbbox("0123456789", anchor="ls")
    font = load_font(font_path, max(6, round(100 * height / (box[3] - box[1]))))
    left, above, right, below = font.getbbox(text, anchor="ls")
    image = Image.new("L", (right - left, below - above), 0)
    ImageDraw.Draw(image).text((-left, -above), text, font=font, fill=255, anchor="ls")
    x, y = round(x), round(top)
    canvas.paste(np.asarray(image), x, y)
    return x, y, x + image.width, y + image.height


def heading(rng: random.Random, corpus: Corpus, font: str, width: float) -> str:
    """Syllables that take at most this width at a font size of 1; at least one."""
    text = ""
    for syllable in corpus.syllables(rng):
        if text and advance(font, text + syllable) > width:
            return text.strip()
        text += syllable


def number_strip(
    rng: random.Random, style: Style, corpus: Corpus, fonts: list[str], pitch: float
) -> tuple[Canvas, str, float, float]:
    """A number, alone or at one end of a heading, with what `render_lines.strip` returns of other lines."""
    size = font_size_for(style, pitch, rng, 1.5)
    unit, metrics = band_pitch(style.font, size, pitch), font_metrics(style.font)
    letter, head, margin = (metrics.foot - metrics.head) * size, 1.8 * pitch, rng.uniform(1.0, 1.6) * pitch
    title = "" if rng.random() < ALONE else heading(rng, corpus, style.font, rng.uniform(0.5, LONGEST_HEADING) * pitch / size)
    gap, tibetan = rng.uniform(*GAPS) * pitch if title else 0.0, rng.random() < TIBETAN_DIGITS
    number = written(rng, DIGITS[0] if tibetan else DIGITS[1])
    width_of_title, room = advance(style.font, title) * size, 2.0 * letter * len(number)
    canvas = Canvas(round(width_of_title + gap + room + 2 * margin), round(4 * pitch))
    first = not title or rng.random() < 0.5
    x = margin if first else margin + width_of_title + gap
    if tibetan:
        ends = canvas.text(style.font, Run(number, x, head, size)) or (round(x), round(x))
        box = ends[0], round(head), ends[1], round(head + letter)
    else:
        height = rng.uniform(*HEIGHT_IN_LETTERS) * letter
        box = paste_latin(canvas, rng.choice(fonts), number, x, head - rng.uniform(*RISE_IN_LETTERS) * letter, height)
    text, rows, columns = number, (box[1], box[3]), (box[0], box[2])
    if title:
        start = box[2] + gap if first else margin
        span = canvas.text(style.font, Run(title, start, head, size)) or columns
        text = f"{number} {title}" if first else f"{title} {number}"
        rows = round(head - ABOVE_HEAD * unit), round(head + BELOW_HEAD * unit)
        columns = min(columns[0], span[0]), max(columns[1], span[1])
    canvas.bands[slice(*rows), slice(*columns)] = 255
    if rng.random() < 0.4:
        y = head + rng.choice((rng.uniform(1.0, 1.4) * unit, -rng.uniform(0.6, 1.0) * pitch))
        rule(canvas, rng, (0, y), (canvas.width, y), rng.randint(1, 5))
    if rng.random() < 0.4:
        neighbour = heading(rng, corpus, style.font, canvas.width / size)
        canvas.text(style.font, Run(neighbour, 0, head + rng.choice((-1, 1)) * rng.uniform(1.0, 2.0) * pitch, size))
    return canvas, text, unit, letter
