"""Trains the part of the segmentation network that tells what a page holds besides its lines, and leaves the lines as they are.

    python train_layout.py --pool POOL --real REAL_POOL --init lines.safetensors --out both.safetensors --steps 3000

POOL is from `render_pages.py`, REAL_POOL from `pseudo_labels.py`, of pages without pictures. Of these nothing but the lines is known:
what is within reach of their bands is text, and the rest may be anything but a picture. The weights of the lines are not touched, so that
the lines of all pages stay what they were.

CHECKPOINT.state holds all that `--resume` needs to go on after the last checkpoint.
"""

import argparse
import time
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from checkpoint import load_state, save_state
from page_drawing import IMAGE, KINDS, PLAIN
from render_pages import COARSE
from segmentation_net import SegmentationNet
from train_segmentation import PooledBatches, augment, learning_rate_share, load, save

UNKNOWN = KINDS
"""A place of a real page that may be anything but a picture."""
SPECIAL, ORDINARY, REAL = range(3)
"""Tiles that hold anything besides text, other rendered ones, and real ones."""
SHARES = (0.5, 0.2, 0.3)
REACH = (0.6, 0.9)
"""Of the letters of most lines above and below their bands, in heights of these."""


def with_letters(bands: np.ndarray) -> np.ndarray:
    """Bands of lines with the letters, which reach above and below them."""
    tops = np.count_nonzero(bands[1:] > bands[:-1]) + np.count_nonzero(bands[0])
    height = bands.sum() / max(1, tops)
    above, below = (round(reach * height) for reach in REACH)
    return cv2.dilate(bands, np.ones((above + below + 1, 1), np.uint8), anchor=(0, below))


class Tiles(PooledBatches):
    """Batches of tiles with what they hold."""

    def __init__(self, arguments: argparse.Namespace):
        super().__init__(arguments)
        self.rendered, self.real = self.pools
        self.places: list[list[int]] = [[], [], []]
        self.counts = np.zeros(KINDS, np.int64)

    def refresh(self):
        super().refresh()
        self.sort()

    def sort(self):
        """Puts the tiles that were taken up to those of their sort."""
        for at in range(len(self.places[SPECIAL]) + len(self.places[ORDINARY]), len(self.rendered)):
            counts = np.bincount(self.rendered.kinds[at].ravel(), minlength=KINDS)
            self.places[SPECIAL if counts[PLAIN] < counts.sum() else ORDINARY].append(at)
            self.counts += counts
        self.places[REAL] = list(range(len(self.real)))

    def is_ready(self) -> bool:
        return all(self.places)

    def load(self, names: list[list[str]]):
        super().load(names)
        self.sort()

    def weights(self) -> torch.Tensor:
        """Weight of each kind in the loss: the rarer it is, the larger, though by less than it is rarer."""
        return torch.from_numpy((self.counts[PLAIN] / np.maximum(self.counts, 1)) ** 0.35).float()

    def one(self) -> tuple[np.ndarray, np.ndarray]:
        """A page, `[512, 512]`, and the kinds of its places, `[64, 64]`."""
        sort = self.rng.choices(range(len(SHARES)), SHARES)[0]
        at = self.rng.choice(self.places[sort])
        pool = self.real if sort == REAL else self.rendered
        page, band = (np.unpackbits(packed[at], axis=-1) for packed in (pool.pages, pool.bands))
        if sort == REAL:
            inside = with_letters(band)[COARSE // 2 :: COARSE, COARSE // 2 :: COARSE]
            kinds = np.where(inside, PLAIN, UNKNOWN).astype(np.uint8)
        else:
            kinds = pool.kinds[at]
        return augment(self.rng, self.noise, page), kinds

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Pages, `[batch, 1, 512, 512]`, and kinds, `[batch, 64, 64]`."""
        self.look_for_shards()
        pages, kinds = zip(*(self.one() for _ in range(self.size)))
        pages = torch.from_numpy(np.stack(pages)[:, None]).float()
        return pages.contiguous(memory_format=torch.channels_last), torch.from_numpy(np.stack(kinds)).long()


def layout_loss(scores: torch.Tensor, kinds: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the kinds that are known; of others the logarithm of the probability that there is no picture."""
    known = F.cross_entropy(scores, kinds, weights, ignore_index=UNKNOWN)
    shares = F.log_softmax(scores, 1)
    others = torch.logsumexp(torch.cat((shares[:, :IMAGE], shares[:, IMAGE + 1 :]), 1), 1)
    is_unknown = (kinds == UNKNOWN).float()
    return known - (others * is_unknown).sum() / is_unknown.sum().clamp(min=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", required=True, type=Path, help="folder with rendered shards")
    parser.add_argument("--real", required=True, type=Path, help="folder with shards of real pages")
    parser.add_argument("--init", required=True, help="checkpoint with the lines")
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=6)
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=250)
    parser.add_argument("--resume", action="store_true", help="go on after the last checkpoint of OUT")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    tiles, model = Tiles(arguments), SegmentationNet(has_layout=True)
    model.load_state_dict(load(arguments.init).state_dict(), strict=False)
    model = model.to(memory_format=torch.channels_last).eval()
    taught = nn.ModuleList([model.layout_blocks, model.layout_head]).train()
    optimiser = torch.optim.AdamW(taught.parameters(), lr=arguments.rate, weight_decay=0.02)
    state_path = Path(arguments.out + ".state")
    running, step = 0.0, 0
    if arguments.resume and state_path.exists():
        state = load_state(state_path)
        taught.load_state_dict(state["taught"])
        optimiser.load_state_dict(state["optimiser"])
        tiles.restore(state["tiles"])
        running, step = state["running"], state["step"]
        print(f"goes on after step {step}", flush=True)
    started = time.time()
    while step < arguments.steps:
        for group in optimiser.param_groups:
            group["lr"] = arguments.rate * learning_rate_share(step / arguments.steps)
        pages, kinds = tiles.next()
        with torch.no_grad():
            _, middle = model.middle(pages)
        loss = layout_loss(model.layout(middle), kinds, tiles.weights())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(taught.parameters(), 1.0)
        optimiser.step()
        running = loss.item() if step == 0 else 0.98 * running + 0.02 * loss.item()
        step += 1
        if step % 50 == 0:
            print(f"step {step} loss {running:.4f} {time.time() - started:.0f} s", flush=True)
        if step % arguments.save_every == 0 or step == arguments.steps:
            save(model, arguments.out)
            state = {"taught": taught.state_dict(), "optimiser": optimiser.state_dict(), "tiles": tiles.state()}
            save_state(state_path, state | {"running": running, "step": step})
    print(f"{step} steps", flush=True)


if __name__ == "__main__":
    main()
