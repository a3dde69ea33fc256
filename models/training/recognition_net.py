"""Recognition network, the PyTorch side.

`models/src/networks/ctc_residual_conv.rs` is the same network for inference and loads a `state_dict` saved as safetensors, so
the attribute names here are the keys of the weights file.

Input  [N, 1, H, W], H a multiple of 16, 0 = paper, 1 = ink.
Output two tensors [N, classes, W / 4] of CTC logits, class 0 = blank: code points and stacks.
"""

import torch
from torch import nn


def conv_norm(inputs: int, outputs: int, stride: tuple[int, int]) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: int, dropout: float):
        super().__init__()
        padding = dilation * (kernel // 2)
        convolution = nn.Conv1d(channels, channels, kernel, padding=padding, dilation=dilation, bias=False)
        self.f = nn.Sequential(convolution, nn.BatchNorm1d(channels), nn.ReLU(), nn.Dropout(dropout))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.f(x)


class RecognitionNet(nn.Module):
    STRIDES = ((2, 2), (2, 1), (2, 2), (1, 1), (2, 1))

    def __init__(
        self,
        codepoints: int,
        stacks: int,
        height: int = 64,
        stem: tuple[int, ...] = (24, 40, 64, 96, 128),
        channels: int = 176,
        blocks: int = 7,
        dropout: float = 0.05,
    ):
        super().__init__()
        self.arguments = {"codepoints": codepoints, "stacks": stacks, "height": height, "blocks": blocks, "dropout": dropout}
        self.widths = {"stem": stem, "channels": channels}
        inputs = (1, *stem)
        self.stem = nn.Sequential(*[conv_norm(i, o, s) for i, o, s in zip(inputs, stem, self.STRIDES)])
        projection = nn.Conv1d(stem[-1] * (height // 16), channels, 1, bias=False)
        self.proj = nn.Sequential(projection, nn.BatchNorm1d(channels), nn.ReLU())
        dilations = [1 if block < 4 else 2 for block in range(blocks)]
        self.body = nn.Sequential(*[Residual(channels, 5, dilation, dropout) for dilation in dilations])
        self.hcp = nn.Conv1d(channels, codepoints, 1)
        self.hst = nn.Conv1d(channels, stacks, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sequence = self.body(self.proj(self.stem(x).flatten(1, 2)))
        return self.hcp(sequence), self.hst(sequence)

    def wider(self, times: float) -> "RecognitionNet":
        """A new network of the same kind with more channels."""
        stem = tuple(round(times * width) for width in self.widths["stem"])
        return RecognitionNet(**self.arguments, stem=stem, channels=round(times * self.widths["channels"]))


def widths_of(state: dict[str, torch.Tensor]) -> dict[str, tuple[int, ...] | int]:
    """The widths of the network that has these weights, as arguments of `RecognitionNet`."""
    stem = tuple(len(state[f"stem.{number}.0.weight"]) for number in range(len(RecognitionNet.STRIDES)))
    return {"stem": stem, "channels": len(state["proj.0.weight"])}
