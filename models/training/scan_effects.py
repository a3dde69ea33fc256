"""What ink, wear and scanners do to a drawn page."""

import random

import cv2
import numpy as np

from page_drawing import PLAIN, Canvas
from page_preparation import LINEAR

RED_INK = 0.12
"""Share of the grey scans with writing in red."""


def smooth_noise(noise: np.random.Generator, height: int, width: int, cell: float) -> np.ndarray:
    grid = noise.random((max(2, int(height / cell) + 2), max(2, int(width / cell) + 2)), dtype=np.float32)
    return cv2.resize(grid, (width, height), interpolation=cv2.INTER_LINEAR)


def distort(rng: random.Random, noise: np.random.Generator, canvas: Canvas, fill_line_pitch: float):
    """Waves, local wobble, rotation and perspective, the same for ink, bands, areas and kinds."""
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
    areas = cv2.remap(canvas.areas, x, y, cv2.INTER_NEAREST, borderValue=0)
    kinds = cv2.remap(canvas.kinds, x, y, cv2.INTER_NEAREST, borderValue=PLAIN)
    return ink, bands, areas, kinds


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


def red_ink(rng: random.Random, strokes: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """Whole lines or parts of them in red, which a grey scan shows paler than black."""
    if rng.random() >= RED_INK:
        return strokes
    strokes, paler = strokes.copy(), rng.uniform(0.35, 0.7)
    for x, y, width, height, _ in cv2.connectedComponentsWithStats((bands > 127).astype(np.uint8))[2][1:]:
        if rng.random() < 0.5:
            start, end = sorted((rng.random(), rng.random())) if rng.random() < 0.7 else (0.0, 1.0)
            rows = slice(max(0, y - height), y + 3 * height)  # of letters whose core the band is
            strokes[rows, x + int(start * width) : x + int(end * width) + 1] *= paler
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
