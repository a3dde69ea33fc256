"""The state of a training, in a file that is whole whatever interrupts its writing."""

import pickle
from collections.abc import Callable
from pathlib import Path


def replace(path: Path, write: Callable[[Path], object]):
    """Writes a file beside `path`, which then takes its place."""
    partial = path.with_name(f"{path.name}.partial")
    write(partial)
    partial.rename(path)


def save_state(path: Path, state: dict):
    replace(path, lambda partial: partial.write_bytes(pickle.dumps(state)))


def load_state(path: Path) -> dict:
    return pickle.loads(path.read_bytes())
