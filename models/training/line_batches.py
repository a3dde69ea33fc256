"""Batches of augmented lines for the training of the recogniser, made on the spot or by processes of their own."""

import argparse
import random
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from line_augmentation import augment
from line_pieces import STRIDE, piece
from line_samples import Sample, pool_shard
from line_text import Symbols, as_printed, stacks
from render_lines import HEIGHT

FEWEST_SORTED, COLUMNS_A_SORTED_LINE = 400, 25
BATCHES_AHEAD = 4
HARD_WEIGHT = 2.0
"""How much more often the lines of `--hard` collections are drawn than their number asks for."""
SHARDS_LOOKED_FOR_AFTER = 0.5

Heads = tuple[Symbols, Symbols]
Collated = tuple[torch.Tensor, torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]


class Batches:
    """Endless batches of lines of about the same width. Of the shards of the pool they take one part of so many."""

    def __init__(
        self, pool: Path, real: list[Sample], arguments: argparse.Namespace, part: int = 0, parts: int = 1, step: int = 0
    ):
        self.folder, self.real_share, self.columns = pool, arguments.real_share, arguments.columns
        self.joined_share, self.rendered_strength = arguments.joined_share, arguments.rendered_strength
        self.part, self.parts, self.hard = part, parts, arguments.hard
        seed = arguments.seed + 1000 * part + 1_000_003 * step
        self.rng, self.noise = random.Random(seed), np.random.default_rng(seed)
        self.loaded: list[str] = []
        self.rendered: list[Sample] = []
        self.queue: list[list[int]] = []
        self.order: list[int] = []
        self.draw_from(real)

    def draw_from(self, real: list[Sample]):
        self.real = sorted(real, key=lambda sample: sample.ink.shape[1])
        self.by_group: dict[str, list[Sample]] = defaultdict(list)
        for sample in self.real:
            self.by_group[sample.group].append(sample)
        self.weights = [len(self.by_group[sample.group]) ** -0.5 * self.urgency(sample) for sample in self.real]

    def urgency(self, sample: Sample) -> float:
        return HARD_WEIGHT if self.hard and self.hard in sample.group else 1.0

    def state(self) -> dict:
        return {"rng": self.rng.getstate(), "noise": self.noise.bit_generator.state, "loaded": list(self.loaded)} | {
            "queue": [list(batch) for batch in self.queue],
            "order": list(self.order),
        }

    def restore(self, state: dict):
        for name in state["loaded"]:
            self.load(name)
        self.rng.setstate(state["rng"])
        self.noise.bit_generator.state = state["noise"]
        self.queue, self.order = state["queue"], state["order"]

    def load(self, name: str):
        self.rendered.extend(sample for sample in pool_shard(self.folder / name) if sample.legible())
        self.loaded.append(name)

    def refresh(self):
        known = set(self.loaded)
        for path in sorted(self.folder.glob("*.npz")):
            if path.name not in known and zlib.crc32(path.name.encode()) % self.parts == self.part:
                self.load(path.name)

    def split(self, samples: list[int]) -> list[list[int]]:
        def width(number: int) -> int:
            return self.rendered[number].ink.shape[1]

        batches: list[list[int]] = [[]]
        for number in sorted(samples, key=width):
            if batches[-1] and (len(batches[-1]) + 1) * width(number) > self.columns:
                batches.append([])
            batches[-1].append(number)
        self.rng.shuffle(batches)
        return batches

    def next(self) -> list[tuple[np.ndarray, str]]:
        if self.real and self.rng.random() < self.real_share:
            return [self.augmented(*self.joined(sample), 1.0) for sample in self.real_batch()]
        while not self.queue:
            if not self.order:
                self.refresh()
                self.order = list(range(len(self.rendered)))
                self.rng.shuffle(self.order)
            if not self.order:
                time.sleep(SHARDS_LOOKED_FOR_AFTER)
                continue
            sorted_at_once = max(FEWEST_SORTED, self.columns // COLUMNS_A_SORTED_LINE)
            self.queue = self.split(self.order[:sorted_at_once])
            self.order = self.order[sorted_at_once:]
        chosen = (self.rendered[number] for number in self.queue.pop())
        return [self.augmented(sample.ink, sample.text, self.rendered_strength) for sample in chosen]

    def augmented(self, ink: np.ndarray, text: str, strength: float) -> tuple[np.ndarray, str]:
        other = self.rng.choice(self.rendered or self.real).ink
        return augment(self.rng, self.noise, ink, other, strength), text

    def real_batch(self) -> list[Sample]:
        around = self.rng.choices(range(len(self.real)), self.weights)[0]
        count = max(2, self.columns // self.real[around].ink.shape[1])
        start = max(0, min(around - 2 * count, len(self.real) - 4 * count))
        near = range(start, min(start + 4 * count, len(self.real)))
        chosen = set(self.rng.choices(near, [self.weights[number] for number in near], k=count))
        return [self.real[number] for number in sorted(chosen)]

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
    loader = DataLoader(
        feed,
        batch_size=None,
        num_workers=arguments.workers,
        prefetch_factor=BATCHES_AHEAD,
        pin_memory=device.type == "cuda",
        multiprocessing_context="fork",
        in_order=False,
    )
    for images, frames, targets in loader:
        images = images.to(device, non_blocking=True).float() / 255
        yield images, frames, [(classes.to(device, non_blocking=True), numbers) for classes, numbers in targets]
