"""Renders Tibetan pages with exact line bands and stores them as tiles for training.

    python render_pages.py --fonts FONT_DIR --corpus corpus.txt --out POOL --pages 600 --seed 1

The corpus is plain UTF-8, one segment a line. Every page is prepared by `page_preparation` as at run time. The label of a
line is a band along the head line of the letters, from 0.05 pitch above to 0.35 pitch below it. POOL receives numbered
`.npz` shards with the bit-packed arrays `pages` and `bands`, [n, 512, 64] each.
"""

import argparse
import random
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from page_preparation import LINEAR, TILE, frame_size, prepare, tiles

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
FAINTEST_LINE = 0.06
LEGIBLE_SHARE = 0.9
SMALLEST_BODY = 0.3
PLAIN_LETTERS = "ཀགངཅཏནཔབམཚ"
TALL_STACKS = "བསྒྲིགས་ཧཱུྃ་རྫོགས་སྒྲུབ"
ASPECT_PECHA = (2.2, 6.6)
ASPECT_BOOK = (0.58, 0.82)


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
    """Ink of a page before any distortion, with the bands of its lines."""

    width: int
    height: int
    ink: np.ndarray = field(init=False)
    bands: np.ndarray = field(init=False)

    def __post_init__(self):
        self.ink = np.zeros((self.height, self.width), np.uint8)
        self.bands = np.zeros((self.height, self.width), np.uint8)

    def paste(self, mask: np.ndarray, x: int, y: int):
        height, width = mask.shape
        x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + width, self.width), min(y + height, self.height)
        if x1 > x0 and y1 > y0:
            target = self.ink[y0:y1, x0:x1]
            np.maximum(target, mask[y0 - y : y1 - y, x0 - x : x1 - x], out=target)

    def text(self, font_path: str, run: Run) -> tuple[int, int] | None:
        """Draws a run; returns the first and last column with ink."""
        size = max(6, round(run.size))
        font = load_font(font_path, size)
        left, top, right, bottom = font.getbbox(run.text, anchor="ls", language="bo")
        if right <= left or bottom <= top:
            return None
        image = Image.new("L", (right - left + 2, bottom - top + 2), 0)
        ImageDraw.Draw(image).text((1 - left, 1 - top), run.text, font=font, fill=255, anchor="ls", language="bo")
        mask = np.asarray(image)
        columns = np.flatnonzero(mask.max(axis=0) > 100)
        if columns.size == 0:
            return None
        baseline = run.y - font_metrics(font_path).head * size
        x = round(run.x) + left - 1
        self.paste(mask, x, round(baseline) + top - 1)
        return x + int(columns[0]), x + int(columns[-1]) + 1

    def line(self, font_path: str, line: Line):
        spans = sorted(s for s in (self.text(font_path, run) for run in line.runs) if s)
        if not spans:
            return
        merged = [list(spans[0])]
        for start, end in spans[1:]:
            broken = any(merged[-1][1] <= x <= start for x in line.breaks)
            if broken or start - merged[-1][1] > WIDEST_BRIDGED_GAP * line.pitch:
                merged.append([start, end])
            else:
                merged[-1][1] = max(merged[-1][1], end)
        y0 = max(0, round(line.head - ABOVE_HEAD * line.pitch))
        y1 = max(0, round(line.head + BELOW_HEAD * line.pitch))
        for start, end in merged:
            self.bands[y0:y1, max(0, start) : max(0, end)] = 255


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


def rule(canvas: Canvas, rng: random.Random, start, end, thickness: int):
    """A printed rule, sometimes broken."""
    (xa, ya), (xb, yb) = start, end
    pieces = 1 if rng.random() < 0.7 else rng.randint(2, 9)
    for i in range(pieces):
        if pieces > 1 and rng.random() < 0.15:
            continue
        a, b = i / pieces, (i + 1) / pieces
        cv2.line(
            canvas.ink,
            (round(xa + (xb - xa) * a), round(ya + (yb - ya) * a)),
            (round(xa + (xb - xa) * b), round(ya + (yb - ya) * b)),
            255,
            max(1, thickness),
        )


