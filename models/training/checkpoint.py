"""The state of a training, in a file that is whole whatever interrupts its writing, and weights as they are trained on."""

import pickle
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file


def replace(path: Path, write: Callable[[Path], object]):
    """Writes a file beside `path`, which then takes its place."""
    partial = path.with_name(f"{path.name}.partial")
    write(partial)
    partial.rename(path)


def save_state(path: Path, state: dict):
    replace(path, lambda partial: partial.write_bytes(pickle.dumps(state)))


def load_state(path: Path) -> dict:
    return pickle.loads(path.read_bytes())


def load_weights(path: str | Path) -> dict[str, torch.Tensor]:
    """Weights of a file, which may be stored with 16 bits, with 32."""
    return {name: value.float() if value.is_floating_point() else value for name, value in load_file(path).items()}
