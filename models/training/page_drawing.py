"""Fonts, texts and the canvas that rendered pages are drawn on, with the bands of their lines."""

import random
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

HELD_OUT_FONTS = ("Jomolhari.ttf", "MonlamUni-OuChan2.ttf", "DDC_Rinzin.ttf", "Paramita.ttf")
CURSIVE_FONTS = (
    "DDC_Joyig.ttf",
    "MonlamUni-Chouk.ttf",
    "MonlamUni-Dutsa1.ttf",
    "MonlamUni-Dutsa2.ttf",
    "MonlamUni-PayTsik.ttf",
    "MonlamUni-TikTong.ttf",
    "MonlamUni-Tikrang.ttf",
    "SambhotaTsugring.otf",
    "SambhotaYigchung.ttf",
)
ABOVE_HEAD = 0.05
BELOW_HEAD = 0.35
WIDEST_BRIDGED_GAP = 5.0
SMALLEST_BODY = 0.3
PLAIN, IMAGE, MARGIN, CAPTION, PAGE_NUMBER, NOTE = range(6)
"""Kinds of what a place of a page holds; lines of the text and paper are `PLAIN`."""
KINDS = 6
PLAIN_LETTERS = "ཀགངཅཏནཔབམཚ"
TALL_STACKS = "བསྒྲིགས་ཧཱུྃ་རྫོགས་སྒྲུབ"


@lru_cache(maxsize=4096)
def load_font(path: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.RAQM)


@dataclass(frozen=True)
class FontMetrics:
    """Distances for a font size of 1, measured downwards from the baseline."""

    head: float
    foot: float
    top: float
    bottom: float

    @property
    def tall(self) -> float:
        """Height a line asks for; the long descenders of cursive hands reach into the next line and do not count."""
        return min(self.bottom - self.top, (self.foot - self.head) / SMALLEST_BODY)


@lru_cache(maxsize=None)
def font_metrics(path: str) -> FontMetrics:
    font = load_font(path, 200)
    boxes = [font.getbbox(letter, anchor="ls", language="bo") for letter in PLAIN_LETTERS]
    tall = font.getbbox(TALL_STACKS, anchor="ls", language="bo")
    return FontMetrics(
        head=float(np.median([b[1] for b in boxes])) / 200,
        foot=float(np.median([b[3] for b in boxes])) / 200,
        top=tall[1] / 200,
        bottom=tall[3] / 200,
    )


@lru_cache(maxsize=200_000)
def advance(path: str, text: str) -> float:
    """Width of a text for a font size of 1."""
    return load_font(path, 100).getlength(text, language="bo") / 100


class Corpus:
    """Endless syllables from random places of a text."""

    def __init__(self, path: str):
        with open(path, encoding="utf8") as file:
            self.segments = [line.strip() for line in file if line.strip()]

    def syllables(self, rng: random.Random):
        at = rng.randrange(len(self.segments))
        while True:
            current = ""
            for char in self.segments[at % len(self.segments)]:
                current += char
                if char in "་ ":
                    yield current
                    current = ""
            yield current + " "
            at += 1


@dataclass
class Run:
    """Text drawn in one go; x is the left edge, y the head line."""

    text: str
    x: float
    y: float
    size: float


@dataclass
class Line:
    runs: list[Run]
    head: float
    pitch: float
    breaks: tuple[float, ...] = ()
    """Columns over which the band does not run on, because something else stands there."""
    kinds: tuple[int, ...] = ()
    """Kinds of the runs; `PLAIN` if there are none."""


@dataclass
class Style:
    """How the lines of one page are written."""

    font: str
    gap_rate: float = 0.0
    gap_range: tuple[float, float] = (0.5, 3.0)
    small_rate: float = 0.0
    jitter: float = 0.0
    spread: float = 0.0
    latin_rate: float = 0.0


