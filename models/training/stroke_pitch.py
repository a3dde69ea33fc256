"""Gives the strokes of every line the same distance, the same steps as `models/src/recognition/line_image/strokes.rs`."""

import cv2
import numpy as np

STROKE_PITCH = 10.0
LEAST_STRETCH, MOST_STRETCH = 0.8, 2.5
DARK = 127
CORE_ROWS = 5
GAP = 32


def stroke_pitch(ink: np.ndarray) -> float:
    """Mean distance, in columns, of the strokes that a horizontal cut through the letters of an ink map meets.

    The cut is the one of `CORE_ROWS` rows that meets most strokes. More than `GAP` columns of paper count as `STROKE_PITCH`.
    Infinite for empty paper.
    """
    dark = ink > DARK
    begins = dark.copy()
    begins[:, 1:] &= ~dark[:, :-1]
    rows = begins.sum(axis=1)
    strokes = np.convolve(rows, np.ones(CORE_ROWS, int), "valid").max() / CORE_ROWS
    if strokes == 0:
        return float("inf")
    inked = np.flatnonzero(dark.any(axis=0))
    gaps = np.diff(inked)
    text = 1 + gaps[gaps <= GAP].sum() + STROKE_PITCH * np.count_nonzero(gaps > GAP)
    return float(text / strokes)


def even_strokes(ink: np.ndarray) -> np.ndarray:
    """The ink map stretched horizontally until its strokes are `STROKE_PITCH` apart, within bounds."""
    stretch = min(max(STROKE_PITCH / stroke_pitch(ink), LEAST_STRETCH), MOST_STRETCH)
    width = max(1, round(ink.shape[1] * stretch))
    return cv2.resize(ink, (width, ink.shape[0]), interpolation=cv2.INTER_LINEAR)
