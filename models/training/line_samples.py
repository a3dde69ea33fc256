"""Lines for the training and scoring of the recogniser, from shards of rendered ones and from files of real ones."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np

from line_pieces import STRIDE, Cut
from line_text import as_printed, stacks
from real_line_files import HELD_OUT_EVERY, lines_by_page, split
from render_lines import prepared
from stroke_pitch import even_strokes

WIDEST_LINE = 8000
FEWEST_FRAMES = 1.3
FEWEST_GREY_LEVELS = 9


@dataclass
class Sample:
    """Ink map [64, width], 255 = ink, its strokes evened, and what it says. Scores are listed by `group`."""

    ink: np.ndarray
    text: str
    group: str
    cuts: list[Cut] | None = None

    def __post_init__(self):
        self.ink = even_strokes(self.ink)

    def legible(self) -> bool:
        """Whether there are frames enough for its stacks; the strokes of other lines have run together."""
        return self.ink.shape[1] / STRIDE > FEWEST_FRAMES * len(stacks(as_printed(self.text)))


def pool_shard(path: Path, group: str | None = None) -> list[Sample]:
    """Lines of one shard, grouped by font unless a group is given."""
    with np.load(path) as shard:
        ink, widths, texts, fonts = (shard[name] for name in ("ink", "widths", "texts", "fonts"))
    images = np.split(ink, np.cumsum(widths)[:-1], axis=1)
    return [Sample(image.copy(), str(text), group or str(font)) for image, text, font in zip(images, texts, fonts)]


def real_lines(
    folder: Path, collections: set[str] | None = None, without: frozenset[str] = frozenset(), workers: int = 0
) -> tuple[list[Sample], list[Sample]]:
    """Lines to train on, and those of every eighth page; of all collections but `without` unless some are named."""
    train, held_out = [], []
    for collection, pages in lines_by_page(folder, wanted(collections, without)).items():
        for part, files in zip((train, held_out), split(pages, HELD_OUT_EVERY)):
            part.extend(samples_of(files, collection, workers))
    return train, held_out


def all_lines(
    folder: Path, collections: set[str] | None = None, without: frozenset[str] = frozenset(), workers: int = 0
) -> list[Sample]:
    """The same without a split."""
    samples = []
    for collection, pages in lines_by_page(folder, wanted(collections, without)).items():
        samples += samples_of([path for files in pages for path in files], collection, workers)
    return samples


def wanted(collections: set[str] | None, without: frozenset[str]) -> Callable[[str], bool]:
    return lambda collection: (collections is None or collection in collections) and collection not in without


def samples_of(files: list[Path], collection: str, workers: int) -> list[Sample]:
    read = partial(real_line, collection=collection)
    if workers > 1 and len(files) > workers:
        with get_context("fork").Pool(workers) as pool:
            samples = pool.map(read, files)
    else:
        samples = map(read, files)
    return [sample for sample in samples if sample]


def real_line(path: Path, collection: str) -> Sample | None:
    """One that is not too wide for a batch."""
    ink = real_ink(path)
    return Sample(ink, text_of(path), collection) if ink.shape[1] <= WIDEST_LINE else None


def real_ink(path: Path) -> np.ndarray:
    """Ink map of a picture, its strokes as they are."""
    grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    return prepared(grey, bilevel=len(np.unique(grey)) < FEWEST_GREY_LEVELS)


def text_of(path: Path) -> str:
    return path.with_suffix(".txt").read_text(encoding="utf8")
