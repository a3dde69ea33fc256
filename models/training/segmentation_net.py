"""Line segmentation network, the PyTorch side.

`models/src/networks/patch_segmenter.rs` is the same network for inference and loads a `state_dict` saved as safetensors, so
the attribute names here are the keys of the weights file.

Input  [N, 1, H, W], H and W divisible by 16, 1 = paper, 0 = ink.
Output [N, 1, H, W], logits of "this pixel belongs to the core of a text line"; `layout` has logits of the kinds of `page_drawing` for
every eighth pixel, [N, KINDS, H / 8, W / 8].
"""

import torch
from torch import nn
from torch.nn import functional as F

from page_drawing import KINDS


class Block(nn.Module):
    """Residual block after ConvNeXt: depthwise convolution, then a two-layer perceptron per pixel, with batch norm."""

    def __init__(self, channels: int, kernel: int = 3):
        super().__init__()
        self.dw = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.pw1 = nn.Conv2d(channels, 2 * channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * channels)
        self.pw2 = nn.Conv2d(2 * channels, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn1(self.dw(x))
        y = F.relu(self.bn2(self.pw1(y)))
        y = self.bn3(self.pw2(y))
        return F.relu(x + y)


class Down(nn.Module):
    """Halves the resolution: 2x2 convolution with stride 2, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 2, stride=2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.bn(self.conv(x)))


class SegmentationNet(nn.Module):
    """U-shaped network that never works above a quarter of the input resolution."""

    LAYOUT_BLOCKS = 2

    def __init__(
        self, channels: tuple[int, int, int] = (24, 48, 96), blocks: tuple[int, int, int] = (2, 2, 4), has_layout: bool = False
    ):
        super().__init__()
        c1, c2, c3 = channels
        self.stem = nn.Conv2d(1, c1, 4, stride=4)
        self.stage1 = nn.Sequential(*[Block(c1) for _ in range(blocks[0])])
        self.down1 = Down(c1, c2)
        self.stage2 = nn.Sequential(*[Block(c2) for _ in range(blocks[1])])
        self.down2 = Down(c2, c3)
        self.stage3 = nn.Sequential(*[Block(c3, kernel=5) for _ in range(blocks[2])])
        self.up2 = nn.Conv2d(c3, c2, 1)
        self.block2 = Block(c2)
        self.up1 = nn.Conv2d(c2, c1, 1)
        self.block1 = Block(c1)
        self.head = nn.Conv2d(c1, 16, 1)
        if has_layout:
            self.layout_blocks = nn.Sequential(*[Block(c2, kernel=5) for _ in range(self.LAYOUT_BLOCKS)])
            self.layout_head = nn.Conv2d(c2, KINDS, 1)

    def middle(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The finest map on the way down, and that of every eighth pixel on the way up."""
        quarter = self.stage1(self.stem(x))
        eighth = self.stage2(self.down1(quarter))
        sixteenth = self.stage3(self.down2(eighth))
        return quarter, self.block2(eighth + F.interpolate(self.up2(sixteenth), scale_factor=2, mode="nearest"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        quarter, y = self.middle(x)
        y = self.block1(quarter + F.interpolate(self.up1(y), scale_factor=2, mode="nearest"))
        return F.pixel_shuffle(self.head(y), 4)

    def layout(self, middle: torch.Tensor) -> torch.Tensor:
        return self.layout_head(self.layout_blocks(middle))
