"""Weights between those of two networks of one kind."""

import torch
from torch import nn


@torch.no_grad()
def move_towards(weights: nn.Module, others: nn.Module, share: float):
    """Moves the weights by a share of the way to the others; whole numbers become those of the others."""
    for value, other in zip(weights.state_dict().values(), others.state_dict().values()):
        if value.is_floating_point():
            value.lerp_(other, share)
        else:
            value.copy_(other)