def frame_rules(canvas: Canvas, rng: random.Random, x0: float, y0: float, x1: float, y1: float, pitch: float):
    thickness = max(1, round(pitch * rng.uniform(0.02, 0.1)))
    rings = rng.choice((1, 1, 2, 2, 3))
    for ring in range(rings):
        gap = ring * (thickness + pitch * rng.uniform(0.1, 0.2))
        left, top, right, bottom = x0 - gap, y0 - gap, x1 + gap, y1 + gap
        weight = thickness if ring != 1 else max(1, thickness // 2)
        sides = "tblr" if rng.random() < 0.8 else rng.choice(("tb", "lr"))
        for side, points in {
            "t": ((left, top), (right, top)),
            "b": ((left, bottom), (right, bottom)),
            "l": ((left, top), (left, bottom)),
            "r": ((right, top), (right, bottom)),
        }.items():
            if side in sides:
                rule(canvas, rng, *points, weight)


def side_caption(canvas: Canvas, rng: random.Random, source, font: str, x: float, y0: float, y1: float, size: float):
    """Vertical text in a margin, background for the label."""
    text = "".join(next(source) for _ in range(rng.randint(1, 6))).strip()
    if rng.random() < 0.3:
        text = str(rng.randint(1, 400))
    typeface = load_font(font, max(7, round(size)))
    left, top, right, bottom = typeface.getbbox(text, anchor="ls", language="bo")
    if right <= left or bottom <= top or right - left > (y1 - y0):
        return
    image = Image.new("L", (right - left, bottom - top), 0)
    ImageDraw.Draw(image).text((-left, -top), text, font=typeface, fill=255, anchor="ls", language="bo")
    mask = np.rot90(np.asarray(image), rng.choice((-1, -1, 1)))
    canvas.paste(mask, round(x - mask.shape[1] / 2), round(rng.uniform(y0, y1 - mask.shape[0])))


def illustration(canvas: Canvas, rng: random.Random, x0: int, y0: int, x1: int, y1: int):
    """Dense strokes and curves in a frame."""
    cv2.rectangle(canvas.ink, (x0, y0), (x1, y1), 255, rng.randint(1, 4))
    width, height = max(4, x1 - x0), max(4, y1 - y0)
    for _ in range(rng.randint(15, 60)):
        centre = (x0 + rng.randrange(width), y0 + rng.randrange(height))
        axes = (rng.randint(2, max(3, width // 3)), rng.randint(2, max(3, height // 4)))
        start = rng.randrange(360)
        thick = -1 if rng.random() < 0.08 else rng.randint(1, 3)
        patch = np.zeros_like(canvas.ink[y0:y1, x0:x1])
        cv2.ellipse(
            patch, (centre[0] - x0, centre[1] - y0), axes, rng.randrange(180), start, start + rng.randint(60, 360), 255, thick
        )
        np.maximum(canvas.ink[y0:y1, x0:x1], patch, out=canvas.ink[y0:y1, x0:x1])


def ornament(rng: random.Random) -> str:
    return rng.choice(("༄༅། །", "༄༅༅། །", "༄། །", "༄༅། "))


def pecha(rng: random.Random, fonts: list[str], corpus: Corpus, frame_height: int, oversampling: float) -> Canvas:
    """Loose leaf: a few long lines, often framed, captions in the margins."""
    style = pick_style(rng, fonts)
    source = corpus.syllables(rng)
    height = round(frame_height * oversampling)
    width = round(height * min(rng.uniform(*ASPECT_PECHA), rng.uniform(*ASPECT_PECHA) + 0.6))
    canvas = Canvas(width, height)
    margin_y, margin_x = height * rng.uniform(0.03, 0.27), width * rng.uniform(0.02, 0.16)
    lines = rng.choices(range(1, 13), (1, 1, 1, 3, 5, 7, 7, 6, 5, 3, 2, 1))[0]
    pitch = (height - 2 * margin_y) / lines
    if lines < 4:
        pitch = min(pitch, height / rng.uniform(4, 9))
    size = font_size_for(style, pitch, rng, 1.5)
    metrics = font_metrics(style.font)
    unit = band_pitch(style.font, size, pitch)
    x0, x1 = margin_x, width - margin_x
    top = margin_y if lines >= 4 else rng.uniform(margin_y, max(margin_y, height - margin_y - pitch * lines))
    inset_left, inset_right = (pitch * rng.uniform(0.05, 0.6) for _ in range(2))
    framed = rng.random() < 0.6
    text_x0, text_x1 = x0 + inset_left, x1 - inset_right
    if framed and rng.random() < 0.35:
        for side in rng.choice(("l", "r", "lr", "lr")):
            depth = pitch * rng.uniform(0.6, 2.2)
            strokes = rng.choice((1, 2))
            for i in range(strokes):
                x = (x0 + depth + i * pitch * 0.15) if side == "l" else (x1 - depth - i * pitch * 0.15)
                rule(canvas, rng, (x, margin_y), (x, height - margin_y), max(1, round(pitch * rng.uniform(0.02, 0.07))))
            if side == "l":
                text_x0 = x0 + depth + strokes * pitch * 0.15 + inset_left
            else:
                text_x1 = x1 - depth - strokes * pitch * 0.15 - inset_right
            caption_x = x0 + depth / 2 if side == "l" else x1 - depth / 2
            if rng.random() < 0.7:
                side_caption(canvas, rng, source, style.font, caption_x, margin_y, height - margin_y, size * rng.uniform(0.4, 0.7))
    blocked: list[tuple[float, float, float, float]] = []
    breaks: tuple[float, ...] = ()
    if rng.random() < 0.1:
        block = (height - 2 * margin_y) * rng.uniform(0.5, 0.9)
        for side in rng.choice(("l", "r", "lr", "m")):
            if side == "l":
                xa = text_x0
                text_x0 += block + pitch * 0.3
            elif side == "r":
                text_x1 -= block + pitch * 0.3
                xa = text_x1 + pitch * 0.3
            else:
                xa = (text_x0 + text_x1 - block) / 2
                blocked.append((xa - pitch * 0.2, xa + block + pitch * 0.2, 0, height))
                breaks = (xa + block / 2,)
            illustration(canvas, rng, round(xa), round(margin_y * 1.05), round(xa + block), round(height - margin_y * 1.05))
    elif rng.random() < 0.14:
        radius = pitch * rng.uniform(0.4, 1.1)
        outlined = rng.random() < 0.75
        for share in rng.choice(((0.5,), (0.3, 0.7), (0.3, 0.7))):
            x, y = text_x0 + (text_x1 - text_x0) * share, height / 2
            if outlined:
                cv2.circle(canvas.ink, (round(x), round(y)), round(radius), 255, max(1, round(pitch * rng.uniform(0.02, 0.06))))
            if rng.random() < 0.5:
                cv2.circle(canvas.ink, (round(x), round(y)), max(1, round(pitch * 0.08)), 255, -1)
            blocked.append((x - radius * 1.3, x + radius * 1.3, y - radius * 1.2, y + radius * 1.2))
    above = (pitch - metrics.tall * size) / 2 + (metrics.head - metrics.top) * size
    for i in range(lines):
        head = top + pitch * i + above
        share = rng.uniform(0.1, 0.9) if (i == lines - 1 and rng.random() < 0.3) or rng.random() < 0.03 else 1.0
        start = text_x0 + (rng.uniform(0, 0.4) * (text_x1 - text_x0) if rng.random() < 0.04 else 0)
        end = text_x0 + (text_x1 - text_x0) * share
        runs: list[Run] = []
        if i == 0 and rng.random() < 0.4:
            mark = ornament(rng)
            runs.append(Run(mark, start, head, size))
            start += advance(style.font, mark) * size + rng.uniform(0, 4) * size * (rng.random() < 0.4)
        edges = [start]
        for xa, xb, ya, yb in blocked:
            if ya < head + 0.5 * unit and head < yb:
                edges += [xa, xb]
        edges.append(end)
        for xa, xb in zip(edges[::2], edges[1::2]):
            if xb - xa > size:
                runs += fill_line(rng, source, style, xa, xb, head, size)
        canvas.line(style.font, Line(runs, head, unit, breaks))
        if rng.random() < 0.02:
            note = Run("".join(next(source) for _ in range(3)).strip(), rng.uniform(text_x0, text_x1), head - size * 0.18, size * 0.3)
            canvas.text(style.font, note)
    if rng.random() < 0.06:
        for x in (x0, width / 2, x1 - size * 6):
            caption = Run(rng.choice(("Digital edition of the library", "Catalogue 1234", "vol. ", "Folio ")), x, height * 0.03, size * 0.3)
            canvas.text(style.font, caption)
    if framed:
        pad = pitch * rng.uniform(-0.05, 0.15)
        frame_rules(canvas, rng, x0, margin_y - pad, x1, height - margin_y + pad, pitch)
    if rng.random() < 0.5:
        for x in rng.choice(((x0 / 2,), (width - x0 / 2,), (x0 / 2, width - x0 / 2))):
            side_caption(canvas, rng, source, style.font, x, margin_y, height - margin_y, size * rng.uniform(0.35, 0.65))
    return canvas


def book(rng: random.Random, fonts: list[str], corpus: Corpus, frame_height: int, oversampling: float) -> Canvas:
    """Modern portrait page: header, paragraphs, verses, titles, footnotes, sometimes two columns."""
    style = pick_style(rng, fonts)
    style.jitter = 0.0
    style.spread = 0.0
    style.latin_rate = 0.01 if rng.random() < 0.2 else 0.0
    source = corpus.syllables(rng)
    height = round(frame_height * oversampling)
    width = round(height * rng.uniform(*ASPECT_BOOK))
    canvas = Canvas(width, height)
    lines = rng.randint(10, 36)
    margin_x = width * rng.uniform(0.01, 0.14)
    top, bottom = height * rng.uniform(0.02, 0.12), height * rng.uniform(0.9, 0.99)
    pitch = (bottom - top) / lines
    size = font_size_for(style, pitch, rng, 1.7)
    metrics = font_metrics(style.font)
    columns = 2 if rng.random() < 0.12 else 1
    gutter = width * rng.uniform(0.03, 0.07)
    column_width = (width - 2 * margin_x - gutter * (columns - 1)) / columns
    header = rng.random() < 0.6
    y = top
    above = (metrics.head - metrics.top) * size

    def short(text: str, x: float, head: float, scale: float = 1.0):
        canvas.line(style.font, Line([Run(text, x, head, size * scale)], head, band_pitch(style.font, size * scale, pitch)))

    if header:
        words = "".join(next(source) for _ in range(rng.randint(2, 7))).strip()
        number = rng.choice((str(rng.randint(1, 500)), "༠༡༢༣༤༥"[rng.randrange(6)] + "༧"))
        scale = rng.uniform(0.65, 1.0)
        runs = [Run(words, margin_x + rng.uniform(0, 0.5) * column_width, y + above, size * scale)]
        if rng.random() < 0.6:
            runs.append(Run(number, width - margin_x - size * 1.5, y + above, size * scale))
        canvas.line(style.font, Line(runs, y + above, band_pitch(style.font, size * scale, pitch)))
        y += pitch * rng.uniform(1.0, 1.4)
        if rng.random() < 0.5:
            rule(canvas, rng, (margin_x, y), (width - margin_x, y), max(1, round(pitch * rng.uniform(0.02, 0.09))))
        y += pitch * rng.uniform(0.2, 0.7)
    notes = rng.random() < 0.2
    floor = bottom - pitch * (rng.uniform(2, 5) if notes else 0) - pitch
    for column in range(columns):
        left = margin_x + column * (column_width + gutter)
        right = left + column_width
        cursor, verse = y, 0
        while cursor < floor:
            head = cursor + above
            if verse == 0 and rng.random() < 0.06:
                verse = rng.randint(2, 8)
            if verse:
                verse -= 1
                indent = column_width * (0.12 if rng.random() < 0.9 else 0.25)
                runs = fill_line(rng, source, style, left + indent, left + indent + column_width * rng.uniform(0.3, 0.55), head, size)
                if rng.random() < 0.4:
                    runs.append(Run("།", left + column_width * 0.72, head, size))
                canvas.line(style.font, Line(runs, head, band_pitch(style.font, size, pitch)))
            elif rng.random() < 0.04:
                title = "".join(next(source) for _ in range(rng.randint(2, 6))).strip()
                short(title, left + rng.uniform(0, 0.3) * column_width, head, rng.uniform(1.0, 1.3))
                cursor += pitch * rng.uniform(0.2, 0.6)
            else:
                indent = size * 2 if rng.random() < 0.15 else 0
                share = rng.uniform(0.08, 0.9) if rng.random() < 0.12 else 1.0
                runs = fill_line(rng, source, style, left + indent, left + column_width * share, head, size)
                canvas.line(style.font, Line(runs, head, band_pitch(style.font, size, pitch)))
            cursor += pitch
            if rng.random() < 0.06:
                cursor += pitch * rng.uniform(0.2, 1.0)
    if notes:
        cursor = floor + pitch * 0.7
        rule(canvas, rng, (margin_x, cursor), (margin_x + width * rng.uniform(0.2, 0.8), cursor), max(1, round(pitch * 0.03)))
        cursor += pitch * 0.2
        scale = rng.uniform(0.6, 0.8)
        while cursor < bottom - pitch * 1.4:
            head = cursor + above * scale
            runs = fill_line(rng, source, style, margin_x, width - margin_x, head, size * scale)
            canvas.line(style.font, Line(runs, head, band_pitch(style.font, size * scale, pitch * scale)))
            cursor += pitch * scale
    if rng.random() < 0.6:
        short(str(rng.randint(1, 500)), rng.choice((margin_x, width / 2, width - margin_x - size * 2)), bottom - size * 0.5, 0.8)
    return canvas


def sheet(rng: random.Random, fonts: list[str], corpus: Corpus, frame_height: int, oversampling: float) -> Canvas:
    """Title pages and forms: few lines of different sizes, boxes and rules."""
    style = pick_style(rng, fonts)
    source = corpus.syllables(rng)
    height = round(frame_height * oversampling)
    width = round(height * rng.uniform(0.7, 4.5))
    canvas = Canvas(width, height)
    y, ruled = height * rng.uniform(0.05, 0.3), rng.random() < 0.5
    left, right = width * rng.uniform(0.05, 0.3), width * rng.uniform(0.7, 0.95)
    if ruled:
        rule(canvas, rng, (left, 0), (left, height), 2)
        rule(canvas, rng, (right, 0), (right, height), 2)
    while y < height * 0.9:
        pitch = height * rng.uniform(0.06, 0.2)
        style.font = rng.choice(fonts) if rng.random() < 0.4 else style.font
        size = font_size_for(style, pitch, rng, 1.6)
        metrics = font_metrics(style.font)
        unit = band_pitch(style.font, size, pitch)
        head = y + (metrics.head - metrics.top) * size
        if head + (metrics.bottom - metrics.head) * size > height:
            break
        end = left + (right - left) * rng.uniform(0.3, 0.98)
        canvas.line(style.font, Line(fill_line(rng, source, style, left + size * 0.3, end, head, size), head, unit))
        y += max(pitch, metrics.tall * size) * rng.uniform(1.0, 1.6)
        if ruled:
            rule(canvas, rng, (left, y), (right, y), rng.randint(1, 3))
            y += pitch * 0.1
        if rng.random() < 0.2:
            y += pitch
    if rng.random() < 0.4:
        frame_rules(canvas, rng, width * 0.03, height * 0.03, width * 0.97, height * 0.97, height * 0.08)
    return canvas


def smooth_noise(noise: np.random.Generator, height: int, width: int, cell: float) -> np.ndarray:
    grid = noise.random((max(2, int(height / cell) + 2), max(2, int(width / cell) + 2)), dtype=np.float32)
    return cv2.resize(grid, (width, height), interpolation=cv2.INTER_LINEAR)


def distort(rng: random.Random, noise: np.random.Generator, canvas: Canvas, fill_line_pitch: float):
    """Waves, local wobble, rotation and perspective, the same for ink and bands."""
    height, width = canvas.ink.shape
    angle = np.radians(rng.choice((0.0, rng.gauss(0, 0.7), rng.uniform(-1.5, 1.5), rng.uniform(-4, 4))))
    extra = int(abs(np.sin(angle)) * width / 2)
    grown = height + 2 * extra
    v, u = np.mgrid[0:grown, 0:width].astype(np.float32)
    v -= extra
    cx, cy, cos, sin = width / 2, height / 2, np.cos(angle), np.sin(angle)
    x = cx + (u - cx) * cos + (v - cy) * sin
    y = cy - (u - cx) * sin + (v - cy) * cos
    if rng.random() < 0.5:
        keystone_x, keystone_y = rng.gauss(0, 0.015), rng.gauss(0, 0.015)
        weight = 1 + keystone_x * (x - cx) / cx + keystone_y * (y - cy) / cy
        x, y = cx + (x - cx) / weight, cy + (y - cy) / weight
    if rng.random() < 0.7:
        for _ in range(2):
            length, phase = rng.uniform(0.35, 2.5) * width, rng.uniform(0, 6.28)
            slope = min(rng.expovariate(1 / 0.5) * fill_line_pitch, 0.02 * length)
            y = y + slope * np.sin(2 * np.pi * x / length + phase)
    if rng.random() < 0.4:
        strength = rng.uniform(0.1, 0.5) * fill_line_pitch
        y = y + strength * (smooth_noise(noise, grown, width, fill_line_pitch * rng.uniform(3, 8)) - 0.5)
    x, y = x.astype(np.float32), y.astype(np.float32)
    ink = cv2.remap(canvas.ink, x, y, cv2.INTER_LINEAR, borderValue=0)
    bands = cv2.remap(canvas.bands, x, y, cv2.INTER_LINEAR, borderValue=0)
    return ink, bands


def inked(rng: random.Random, noise: np.random.Generator, ink: np.ndarray, letter: float) -> np.ndarray:
    """Strokes as they print: swollen or thin, rough, worn; 0..1."""
    height, width = ink.shape
    strokes = ink.astype(np.float32) / 255
    swell = rng.random()
    if swell < 0.2 and letter > 14:
        strokes = cv2.dilate(strokes, np.ones((3, 3), np.uint8))
    elif swell < 0.3 and letter > 30:
        strokes = cv2.erode(strokes, np.ones((2, 2), np.uint8))
    strength = rng.choice((0.0, 0.2, 0.5, 0.9)) * min(1.0, letter / 30)
    if strength:
        soft = cv2.GaussianBlur(strokes, (0, 0), rng.uniform(0.7, 1.4))
        rough = smooth_noise(noise, height, width, rng.uniform(1.5, 4)) - 0.5
        strokes = np.clip((soft + rough * 0.6 * strength - 0.5) * 3 + 0.5, 0, 1)
        wear = smooth_noise(noise, height, width, 40) * 0.6 + smooth_noise(noise, height, width, 6) * 0.4
        strokes *= np.clip(1.3 - np.clip(wear - (0.85 - 0.3 * strength), 0, 1) * 5 * strength, 0.1, 1)
    if rng.random() < 0.15:
        strokes *= 0.55 + 0.45 * smooth_noise(noise, height, width, width / rng.uniform(2, 6))
    return strokes


def scratches(rng: random.Random, image: np.ndarray, level: float, count: int):
    height, width = image.shape
    for _ in range(count):
        x, y, a = rng.randrange(width), rng.randrange(height), rng.uniform(0, 3.14)
        length = rng.randint(10, 150)
        end = (int(x + length * np.cos(a)), int(y + length * np.sin(a)))
        cv2.line(image, (x, y), end, level, rng.choice((1, 1, 2, 3)))


def ragged_edges(rng: random.Random, image: np.ndarray, level: float, count: int):
    """Long uneven strokes and strips of dirt along the upper and lower edge of a leaf."""
    height, width = image.shape
    for _ in range(count):
        near = height * abs(rng.gauss(0, 0.06))
        y = near if rng.random() < 0.5 else height - near
        start = rng.uniform(-0.3, 0.8) * width
        end = start + rng.uniform(0.15, 1.2) * width
        points = rng.randint(8, 90)
        x = np.linspace(start, end, points)
        walk = np.cumsum([rng.gauss(0, 1) for _ in range(points)])
        walk = (walk - np.linspace(0, walk[-1], points)) * rng.uniform(0.001, 0.006) * height
        outline = np.stack([x, y + walk + np.linspace(0, rng.gauss(0, 0.02) * height, points)], 1).astype(np.int32)
        cv2.polylines(image, [outline], False, level, rng.choice((1, 1, 2, 3, 5)))
        if rng.random() < 0.5:
            depth = rng.uniform(0.005, 0.03) * height
            for _ in range(int((end - start) * rng.uniform(0.02, 0.25))):
                at = rng.randrange(points)
                spot = (int(outline[at, 0] + rng.gauss(0, 0.02) * width), int(outline[at, 1] + rng.gauss(0, 1) * depth))
                cv2.circle(image, spot, rng.choice((0, 1, 1, 2)), level, -1)


def specks(rng: random.Random, noise: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Blotches and fibres of coarse paper, denser in some regions; 0..1."""
    grain = cv2.GaussianBlur(noise.random((height, width), dtype=np.float32), (0, 0), rng.uniform(0.7, 2.2))
    grain = (grain - grain.mean()) / grain.std()
    where = smooth_noise(noise, height, width, height / rng.uniform(1.5, 5))
    limit = rng.uniform(1.6, 3.6) + rng.uniform(0, 3) * where
    return np.clip((grain - limit) * 2.5, 0, 1)


def bilevel_scan(rng: random.Random, noise: np.random.Generator, strokes: np.ndarray) -> np.ndarray:
    """One-bit scan with specks and black borders."""
    black = strokes > rng.uniform(0.25, 0.65)
    density = rng.choice((0.0, 0.0, 1e-5, 1e-4, 6e-4))
    if density:
        specks = (noise.random(strokes.shape, dtype=np.float32) < density).astype(np.uint8)
        black |= cv2.dilate(specks, np.ones((rng.randint(1, 4), rng.randint(1, 4)), np.uint8)) > 0
    grey = np.where(black, 0, 255).astype(np.uint8)
    if rng.random() < 0.25:
        scratches(rng, grey, 0, rng.randint(1, 12))
    if rng.random() < 0.3:
        ragged_edges(rng, grey, 0, rng.randint(1, 4))
    dark_edges(rng, grey, 0.2)
    return grey


def dark_edges(rng: random.Random, grey: np.ndarray, chance: float):
    """Black strips where the page ended on the scanner."""
    height, width = grey.shape
    for side in "tblr":
        if rng.random() < chance:
            depth = round((height if side in "tb" else width) * rng.uniform(0.004, 0.03))
            across = width if side in "tb" else height
            edge = depth + np.cumsum([rng.gauss(0, 0.7) for _ in range(24)])
            edge = np.interp(np.arange(across), np.linspace(0, across, 24), edge)
            rows = np.arange(depth * 4 + 8)
            mask = rows[:, None] < edge[None, :]
            region = {
                "t": grey[: len(rows)],
                "b": grey[::-1][: len(rows)],
                "l": grey.T[: len(rows)],
                "r": grey.T[::-1][: len(rows)],
            }[side]
            region[mask[: region.shape[0]]] = rng.randint(0, 60)


def grey_scan(rng: random.Random, noise: np.random.Generator, strokes: np.ndarray, letter: float) -> np.ndarray:
    """Photograph or grey scan of a leaf on uneven, stained, transparent paper."""
    height, width = strokes.shape
    paper = rng.choice((rng.uniform(190, 250), rng.uniform(130, 200), rng.uniform(95, 150)))
    ink_level = paper * rng.choice((rng.uniform(0.08, 0.35), rng.uniform(0.08, 0.35), rng.uniform(0.35, 0.68)))
    faintest = np.searchsorted(LINEAR, max(2, int(LINEAR[int(paper * 0.9)]) - rng.uniform(26, 60)))
    ink_level = min(ink_level, float(faintest))
    page = np.full((height, width), paper, np.float32)
    page += (smooth_noise(noise, height, width, 260) - 0.5) * rng.uniform(0, 40)
    page += (smooth_noise(noise, height, width, 50) - 0.5) * rng.uniform(0, 20)
    page += (smooth_noise(noise, height, width, rng.uniform(2, 8)) - 0.5) * rng.uniform(0, 24)
    for _ in range(rng.choice((0, 0, 1, 3, 6))):
        x, y, radius = rng.randrange(width), rng.randrange(height), rng.uniform(0.03, 0.25) * height
        spot = np.zeros((height, width), np.uint8)
        cv2.ellipse(spot, (x, y), (int(radius) + 1, int(radius * rng.uniform(0.3, 1)) + 1), rng.randrange(180), 0, 360, 255, -1)
        spot = cv2.blur(spot, (int(radius / rng.uniform(1.5, 12)) + 1,) * 2)
        page -= spot.astype(np.float32) * (rng.uniform(10, 70) / 255)
    if rng.random() < 0.45:
        page -= specks(rng, noise, height, width) * rng.uniform(0.25, 0.7) * paper
    if rng.random() < 0.3:
        scratches(rng, page, paper * rng.uniform(0.5, 0.85), rng.randint(3, 60))
    if rng.random() < 0.4:
        ragged_edges(rng, page, paper * rng.uniform(0.1, 0.7), rng.randint(1, 6))
    if rng.random() < 0.3:
        back = cv2.GaussianBlur(np.fliplr(strokes), (0, 0), max(0.8, letter * rng.uniform(0.03, 0.12)))
        page -= np.roll(back, rng.randint(-20, 20), 0) * rng.uniform(3, paper * 0.14)
    page = page * (1 - strokes) + np.minimum(page, ink_level) * strokes
    if rng.random() < 0.5:
        light = np.linspace(rng.uniform(0.75, 1.0), rng.uniform(0.8, 1.05), width, dtype=np.float32)
        page *= light[None, :]
    if rng.random() < 0.25:
        page = on_black_ground(rng, noise, page)
    if rng.random() < 0.6:
        page = cv2.GaussianBlur(page, (0, 0), rng.uniform(0.4, max(0.6, letter * 0.06)))
    page += noise.normal(0, rng.choice((0.5, 2, 5, 9)), page.shape)
    grey = np.clip(page, 0, 255).astype(np.uint8)
    dark_edges(rng, grey, 0.12)
    if rng.random() < 0.6:
        encoded = cv2.imencode(".jpg", grey, [cv2.IMWRITE_JPEG_QUALITY, rng.randint(25, 80)])[1]
        grey = cv2.imdecode(encoded, cv2.IMREAD_GRAYSCALE)
    return grey


def on_black_ground(rng: random.Random, noise: np.random.Generator, page: np.ndarray) -> np.ndarray:
    """Lets the ground show along ragged page edges without touching the inner 94 per cent."""
    height, width = page.shape
    leaf = np.zeros((height, width), np.float32)
    inset_x, inset_y = width * rng.uniform(0.004, 0.02), height * rng.uniform(0.005, 0.03)
    cv2.rectangle(leaf, (int(inset_x), int(inset_y)), (int(width - inset_x), int(height - inset_y)), 1.0, -1)
    ragged = smooth_noise(noise, height, width, rng.uniform(10, 60)) - 0.5
    leaf = cv2.GaussianBlur(leaf, (0, 0), max(1.0, inset_y * 0.5)) + ragged * rng.uniform(0, 0.5)
    inside = cv2.GaussianBlur((leaf > 0.5).astype(np.float32), (0, 0), 0.8)
    ground = rng.uniform(5, 45) if rng.random() < 0.8 else rng.uniform(200, 255)
    return page * inside + ground * (1 - inside)


def render_page(rng: random.Random, fonts: list[str], corpus: Corpus) -> tuple[np.ndarray, np.ndarray, str]:
    """One prepared frame (1 = paper, 0 = ink), its bands (1 = band) and the kind of page; almost all lines are legible."""
    while True:
        frame, bands, kind = render_once(rng, fonts, corpus)
        visible = without_lost_lines(frame, bands)
        if visible.sum() > LEGIBLE_SHARE * bands.sum():
            return frame, visible, kind


def render_once(rng: random.Random, fonts: list[str], corpus: Corpus) -> tuple[np.ndarray, np.ndarray, str]:
    noise = np.random.default_rng(rng.getrandbits(63))
    kind = rng.choices(("pecha", "book", "sheet"), (0.6, 0.3, 0.1))[0]
    oversampling = rng.choice((1.0, 1.0, 1.3, 1.7, 2.2))
    if kind == "pecha":
        canvas = pecha(rng, fonts, corpus, rng.choice((512, 512, 512, 512, 640, 900, rng.randint(260, 512))), oversampling)
    elif kind == "book":
        canvas = book(rng, fonts, corpus, rng.choice((1024, 1024, 1024, 800, rng.randint(500, 1024))), oversampling)
    else:
        canvas = sheet(rng, fonts, corpus, rng.choice((512, 1024)), oversampling)
    band_rows = cv2.connectedComponentsWithStats(canvas.bands)[2][1:, cv2.CC_STAT_HEIGHT]
    pitch = float(np.median(band_rows)) / (ABOVE_HEAD + BELOW_HEAD) if band_rows.size else 40.0
    ink, bands = distort(rng, noise, canvas, pitch)
    letter = pitch * 0.35
    strokes = inked(rng, noise, ink, letter)
    binary = rng.random() < 0.3
    grey = bilevel_scan(rng, noise, strokes) if binary else grey_scan(rng, noise, strokes, letter)
    height, width = grey.shape
    size = frame_size(width, height)
    if rng.random() < 0.25:
        factor = rng.uniform(0.45, 1.0)
        size = (max(64, int(size[0] * factor)), max(64, int(size[1] * factor)))
    elif oversampling > 1 and rng.random() < 0.1:
        size = (width, height)
    frame = prepare(grey, size)
    shrunk = cv2.resize(bands, size, interpolation=cv2.INTER_AREA) if size != (width, height) else bands
    return frame, (shrunk > 127).astype(np.uint8), kind


def without_lost_lines(frame: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """Drops the bands whose ink did not survive the binarisation."""
    count, labels = cv2.connectedComponents(bands)
    area = np.bincount(labels.ravel(), minlength=count)
    ink = np.bincount(labels.ravel(), weights=1.0 - frame.ravel(), minlength=count)
    visible = ink > FAINTEST_LINE * area
    visible[0] = False
    return visible[labels].astype(np.uint8)


def page_tiles(rng: random.Random, frame: np.ndarray, bands: np.ndarray, blank_share: float = 0.08):
    """Tiles of a page as at run time; of those without a line only a share."""
    inputs, labels = tiles(frame, 1).reshape(-1, TILE, TILE), tiles(bands, 0).reshape(-1, TILE, TILE)
    keep = [i for i in range(len(inputs)) if labels[i].mean() > 0.01 or rng.random() < blank_share]
    return inputs[keep], labels[keep]


def font_paths(folder: str, held_out: bool) -> list[str]:
    paths = sorted(p for p in Path(folder).iterdir() if p.suffix in (".ttf", ".otf"))
    return [str(p) for p in paths if (p.name in HELD_OUT_FONTS) == held_out]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fonts", required=True, help="folder with Tibetan fonts")
    parser.add_argument("--corpus", required=True, help="plain text, one segment a line")
    parser.add_argument("--out", required=True, help="folder for the shards")
    parser.add_argument("--pages", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=int, default=25, help="pages per shard")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    fonts, corpus = font_paths(arguments.fonts, held_out=False), Corpus(arguments.corpus)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    inputs, labels = [], []
    for page in range(arguments.pages):
        rng = random.Random(arguments.seed * 1_000_003 + page)
        frame, bands, _ = render_page(rng, fonts, corpus)
        tile_inputs, tile_labels = page_tiles(rng, frame, bands)
        inputs.append(np.packbits(tile_inputs, axis=-1))
        labels.append(np.packbits(tile_labels, axis=-1))
        if (page + 1) % arguments.shard == 0 or page + 1 == arguments.pages:
            name = f"seed{arguments.seed:03d}_{page // arguments.shard:05d}"
            partial = out / f"{name}.partial"
            with open(partial, "wb") as file:
                np.savez(file, pages=np.concatenate(inputs), bands=np.concatenate(labels))
            partial.rename(out / f"{name}.npz")
            inputs, labels = [], []


if __name__ == "__main__":
    main()
