"""Other scans of the same line, for training the recogniser."""

import random

import cv2
import numpy as np

from render_lines import INK_PERCENTILE, LEAST_CONTRAST, PAPER_PERCENTILE

LEANING, STEEPEST_SLANT = 0.3, 0.3
UNSTEADIEST = 2.0
"""Pixels by which an unsteady hand draws a stroke elsewhere."""


def field(noise: np.random.Generator, height: int, width: int, cell_y: float, cell_x: float) -> np.ndarray:
    """Smooth random surface, -1..1."""
    grid = noise.uniform(-1, 1, (max(2, round(height / cell_y) + 1), max(2, round(width / cell_x) + 1))).astype(np.float32)
    return cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)


def warped(rng: random.Random, noise: np.random.Generator, ink: np.ndarray, strength: float) -> np.ndarray:
    """Other crop, slant and proportions; with some luck also a curled base line and letters drawn by an unsteady hand."""
    height, width = ink.shape
    stretch, scale = rng.uniform(0.86, 1.16), rng.uniform(1 - 0.25 * strength, 1 + 0.1 * strength)
    slant, slope = rng.gauss(0, 0.05), rng.gauss(0, 0.0015)
    if rng.random() < LEANING * strength:
        slant = rng.uniform(-STEEPEST_SLANT, STEEPEST_SLANT)
    shift = height / 2 * (1 - scale) + rng.uniform(-5, 5) * strength - slope * width / 2
    new_width = max(16, round(width * stretch))
    matrix = np.float32([[stretch, slant, -slant * height / 2], [slope, scale, shift]])
    if rng.random() > 0.2 + 0.5 * strength:
        return cv2.warpAffine(ink, matrix, (new_width, height), flags=cv2.INTER_LINEAR).astype(np.float32) / 255
    inverse = cv2.invertAffineTransform(matrix)
    v, u = np.arange(height, dtype=np.float32)[:, None], np.arange(new_width, dtype=np.float32)[None]
    curl = rng.uniform(0, 3.5) * field(noise, 2, new_width, 2, rng.uniform(80, 500))[:1]
    v = v + curl
    if rng.random() < 0.5:
        depth, cell = rng.uniform(0.3, UNSTEADIEST), rng.uniform(10, 40)
        v = v + depth * field(noise, height, new_width, cell, cell)
        u = u + depth * field(noise, height, new_width, cell, cell)
    if rng.random() < 0.3:
        u = u + rng.uniform(1, 6) * field(noise, 2, new_width, 2, rng.uniform(40, 160))[:1]
    inverse = inverse.astype(np.float32)
    from_x = inverse[0, 0] * u + inverse[0, 1] * v + inverse[0, 2]
    from_y = inverse[1, 0] * u + inverse[1, 1] * v + inverse[1, 2]
    return cv2.remap(ink, from_x, from_y, cv2.INTER_LINEAR).astype(np.float32) / 255