@dataclass
class Canvas:
    """Ink of a page before any distortion, with the bands of its lines, their texts, and their areas: pixels of the first are 1.

    `kinds` holds for each pixel what it belongs to.
    """

    width: int
    height: int
    ink: np.ndarray = field(init=False)
    bands: np.ndarray = field(init=False)
    areas: np.ndarray = field(init=False)
    kinds: np.ndarray = field(init=False)
    texts: list[str] = field(init=False, default_factory=list)

    def __post_init__(self):
        self.ink = np.zeros((self.height, self.width), np.uint8)
        self.bands = np.zeros((self.height, self.width), np.uint8)
        self.areas = np.zeros((self.height, self.width), np.uint16)
        self.kinds = np.full((self.height, self.width), PLAIN, np.uint8)

    def paste(self, mask: np.ndarray, x: int, y: int):
        height, width = mask.shape
        x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + width, self.width), min(y + height, self.height)
        if x1 > x0 and y1 > y0:
            target = self.ink[y0:y1, x0:x1]
            np.maximum(target, mask[y0 - y : y1 - y, x0 - x : x1 - x], out=target)

    def mark(self, kind: int, x0: float, y0: float, x1: float, y1: float):
        """Says what a rectangle of the page holds."""
        x0, y0, x1, y1 = (max(0, round(side)) for side in (x0, y0, x1, y1))
        self.kinds[y0:y1, x0:x1] = kind

    def bar(self, x: float, y0: float, y1: float, thickness: float):
        """Fills a vertical bar, as frames have at their sides."""
        left, right = round(x - thickness / 2), round(x + thickness / 2)
        self.ink[max(0, round(y0)) : max(0, round(y1)), max(0, left) : max(0, right)] = 255

    def text(self, font_path: str, run: Run, kind: int = PLAIN) -> tuple[int, int] | None:
        """Draws a run; returns the first and last column with ink."""
        size, metrics = max(6, round(run.size)), font_metrics(font_path)
        span = self.glyphs(font_path, size, run.text, run.x, run.y - metrics.head * size)
        if span and kind != PLAIN:
            top = run.y + (metrics.top - metrics.head) * size
            self.mark(kind, span[0], top, span[1], top + metrics.tall * size)
        return span

    def glyphs(self, font_path: str, size: int, text: str, x: float, baseline: float) -> tuple[int, int] | None:
        """Draws text of any script; returns the first and last column with ink."""
        font = load_font(font_path, size)
        left, top, right, bottom = font.getbbox(text, anchor="ls", language="bo")
        if right <= left or bottom <= top:
            return None
        image = Image.new("L", (right - left + 2, bottom - top + 2), 0)
        ImageDraw.Draw(image).text((1 - left, 1 - top), text, font=font, fill=255, anchor="ls", language="bo")
        mask = np.asarray(image)
        columns = np.flatnonzero(mask.max(axis=0) > 100)
        if columns.size == 0:
            return None
        start = round(x) + left - 1
        self.paste(mask, start, round(baseline) + top - 1)
        return start + int(columns[0]), start + int(columns[-1]) + 1

    def line(self, font_path: str, line: Line):
        kinds = line.kinds or (PLAIN,) * len(line.runs)
        drawn = ((self.text(font_path, run, kind), run.text) for run, kind in zip(line.runs, kinds))
        spans = sorted((*span, text) for span, text in drawn if span)
        if not spans:
            return
        merged = [list(spans[0])]
        for start, end, text in spans[1:]:
            broken = any(merged[-1][1] <= x <= start for x in line.breaks)
            if broken or start - merged[-1][1] > WIDEST_BRIDGED_GAP * line.pitch:
                merged.append([start, end, text])
            else:
                separator = "" if merged[-1][2].endswith("་") else " "
                merged[-1][1:] = max(merged[-1][1], end), merged[-1][2] + separator + text
        y0 = max(0, round(line.head - ABOVE_HEAD * line.pitch))
        y1 = max(0, round(line.head + BELOW_HEAD * line.pitch))
        metrics, size = font_metrics(font_path), max(run.size for run in line.runs)
        top = line.head - (line.pitch - metrics.tall * size) / 2 - (metrics.head - metrics.top) * size
        rows = slice(max(0, round(top)), max(0, round(top + line.pitch)))
        for start, end, text in merged:
            columns = slice(max(0, start), max(0, end))
            self.bands[y0:y1, columns] = 255
            self.texts.append(text)
            self.areas[rows, columns] = len(self.texts)


def band_pitch(font_path: str, size: float, pitch: float) -> float:
    """Pitch the band is measured by: that of the lines, unless they are set wider than the letters ask for."""
    return min(pitch, 1.25 * font_metrics(font_path).tall * size)


def fill_line(rng: random.Random, source, style: Style, x0: float, x1: float, head: float, size: float) -> list[Run]:
    """Sets syllables from x0 to at most x1."""
    runs: list[Run] = []
    text, start, x, scale = "", x0, x0, 1.0
    jitter = style.jitter * size

    def flush():
        nonlocal text
        if text.strip():
            runs.append(Run(text.rstrip(), start, head + rng.gauss(0, jitter), size * scale))
        text = ""

    while True:
        syllable = next(source)
        if style.latin_rate and rng.random() < style.latin_rate:
            syllable = str(rng.randint(1, 2020)) + " "
        width = advance(style.font, syllable) * size * scale
        if x + width > x1:
            break
        text += syllable
        x += width
        gap = 0.0
        if style.spread:
            gap = rng.uniform(0, style.spread) * size
        if syllable.endswith(" ") and rng.random() < style.gap_rate:
            gap = rng.uniform(*style.gap_range) * size
        elif not style.spread and jitter and rng.random() < 0.5:
            gap = abs(rng.gauss(0, 0.1)) * size
        changes = style.small_rate and rng.random() < style.small_rate
        if gap or changes or len(text) > 120:
            flush()
            x += gap
            start = x
            if changes:
                scale = rng.choice((1.0, 0.7, 0.62))
    flush()
    return runs


def pick_style(rng: random.Random, fonts: list[str]) -> Style:
    cursive = [f for f in fonts if Path(f).name in CURSIVE_FONTS]
    font = rng.choice(cursive) if cursive and rng.random() < 0.38 else rng.choice(fonts)
    style = Style(font)
    mood = rng.random()
    if mood < 0.3:
        style.gap_rate, style.gap_range = rng.uniform(0.2, 0.9), (0.3, rng.uniform(1.0, 8.0))
    elif mood < 0.37:
        style.spread = rng.uniform(0.3, 2.5)
    if rng.random() < 0.15:
        style.small_rate = rng.uniform(0.01, 0.08)
    if rng.random() < (0.6 if Path(font).name in CURSIVE_FONTS else 0.25):
        style.jitter = rng.uniform(0.01, 0.06)
    return style


def font_size_for(style: Style, pitch: float, rng: random.Random, loose: float) -> float:
    """Size with which the tallest stacks take `1 / lead` of the pitch."""
    lead = rng.uniform(0.82, loose)
    return max(7.0, pitch / (font_metrics(style.font).tall * lead))


def font_paths(folder: str, held_out: bool) -> list[str]:
    paths = sorted(p for p in Path(folder).iterdir() if p.suffix in (".ttf", ".otf"))
    return [str(p) for p in paths if (p.name in HELD_OUT_FONTS) == held_out]
