"""The kinds of pages that are rendered: pechas, books and sheets of manuscript."""

import random

import cv2
import numpy as np
from PIL import Image, ImageDraw

from page_drawing import (
    CAPTION,
    IMAGE,
    MARGIN,
    NOTE,
    PAGE_NUMBER,
    PLAIN,
    Canvas,
    Corpus,
    Line,
    Run,
    advance,
    band_pitch,
    fill_line,
    font_metrics,
    font_size_for,
    load_font,
    pick_style,
)

ASPECT_PECHA = (2.2, 6.6)
ASPECT_BOOK = (0.58, 0.82)
TIBETAN_DIGITS = str.maketrans("0123456789", "༠༡༢༣༤༥༦༧༨༩")


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
    text = "".join(next(source) for _ in range(rng.randint(1, 9))).strip()
    if rng.random() < 0.3:
        text = str(rng.randint(1, 400)) + ("  " + text if rng.random() < 0.4 else "")
    typeface = load_font(font, max(7, round(size)))
    left, top, right, bottom = typeface.getbbox(text, anchor="ls", language="bo")
    if right <= left or bottom <= top or right - left > (y1 - y0):
        return
    image = Image.new("L", (right - left, bottom - top), 0)
    ImageDraw.Draw(image).text((-left, -top), text, font=typeface, fill=255, anchor="ls", language="bo")
    mask = np.rot90(np.asarray(image), rng.choice((-1, -1, 1)))
    left, top = round(x - mask.shape[1] / 2), round(rng.uniform(y0, y1 - mask.shape[0]))
    canvas.paste(mask, left, top)
    canvas.mark(MARGIN, left, top, left + mask.shape[1], top + mask.shape[0])