def intruded(rng: random.Random, line: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Parts of a neighbouring line at the upper or the lower edge, as a cut from a page shows them."""
    height, width = line.shape
    repeated = np.tile(other, (1, -(-width // other.shape[1]) + 1))
    start = rng.randrange(repeated.shape[1] - width + 1)
    strip = repeated[:, start : start + width].astype(np.float32) / 255
    depth = rng.randint(3, 13)
    if rng.random() < 0.5:
        line[:depth] = np.maximum(line[:depth], strip[height - 12 - depth : height - 12])
    else:
        line[height - depth :] = np.maximum(line[height - depth :], strip[10 : 10 + depth])
    return line


def worn(rng: random.Random, noise: np.random.Generator, line: np.ndarray) -> np.ndarray:
    """Ink that is faint in places, or missing in spots."""
    height, width = line.shape
    if rng.random() < 0.5:
        return line * np.clip(0.75 + rng.uniform(0.2, 0.6) * field(noise, height, width, 30, rng.uniform(10, 90)), 0, 1)
    for _ in range(max(1, round(width / rng.uniform(60, 400)))):
        spot = (rng.randrange(width), rng.randrange(height))
        axes = (rng.randint(1, 5), rng.randint(1, 5))
        cv2.ellipse(line, spot, axes, rng.randrange(180), 0, 360, rng.choice((0.0, 0.0, 0.3)), -1)
    return line


def dirtied(rng: random.Random, noise: np.random.Generator, line: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The writing of the other side, or specks."""
    height, width = line.shape
    if rng.random() < 0.5:
        back = cv2.resize(cv2.flip(other, 1), (width, height), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
        back = cv2.GaussianBlur(np.roll(back, rng.randint(-12, 12), 0), (0, 0), rng.uniform(0.8, 2.5))
        return np.maximum(line, rng.uniform(0.08, 0.3) * back)
    specks = (noise.random((height, width), dtype=np.float32) < rng.uniform(2e-4, 3e-3)).astype(np.float32)
    return np.maximum(line, rng.uniform(0.3, 1) * cv2.dilate(specks, np.ones((rng.randint(1, 3), rng.randint(1, 3)), np.uint8)))


def inked_anew(rng: random.Random, noise: np.random.Generator, line: np.ndarray) -> np.ndarray:
    """Strokes that are thicker in some places and thinner in others, as of another pen."""
    thick, thin = cv2.dilate(line, np.ones((2, 2), np.uint8)), cv2.erode(line, np.ones((2, 1), np.uint8))
    weight = rng.uniform(-0.4, 0.4) + rng.uniform(0.5, 1.2) * field(noise, *line.shape, 40, rng.uniform(15, 120))
    np.clip(weight, -1, 1, out=weight)
    return line + np.maximum(weight, 0) * (thick - line) + np.maximum(-weight, 0) * (thin - line)


def faded(rng: random.Random, noise: np.random.Generator, line: np.ndarray) -> np.ndarray:
    """Pale ink on coarse paper whose contrast was stretched as `prepared` does; of a part of the line alone, as red ink among black."""
    height, width = line.shape
    line, begin, end = line.copy(), 0, width
    if rng.random() < 0.4:
        begin, end = sorted((rng.randrange(width), rng.randrange(width)))
    line[:, begin:end] *= rng.uniform(0.25, 0.8)
    cell = rng.uniform(1.5, 9)
    line += rng.uniform(0, 0.14) * field(noise, height, width, cell, cell) + rng.uniform(0, 0.1) * field(noise, height, width, 24, 40)
    line += rng.uniform(0, 0.09) * noise.standard_normal(line.shape, dtype=np.float32)
    if rng.random() < 0.4:
        line = cv2.GaussianBlur(line, (0, 0), rng.uniform(0.4, 1.0))
    low, high = np.percentile(line[::2, ::4], (PAPER_PERCENTILE, INK_PERCENTILE))
    return (line - low) / max(LEAST_CONTRAST, high - low)


def augment(rng: random.Random, noise: np.random.Generator, ink: np.ndarray, other: np.ndarray, strength: float) -> np.ndarray:
    """Another scan of a line: other shape, strokes, paper and surroundings; 0..1. `other` is any other line."""
    line = warped(rng, noise, ink, strength)
    change = rng.random()
    if change < 0.12:
        line = cv2.dilate(line, np.ones((2, 2), np.uint8))
    elif change < 0.2:
        line = cv2.erode(line, np.ones((2, 1), np.uint8))
    elif change < 0.32:
        line = cv2.GaussianBlur(line, (0, 0), rng.uniform(0.3, 0.9))
    elif change < 0.32 + 0.12 * strength:
        small = rng.uniform(0.45, 0.85)
        coarse = cv2.resize(line, None, fx=small, fy=small, interpolation=cv2.INTER_AREA)
        line = cv2.resize(coarse, (line.shape[1], line.shape[0]), interpolation=rng.choice((cv2.INTER_LINEAR, cv2.INTER_NEAREST)))
    if rng.random() < 0.2 * strength:
        line = inked_anew(rng, noise, line)
    if rng.random() < 0.25 * strength:
        line = intruded(rng, line, other)
    if rng.random() < 0.15 * strength:
        line = worn(rng, noise, line)
    if rng.random() < 0.15 * strength:
        line = dirtied(rng, noise, line, other)
    if rng.random() < 0.22 * strength:
        line = faded(rng, noise, line)
    if rng.random() < 0.2:
        line = np.clip(line, 0, 1) ** rng.uniform(0.6, 1.6) * rng.uniform(0.8, 1.0)
    if rng.random() < 0.25:
        line = line + rng.uniform(0.01, 0.07) * noise.standard_normal(line.shape, dtype=np.float32)
    if rng.random() < 0.3 * strength:
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(line.shape[1])
            line[:, start : start + rng.randint(3, 10)] = 0
    return np.clip(line, 0, 1).astype(np.float32)
