"""Batches that processes of their own make for a training, out of pools whose shards may still be appearing."""

import argparse
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from torch.utils.data import DataLoader, IterableDataset

BATCHES_AHEAD = 4
BATCHES_A_LOOK = 100
"""Batches from one look for new shards to the next."""
NEXT_LOOK_AFTER = 0.5
"""Seconds, while there is no shard."""


class Drawing(ABC):
    """Endless batches, drawn at random out of shards. A training that goes on draws as if it had never been interrupted."""

    def __init__(self, arguments: argparse.Namespace, part: int = 0, step: int = 0):
        """For one process of several, from a step of the training on."""
        seed = arguments.seed + 1000 * part + 1_000_003 * step
        self.rng, self.noise, self.drawn = random.Random(seed), np.random.default_rng(seed), 0

    @abstractmethod
    def refresh(self):
        """Takes up shards that have appeared."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tells if there is enough to draw from."""

    @abstractmethod
    def shards(self) -> list:
        """Names of what was taken up so far, as `load` takes them."""

    @abstractmethod
    def load(self, names: list):
        """Takes up these."""

    def look_for_shards(self):
        """To be called before each batch: looks for new shards before some of them, and waits for the first ones."""
        if self.drawn % BATCHES_A_LOOK == 0:
            self.refresh()
        if not self.is_ready():
            print("waits for the first shard of a pool", flush=True)
        while not self.is_ready():
            time.sleep(NEXT_LOOK_AFTER)
            self.refresh()
        self.drawn += 1

    def state(self) -> dict:
        random_states = {"rng": self.rng.getstate(), "noise": self.noise.bit_generator.state}
        return random_states | {"loaded": self.shards(), "drawn": self.drawn}

    def restore(self, state: dict):
        self.load(state["loaded"])
        self.rng.setstate(state["rng"])
        self.noise.bit_generator.state = state["noise"]
        self.drawn = state["drawn"]


def fed(batches: IterableDataset, arguments: argparse.Namespace) -> Iterator:
    """What `--workers` processes make, each with its own copy of `batches`, as it comes."""
    loader = DataLoader(
        batches,
        batch_size=None,
        num_workers=arguments.workers,
        prefetch_factor=BATCHES_AHEAD,
        pin_memory=arguments.device != "cpu",
        multiprocessing_context="fork",
        in_order=False,
    )
    return iter(loader)
