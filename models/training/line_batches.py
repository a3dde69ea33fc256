"""Batches of augmented lines for the training of the recogniser, made on the spot or by processes of their own."""

import argparse
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from batch_feed import Drawing, fed
from line_augmentation import augment
from line_pieces import STRIDE, piece
from line_samples import Sample, pool_shard
from line_text import Symbols, as_printed, stacks
from render_lines import HEIGHT

HARD_WEIGHT = 2.0
"""How much more often the lines of `--hard` collections are drawn than their number asks for."""
SPREAD = 0.1
"""Share of its width by which the lines of a batch are wider or narrower than the one that was drawn first."""

Heads = tuple[Symbols, Symbols]
Collated = tuple[torch.Tensor, torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]


def width_of(sample: Sample) -> int:
    return sample.ink.shape[1]


class Batches(Drawing):
    """Endless batches of lines of about the same width. Of the shards of the pool they take one part of so many.

    Batches have lines of both kinds, as the norms of the network take their statistics: those of real lines or of rendered ones
    alone are not the ones that lines are read with.
    """

    def __init__(
        self, pool: Path, real: list[Sample], arguments: argparse.Namespace, part: int = 0, parts: int = 1, step: int = 0
    ):
        super().__init__(arguments, part, step)
        self.folder, self.real_share, self.columns = pool, arguments.real_share, arguments.columns
        self.joined_share, self.rendered_strength = arguments.joined_share, arguments.rendered_strength
        self.part, self.parts, self.hard = part, parts, arguments.hard
        self.loaded: list[str] = []
        self.rendered: list[Sample] = []
        self.draw_from(real)

    def draw_from(self, real: list[Sample]):
        self.real = sorted(real, key=width_of)
        self.by_group: dict[str, list[Sample]] = defaultdict(list)
        for sample in self.real:
            self.by_group[sample.group].append(sample)
        self.weights = [len(self.by_group[sample.group]) ** -0.5 * self.urgency(sample) for sample in self.real]

    def urgency(self, sample: Sample) -> float:
        return HARD_WEIGHT if self.hard and self.hard in sample.group else 1.0

    def is_ready(self) -> bool:
        return bool(self.rendered or self.real and self.real_share >= 1)

    def shards(self) -> list[str]:
        return list(self.loaded)

    def load(self, names: list[str]):
        for name in names:
            self.rendered.extend(sample for sample in pool_shard(self.folder / name) if sample.legible())
        self.rendered.sort(key=width_of)
        self.loaded += names

    def refresh(self):
        known = set(self.loaded)
        names = (path.name for path in sorted(self.folder.glob("*.npz")) if path.name not in known)
        self.load([name for name in names if zlib.crc32(name.encode()) % self.parts == self.part])

    def next(self) -> list[tuple[np.ndarray, str]]:
        self.look_for_shards()
        if self.real and self.rng.random() < self.real_share:
            width = width_of(self.rng.choices(self.real, self.weights)[0])
        else:
            width = width_of(self.rng.choice(self.rendered))
        count = max(2, self.columns // width)
        real = self.about_as_wide(self.real, self.weights, width, sum(self.rng.random() < self.real_share for _ in range(count)))
        rendered = self.about_as_wide(self.rendered, None, width, count - len(real))
        lines = [self.augmented(*self.joined(sample), 1.0) for sample in real]
        return lines + [self.augmented(sample.ink, sample.text, self.rendered_strength) for sample in rendered]

    def about_as_wide(self, samples: list[Sample], weights: list[float] | None, width: int, most: int) -> list[Sample]:
        """Some of the samples, which are in the order of their widths, that differ little in it; no more than there are."""
        low, high = width * (1 - SPREAD), width * (1 + SPREAD)
        near = slice(bisect_left(samples, low, key=width_of), bisect_right(samples, high, key=width_of))
        count = min(most, near.stop - near.start)
        return self.rng.choices(samples[near], weights and weights[near], k=count) if count else []

    def augmented(self, ink: np.ndarray, text: str, strength: float) -> tuple[np.ndarray, str]:
        return augment(self.rng, self.noise, ink, self.rng.choice(self.rendered or self.real).ink, strength), text

    def joined(self, sample: Sample) -> tuple[np.ndarray, str]:
        """The line, or pieces of lines of its collection in one line of about the same width."""
        if not sample.cuts or self.rng.random() >= self.joined_share:
            return sample.ink, sample.text
        width, parts = sample.ink.shape[1], []
        for _ in range(6):
            left = width - sum(part[0].shape[1] for part in parts)
            if left < 60:
                break
            donor = self.rng.choice(self.by_group[sample.group]) if parts else sample
            if donor.cuts:
                wanted = min(left, width * self.rng.uniform(0.15, 0.6))
                part = piece(self.rng, donor.ink, stacks(as_printed(donor.text)), donor.cuts, wanted)
                if part and part[0].shape[1] <= left + 60:
                    parts.append(part)
        if not parts:
            return sample.ink, sample.text
        return np.concatenate([ink for ink, _ in parts], axis=1), "".join(text for _, text in parts)


def collate(batch: list[tuple[np.ndarray, str]], heads: Heads, width: int = 0) -> Collated:
    """Images that are at least so wide, their frames, and for each head the classes and their numbers."""
    width = max(width, *(ink.shape[1] for ink, _ in batch))
    images = np.zeros((len(batch), 1, HEIGHT, -(-width // 8) * 8), np.float32)
    for image, (ink, _) in zip(images, batch):
        image[0, :, : ink.shape[1]] = ink
    frames = torch.tensor([-(-ink.shape[1] // STRIDE) for ink, _ in batch])
    texts = [as_printed(text) for _, text in batch]
    targets = []
    for head, units in zip(heads, (texts, [stacks(text) for text in texts])):
        classes = [head.encode(list(text)) for text in units]
        targets.append((torch.tensor(sum(classes, [])), torch.tensor([len(line) for line in classes])))
    return torch.from_numpy(images).to(memory_format=torch.channels_last), frames, targets


def common_width(width: int) -> int:
    """The next of eight widths an octave. A GPU's libraries plan anew for every shape, so there should be few."""
    step = max(32, 2 ** (width.bit_length() - 4))
    return -(-width // step) * step


class Feed(IterableDataset):
    """The batches of one of several processes, each with its part of the shards, in few shapes; images are bytes, to be sent sooner."""

    def __init__(self, pool: Path, real: list[Sample], heads: Heads, arguments: argparse.Namespace, step: int):
        self.pool, self.real, self.heads, self.arguments, self.step = pool, real, heads, arguments, step

    def __iter__(self) -> Iterator[Collated]:
        process = get_worker_info()
        batches = Batches(self.pool, self.real, self.arguments, process.id, process.num_workers, self.step)
        while True:
            drawn = batches.next()
            batches.rng.shuffle(drawn)
            width = common_width(max(ink.shape[1] for ink, _ in drawn))
            count = max(2, self.arguments.columns // width)
            batch = [drawn[number % len(drawn)] for number in range(count)]
            images, frames, targets = collate(batch, self.heads, width)
            yield (images * 255).round().to(torch.uint8), frames, targets


def collated(batches: Batches, heads: Heads, arguments: argparse.Namespace, step: int) -> Iterator[Collated]:
    """The batches from a step on, on the device; of `--workers` processes that draw as `batches` would, or of this one out of it."""
    device = torch.device(arguments.device)
    if not arguments.workers:
        while True:
            images, frames, targets = collate(batches.next(), heads)
            yield images.to(device), frames, [(classes.to(device), numbers) for classes, numbers in targets]
    feed = Feed(batches.folder, batches.real, heads, arguments, step)
    for images, frames, targets in fed(feed, arguments):
        images = images.to(device, non_blocking=True).float() / 255
        yield images, frames, [(classes.to(device, non_blocking=True), numbers) for classes, numbers in targets]