def illustration(canvas: Canvas, rng: random.Random, x0: int, y0: int, x1: int, y1: int):
    """Dense strokes and curves, mostly in a frame and often symmetrical, as deities on a throne are."""
    canvas.mark(IMAGE, x0, y0, x1, y1)
    if rng.random() < 0.85:
        cv2.rectangle(canvas.ink, (x0, y0), (x1, y1), 255, rng.randint(1, 4))
    drawn = canvas.ink[y0:y1, x0:x1]
    height, width = drawn.shape
    if min(height, width) < 8:
        return
    picture = np.zeros_like(drawn)
    for _ in range(rng.choice((rng.randint(15, 60), rng.randint(60, 200)))):
        centre = (rng.randrange(width), rng.randrange(height))
        axes = (rng.randint(2, max(3, width // 3)), rng.randint(2, max(3, height // 4)))
        start = rng.randrange(360)
        thick = -1 if rng.random() < 0.08 else rng.randint(1, 3)
        cv2.ellipse(picture, centre, axes, rng.randrange(180), start, start + rng.randint(60, 360), 255, thick)
    for halo in range(rng.choice((0, 1, 3))):
        centre = (width // 2, round(height * rng.uniform(0.25, 0.5)))
        cv2.circle(picture, centre, round(min(height, width) * (0.12 + 0.1 * halo)), 255, rng.randint(1, 3))
    if rng.random() < 0.5:
        picture = np.maximum(picture, picture[:, ::-1])
    np.maximum(drawn, picture, out=drawn)


def ornament(rng: random.Random) -> str:
    return rng.choice(("༄༅། །", "༄༅༅། །", "༄། །", "༄༅། "))


def frieze(canvas: Canvas, rng: random.Random, x0: float, x1: float, y0: float, y1: float):
    """A strip of repeated ornament beside the text."""
    left, right, top, bottom = round(x0), round(x1), round(y0), round(y1)
    if right - left < 6 or bottom - top < 12:
        return
    motif = np.zeros((max(4, round((right - left) * rng.uniform(0.5, 1.2))), right - left), np.uint8)
    for _ in range(rng.randint(3, 9)):
        centre = (rng.randrange(motif.shape[1]), rng.randrange(motif.shape[0]))
        axes = (rng.randint(1, max(2, motif.shape[1] // 3)), rng.randint(1, max(2, motif.shape[0] // 3)))
        cv2.ellipse(motif, centre, axes, rng.randrange(180), 0, rng.randint(90, 360), 255, rng.choice((-1, 1, 1, 2, 3)))
    if rng.random() < 0.5:
        motif = np.maximum(motif, motif[:, ::-1])
    strip = np.tile(motif, (-(-(bottom - top) // motif.shape[0]), 1))[: bottom - top]
    canvas.paste(strip, left, top)
    canvas.mark(IMAGE, left, top, right, bottom)
    cv2.rectangle(canvas.ink, (left, top), (right, bottom), 255, rng.randint(1, 3))


def leaf_on_sheet(canvas: Canvas, rng: random.Random, source, font: str, size: float):
    """Captions of a publisher in small print above the leaf, whose edge shows on the sheet of the copy."""
    width, height = canvas.width, canvas.height
    latin = ("Digital edition of the library", "Catalogue 1234", "Manuscript kept at the monastery", "Volume 12, New Delhi")
    row = height * rng.uniform(0.035, 0.06)
    caption = min(size * rng.uniform(0.3, 0.5), row / font_metrics(font).tall)
    for x in (width * 0.1, width * 0.5, width * 0.87):
        for i in range(rng.choice((1, 2, 2))):
            text = rng.choice(latin)[: rng.randint(8, 40)]
            if rng.random() < 0.4:
                text = "".join(next(source) for _ in range(rng.randint(2, 6))).strip()
            canvas.text(font, Run(text, x, row * (0.6 + i), caption), CAPTION)
    top, bottom, side = height * rng.uniform(0.13, 0.17), height * rng.uniform(0.93, 0.985), width * rng.uniform(0.005, 0.02)
    corners = np.array([(side, top), (width - side, top), (width - side, bottom), (side, bottom), (side, top)])
    along = np.linspace(0, 4, 160)
    outline = np.stack([np.interp(along, range(5), corners[:, axis]) for axis in range(2)], 1)
    outline += np.array([[rng.gauss(0, 0.003), rng.gauss(0, 0.003)] for _ in outline]) * height
    cv2.polylines(canvas.ink, [outline.round().astype(np.int32)], True, 255, max(1, round(height * rng.uniform(0.002, 0.008))))


def pecha(rng: random.Random, fonts: list[str], corpus: Corpus, frame_height: int, oversampling: float) -> Canvas:
    """Loose leaf: a few long lines, often framed, captions in the margins."""
    style = pick_style(rng, fonts)
    source = corpus.syllables(rng)
    height = round(frame_height * oversampling)
    width = round(height * min(rng.uniform(*ASPECT_PECHA), rng.uniform(*ASPECT_PECHA) + 0.6))
    canvas = Canvas(width, height)
    margin_y, margin_x = height * rng.uniform(0.03, 0.27), width * rng.uniform(0.02, 0.16)
    captioned = rng.random() < 0.1
    if captioned:
        margin_y = height * rng.uniform(0.19, 0.3)
    lines = rng.choices(range(1, 13), (1, 1, 1, 3, 5, 7, 7, 6, 5, 3, 2, 1))[0]
    pitch = (height - 2 * margin_y) / lines
    if lines < 4:
        pitch = min(pitch, height / rng.uniform(4, 9))
    annotated = rng.random() < 0.16
    size = font_size_for(style, pitch, rng, 1.5)
    if annotated:
        size = min(size, pitch / (font_metrics(style.font).tall * 1.2))
    metrics = font_metrics(style.font)
    unit = band_pitch(style.font, size, pitch)
    x0, x1 = margin_x, width - margin_x
    top = margin_y if lines >= 4 else rng.uniform(margin_y, max(margin_y, height - margin_y - pitch * lines))
    inset_left, inset_right = (pitch * rng.uniform(0.05, 0.6) for _ in range(2))
    framed = rng.random() < 0.6
    if lines <= 2 and rng.random() < 0.4:
        x0, x1 = width * rng.uniform(0.2, 0.42), width * rng.uniform(0.55, 0.8)
    text_x0, text_x1 = x0 + inset_left, x1 - inset_right
    if framed and rng.random() < 0.5:
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
                side_caption(canvas, rng, source, style.font, caption_x, margin_y, height - margin_y, size * rng.uniform(0.4, 1.0))
            elif rng.random() < 0.4:
                canvas.bar(caption_x, margin_y, height - margin_y, depth * rng.uniform(0.15, 0.6))
    if rng.random() < 0.06:
        for side in rng.choice(("lr", "lr", "l", "r")):
            strip = pitch * rng.uniform(0.4, 1.2)
            if side == "l":
                frieze(canvas, rng, text_x0, text_x0 + strip, margin_y, height - margin_y)
                text_x0 += strip + inset_left + pitch * 0.1
            else:
                frieze(canvas, rng, text_x1 - strip, text_x1, margin_y, height - margin_y)
                text_x1 -= strip + inset_right + pitch * 0.1
    blocked: list[tuple[float, float, float, float]] = []
    breaks: tuple[float, ...] = ()
    if rng.random() < 0.16:
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
        if share < 1 and rng.random() < 0.3:
            share = rng.uniform(0.02, 0.12)
        start = text_x0 + (rng.uniform(0, 0.4) * (text_x1 - text_x0) if rng.random() < 0.04 else 0)
        end = text_x0 + (text_x1 - text_x0) * share
        runs: list[Run] = []
        if i == 0 and rng.random() < 0.4:
            mark = ornament(rng)
            mark_size = size * (rng.uniform(1.1, 1.6) if rng.random() < 0.2 else 1.0)
            runs.append(Run(mark, start, head, mark_size))
            start += advance(style.font, mark) * mark_size + rng.uniform(0, 4) * size * (rng.random() < 0.4)
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
            canvas.text(style.font, note, NOTE)
        if annotated and rng.random() < 0.5:
            for _ in range(rng.randint(1, 3)):
                words = "".join(next(source) for _ in range(rng.randint(2, 14))).strip()
                small = size * rng.uniform(0.28, 0.45)
                room = pitch - metrics.tall * size * 0.75
                y = head - min(room, size * 0.5) * rng.uniform(0.6, 1.0) - (metrics.foot - metrics.head) * small * 0.5
                canvas.text(style.font, Run(words, rng.uniform(text_x0, text_x1 - size), y, small), NOTE)
    if captioned:
        leaf_on_sheet(canvas, rng, source, style.font, size)
    if framed:
        pad = pitch * rng.uniform(-0.05, 0.15)
        frame_rules(canvas, rng, x0, margin_y - pad, x1, height - margin_y + pad, pitch)
    if rng.random() < 0.5:
        for x in rng.choice(((x0 / 2,), (width - x0 / 2,), (x0 / 2, width - x0 / 2))):
            side_caption(canvas, rng, source, style.font, x, margin_y, height - margin_y, size * rng.uniform(0.35, 0.65))
    return canvas


def book(
    rng: random.Random, fonts: list[str], corpus: Corpus, frame_height: int, oversampling: float, columns: int | None = None
) -> Canvas:
    """Modern portrait page: header, paragraphs, verses, titles, footnotes, sometimes two columns unless their number is given."""
    style = pick_style(rng, fonts)
    style.jitter = 0.0
    style.spread = 0.0
    style.latin_rate = 0.01 if rng.random() < 0.2 else 0.0
    source = corpus.syllables(rng)
    height = round(frame_height * oversampling)
    width = round(height * rng.uniform(*ASPECT_BOOK))
    canvas = Canvas(width, height)
    lines = rng.randint(10, 40)
    margin_x = width * rng.uniform(0.01, 0.14)
    top, bottom = height * rng.uniform(0.02, 0.12), height * rng.uniform(0.9, 0.99)
    pitch = (bottom - top) / lines
    size = font_size_for(style, pitch, rng, 1.7)
    metrics = font_metrics(style.font)
    drawn = 2 if rng.random() < 0.12 else 1
    columns = columns or drawn
    gutter = width * rng.uniform(0.03, 0.07)
    column_width = (width - 2 * margin_x - gutter * (columns - 1)) / columns
    header = rng.random() < 0.6
    y = top
    above = (metrics.head - metrics.top) * size

    def short(text: str, x: float, head: float, scale: float = 1.0, kind: int = PLAIN):
        unit = band_pitch(style.font, size * scale, pitch)
        canvas.line(style.font, Line([Run(text, x, head, size * scale)], head, unit, kinds=(kind,)))

    if header:
        words = "".join(next(source) for _ in range(rng.randint(2, 7))).strip()
        number = rng.choice((str(rng.randint(1, 500)), "༠༡༢༣༤༥"[rng.randrange(6)] + "༧"))
        scale = rng.uniform(0.65, 1.0)
        runs = [Run(words, margin_x + rng.uniform(0, 0.5) * column_width, y + above, size * scale)]
        if rng.random() < 0.6:
            runs.append(Run(number, width - margin_x - size * 1.5, y + above, size * scale))
        kinds = (MARGIN, PAGE_NUMBER)[: len(runs)]
        canvas.line(style.font, Line(runs, y + above, band_pitch(style.font, size * scale, pitch), kinds=kinds))
        y += pitch * rng.uniform(1.0, 1.4)
        if rng.random() < 0.5:
            rule(canvas, rng, (margin_x, y), (width - margin_x, y), max(1, round(pitch * rng.uniform(0.02, 0.09))))
        y += pitch * rng.uniform(0.2, 0.7)
    notes = rng.random() < 0.2
    floor = bottom - pitch * (rng.uniform(2, 5) if notes else 0) - pitch
    for column in range(columns):
        left = margin_x + column * (column_width + gutter)
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
                if share < 1 and rng.random() < 0.3:
                    share = rng.uniform(0.03, 0.12)
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
        number = str(rng.randint(1, 500))
        if rng.random() < 0.4:
            number = number.translate(TIBETAN_DIGITS)
        if rng.random() < 0.25:
            number = f"- {number} -"
        x = rng.choice((margin_x, width / 2, width - margin_x - size * 2))
        short(number, x, bottom - size * 0.5, rng.uniform(0.6, 1.0), PAGE_NUMBER)
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
