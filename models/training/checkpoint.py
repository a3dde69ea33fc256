"""The state of a training, in a file that is whole whatever interrupts its writing, and weights as they are trained on."""

import pickle
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file

# End of the name of the scales of a weight in eight bits.
SCALE = ".scale"
# Smallest number of input channels of a convolution that is stored in eight bits.
MIN_INPUTS = 16


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
    """Weights of a file, which may be stored with 16 bits or with eight, with 32."""
    stored = load_file(path)
    scales = {name: stored.pop(name + SCALE) for name, value in list(stored.items()) if value.dtype == torch.int8}
    for name, scale in scales.items():
        stored[name] = stored[name].float() * by_output(scale, stored[name])
    return {name: value.float() if value.is_floating_point() else value for name, value in stored.items()}


def in_eight_bits(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights as bundles keep them: those of convolutions in eight bits, with a scale for each output, the others with 16.

    The program rounds weights in the same way where the processor can compute with them (models/kernels, `int8`). It leaves out
    convolutions of few channels, and so does this.
    """
    stored = {}
    for name, value in state.items():
        if name.endswith(".weight") and value.dim() >= 3 and value.shape[1] >= MIN_INPUTS:
            largest = value.float().abs().flatten(1).amax(1)
            scale = torch.where(largest > 0, largest / 127, 1.0)
            levels = value.float() / by_output(scale, value)
            # Halves go away from zero, as in the program.
            stored[name] = torch.trunc(levels + 0.5 * levels.sign()).to(torch.int8)
            stored[name + SCALE] = scale
        else:
            stored[name] = value.half() if value.is_floating_point() else value
    return {name: value.contiguous() for name, value in stored.items()}


def by_output(scale: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`scale`, `[outputs]`, in a shape that `weight`, `[outputs, ...]`, is multiplied with."""
    return scale.reshape(-1, *[1] * (weight.dim() - 1))
