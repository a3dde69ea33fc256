"""A network in training: its optimiser, the moving average of its weights, what a wider one can teach it, and what it should keep."""

import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F

from averaged_weights import move_towards
from checkpoint import load_weights
from line_batches import Collated
from recognition_net import RecognitionNet

Target = tuple[torch.Tensor, torch.Tensor]
PARTS = ("net", "average", "optimiser")


class Learner:
    """A network with its optimiser and the moving average of its weights, which is what is scored and saved.

    Where it `keeps_statistics` it normalises by those that it has, as in reading: small batches are none to normalise by.
    """

    def __init__(self, net: RecognitionNet, rate: float, decay: float, keeps_statistics: bool = False):
        norms = [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.momentum = 0.01  # batches of real and of rendered lines differ: average over many
        self.net, self.average, self.decay = net, copy.deepcopy(net), decay
        fused = {"fused": True} if next(net.parameters()).is_cuda else {}
        self.optimiser = torch.optim.AdamW(net.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=1e-2, **fused)
        self.net.train()
        if keeps_statistics:
            for norm in norms:
                norm.eval()

    def learn(self, loss: torch.Tensor, rate: float, step: int):
        """Makes the step of this number, from 1; the average of the first ones is one of few."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.optimiser.step()
        move_towards(self.average, self.net, 1 - min(self.decay, (1 + step) / (10 + step)))

    def state(self) -> dict:
        return {part: getattr(self, part).state_dict() for part in PARTS}

    def restore(self, state: dict):
        for part in PARTS:
            getattr(self, part).load_state_dict(state[part])


class Teacher:
    """A network several times as wide that learns from the same batches, and after a share of the training only teaches."""

    def __init__(self, student: RecognitionNet, arguments: argparse.Namespace):
        net = student.wider(arguments.teacher)
        if arguments.teacher_init:
            net.load_state_dict(load_weights(arguments.teacher_init))
        net.to(arguments.device, memory_format=torch.channels_last)
        for module in net.modules():
            if isinstance(module, nn.Dropout):
                module.p = arguments.teacher_dropout
        self.rate = arguments.teacher**-0.5
        self.learner = Learner(net, arguments.rate * self.rate, arguments.average, arguments.keep_statistics)
        self.smoothing, self.bf16 = arguments.smoothing, arguments.bf16

    def outputs(self, batch: Collated, rate: float, step: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        """What it sees in the frames of a batch, and its loss; it learns from them while there is a rate."""
        images, frames, targets = batch
        if rate > 0:
            outputs = forward(self.learner.net, images, self.bf16)
            losses = [ctc(logits, frames, target, self.smoothing) for logits, target in zip(outputs, targets)]
            self.learner.learn(sum(losses), rate * self.rate, step)
        else:
            self.learner.average.eval()
            with torch.no_grad():
                outputs = forward(self.learner.average, images, self.bf16)
                losses = [ctc(logits, frames, target, self.smoothing) for logits, target in zip(outputs, targets)]
        return [logits.detach() for logits in outputs], losses[-1].detach()


def forward(net: RecognitionNet, images: torch.Tensor, bf16: bool) -> list[torch.Tensor]:
    with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bf16):
        outputs = net(images)
    return [logits.float() for logits in outputs]


def ctc(logits: torch.Tensor, frames: torch.Tensor, target: Target, smoothing: float) -> torch.Tensor:
    """The CTC loss, and a little of what it would cost to name every class equally often."""
    log_probs = logits.permute(2, 0, 1).log_softmax(-1)
    loss = F.ctc_loss(log_probs, target[0], frames, target[1], zero_infinity=True)
    return loss - smoothing * log_probs.mean() if smoothing else loss


def kept(logits: torch.Tensor, former: torch.Tensor, frames: torch.Tensor, target: Target) -> torch.Tensor:
    """The divergence from what a former network gives, in the lines to whose text that gives a higher probability.

    After Li and Hoiem, "Learning without Forgetting", 2016.
    """
    with torch.no_grad():
        own, other = (
            F.ctc_loss(each.permute(2, 0, 1).log_softmax(-1), target[0], frames, target[1], reduction="none")
            for each in (logits, former)
        )
    return (distillation_by_line(logits, former, frames, target) * (other < own)).mean()


def distillation(logits: torch.Tensor, taught: torch.Tensor, frames: torch.Tensor, target: Target) -> torch.Tensor:
    """The divergence from a teacher's distributions, as the mean of the lines."""
    return distillation_by_line(logits, taught, frames, target).mean()


def distillation_by_line(logits: torch.Tensor, taught: torch.Tensor, frames: torch.Tensor, target: Target) -> torch.Tensor:
    """The divergence from a teacher's distributions, summed over the frames of a line and divided by its classes, as the CTC loss is."""
    apart = F.kl_div(logits.log_softmax(1), taught.log_softmax(1), reduction="none", log_target=True).sum(1)
    within = (torch.arange(apart.shape[1]) < frames[:, None]).to(apart.device)
    return (apart * within).sum(1) / target[1].clamp(min=1).to(apart.device)
