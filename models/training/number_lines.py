"""Lines of page numbers, alone or beside the heading of a page, in Tibetan digits or in Latin ones of another typeface."""

import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from page_drawing import ABOVE_HEAD, BELOW_HEAD, Canvas, Run, Style, band_pitch, fill_line, font_metrics, font_size_for, load_font
from page_layouts import rule
from rare_corpus import DIGITS

ALONE = 0.5
TIBETAN_DIGITS = 0.25
LARGEST_NUMBER = 3000
HEIGHT_IN_LETTERS, RISE_IN_LETTERS = (0.8, 1.7), (-0.25, 0.35)
"""Height of Latin digits, and how far above the head line they reach, in heights of a plain letter."""
GAPS, HEADINGS = (0.4, 5.0), (0.5, 9.0)
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


def latin_size(font: str, height: float) -> int:
    """Size at which the digits of a font are so high."""
    _, top, _, bottom = load_font(font, 100).getbbox(DIGITS[1], anchor="ls")
    return max(6, round(100 * height / (bottom - top)))


def number_strip(
    rng: random.Random, style: Style, syllables: Iterator[str], fonts: list[str], pitch: float
) -> tuple[Canvas, str, float, float]:
    """A number, alone or at one end of a heading, with what `render_lines.strip` returns of other lines."""
    size = font_size_for(style, pitch, rng, 1.5)
    unit, metrics = band_pitch(style.font, size, pitch), font_metrics(style.font)
    letter, head, margin = (metrics.foot - metrics.head) * size, 1.8 * pitch, rng.uniform(1.0, 1.6) * pitch
    tibetan, first = rng.random() < TIBETAN_DIGITS, rng.random() < 0.5
    number = written(rng, DIGITS[0] if tibetan else DIGITS[1])
    room, gap = 2.0 * letter * len(number), rng.uniform(*GAPS) * pitch
    length = 0.0 if rng.random() < ALONE else rng.uniform(*HEADINGS) * pitch
    canvas = Canvas(round(room + gap + length + 2 * margin), round(4 * pitch))
    start = margin + room + gap if first else margin
    runs = fill_line(rng, syllables, style, start, start + length, head, size)
    spans = [canvas.text(style.font, run) for run in runs]
    x = margin if first or not runs else start + length + gap
    if tibetan:
        rows = head, head + letter
        spans.append(canvas.text(style.font, Run(number, x, head, size)))
    else:
        font, height = rng.choice(fonts), rng.uniform(*HEIGHT_IN_LETTERS) * letter
        top = head - rng.uniform(*RISE_IN_LETTERS) * letter
        rows = top, top + height
        spans.append(canvas.glyphs(font, latin_size(font, height), number, x, top + height))
    title = " ".join(run.text for run in runs)
    if title:
        rows = head - ABOVE_HEAD * unit, head + BELOW_HEAD * unit
    columns = [column for span in spans if span for column in span]
    if columns:
        canvas.bands[round(rows[0]) : round(rows[1]), min(columns) : max(columns)] = 255
    if rng.random() < 0.4:
        y = head + rng.choice((rng.uniform(1.0, 1.4) * unit, -rng.uniform(0.6, 1.0) * pitch))
        rule(canvas, rng, (0, y), (canvas.width, y), rng.randint(1, 5))
    if rng.random() < 0.4:
        around = head + rng.choice((-1, 1)) * rng.uniform(1.0, 2.0) * pitch
        for run in fill_line(rng, syllables, style, 0, canvas.width, around, size):
            canvas.text(style.font, run)
    text = f"{number} {title}" if first else f"{title} {number}"
    return canvas, text.strip(), unit, letter
