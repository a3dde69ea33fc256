"""Cuts real lines between syllables, for joining pieces of several to new ones that a network cannot know by heart."""

import random
from dataclasses import dataclass

import numpy as np

STRIDE = 4
TSHEG = "་"
CORE = slice(16, 46)
MOST_INK = 200


@dataclass
class Cut:
    """A column without ink after a tsheg, and how many stacks stand before it."""

    column: int
    stack: int


def best_path(log_probs: np.ndarray, classes: list[int]) -> list[tuple[int, int]] | None:
    """First and last frame of every class on the most probable CTC path that writes all of them; none if there is no path."""
    frames, states = len(log_probs), 2 * len(classes) + 1
    labels = np.zeros(states, int)
    labels[1::2] = classes
    skips = np.zeros(states, bool)
    skips[2:] = (labels[2:] != 0) & (labels[2:] != labels[:-2])
    score = np.full(states, -np.inf)
    score[:2] = log_probs[0, labels[:2]]
    steps = np.zeros((frames, states), np.int8)
    for frame in range(1, frames):
        options = np.full((3, states), -np.inf)
        options[0], options[1, 1:], options[2, 2:] = score, score[:-1], score[:-2]
        options[2, ~skips] = -np.inf
        steps[frame] = options.argmax(0)
        score = options.max(0) + log_probs[frame, labels]
    state = states - 1 if score[-1] >= score[-2] else states - 2
    if not np.isfinite(score[state]):
        return None
    spans: list[list[int]] = [[-1, -1] for _ in classes]
    for frame in range(frames - 1, -1, -1):
        if state % 2:
            span = spans[state // 2]
            span[0], span[1] = frame, span[1] if span[1] >= 0 else frame
        state -= int(steps[frame, state])
    return [(first, last) for first, last in spans]


def cuts(ink: np.ndarray, units: list[list[int]], log_probs: np.ndarray, tsheg: int) -> list[Cut]:
    """Where a line can be cut. `units` are the classes of each stack, `tsheg` the class of a tsheg."""
    spans = best_path(log_probs, sum(units, []))
    if spans is None:
        return []
    found, place = [Cut(0, 0)], 0
    for number, unit in enumerate(units[:-1]):
        place += len(unit)
        if unit != [tsheg] or place >= len(spans):
            continue
        begin, end = STRIDE * spans[place - 1][1] + 2, min(STRIDE * spans[place][0] + 4, ink.shape[1])
        if end - begin < 2:
            continue
        columns = ink[CORE, begin:end].astype(int).sum(0)
        if columns.min() <= MOST_INK:
            middle = np.flatnonzero(columns == columns.min())
            found.append(Cut(begin + int(middle[len(middle) // 2]), number + 1))
    return found + [Cut(ink.shape[1], len(units))]


def piece(rng: random.Random, ink: np.ndarray, units: list[str], places: list[Cut], width: float) -> tuple[np.ndarray, str] | None:
    """A random part of a line that is about `width` wide, and what it says."""
    first = rng.randrange(len(places) - 1)
    reaches = (n for n in range(first + 1, len(places)) if places[n].column - places[first].column >= width)
    last = next(reaches, len(places) - 1)
    text = "".join(units[places[first].stack : places[last].stack])
    columns = ink[:, places[first].column : places[last].column]
    return (columns, text) if columns.shape[1] >= 24 and text else None
