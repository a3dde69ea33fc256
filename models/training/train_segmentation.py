"""Trains the line segmentation network on tiles from `render_pages.py` and `pseudo_labels.py`.

    python train_segmentation.py --pool POOL --out checkpoint.safetensors --steps 4000
    python train_segmentation.py --pool POOL --real REAL --init checkpoint.safetensors --out better.safetensors --steps 2000

Loss is binary cross-entropy plus Dice. The learning rate follows one cycle over `--steps`, or over `--minutes` on a machine
whose speed varies; the checkpoint holds the exponential moving average of the weights. `--crop 256` trains on quarters of
tiles, which gives more steps for the same work. Shards that appear in POOL during training are picked up.

CHECKPOINT.state holds all that `--resume` needs to go on after the last checkpoint; with `--steps` the batches are then those of
a run that was never interrupted.
"""

import argparse
import copy
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.utils.data import IterableDataset, get_worker_info

from averaged_weights import move_towards
from batch_feed import Drawing, fed
from checkpoint import load_state, replace, save_state
from segmentation_net import SegmentationNet

Drawn = tuple[torch.Tensor, torch.Tensor]


class Pool:
    """Bit-packed tiles of all shards in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.loaded: list[str] = []
        self.pages: list[np.ndarray] = []
        self.bands: list[np.ndarray] = []
        self.kinds: list[np.ndarray] = []
        """What rendered tiles hold; of real ones nobody knows."""

    def refresh(self):
        for path in sorted(self.folder.glob("*.npz")):
            if path.name not in self.loaded:
                self.load(path.name)

    def load(self, name: str):
        with np.load(self.folder / name) as shard:
            self.pages.extend(shard["pages"])
            self.bands.extend(shard["bands"])
            if "kinds" in shard:
                self.kinds.extend(shard["kinds"])
        self.loaded.append(name)

    def __len__(self) -> int:
        return len(self.pages)

    def sample(self, rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
        at = rng.randrange(len(self.pages))
        return np.unpackbits(self.pages[at], axis=-1), np.unpackbits(self.bands[at], axis=-1)


def augment(rng: random.Random, noise: np.random.Generator, page: np.ndarray) -> np.ndarray:
    """Thickens or thins strokes a little and adds or removes single pixels."""
    chance = rng.random()
    if chance < 0.12:
        page = page.copy()
        page[:, 1:] &= page[:, :-1]
    elif chance < 0.2:
        page = page.copy()
        page[1:] &= page[:-1]
    elif chance < 0.27:
        page = page.copy()
        page[:, 1:] |= page[:, :-1]
    if rng.random() < 0.1:
        flips = noise.random(page.shape, dtype=np.float32) < 10 ** rng.uniform(-4, -1.7)
        page = page ^ flips
    return page


def crop_with_text(rng: random.Random, page: np.ndarray, band: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A random square, preferably one with a line in it."""
    for _ in range(4):
        y, x = rng.randint(0, page.shape[0] - size), rng.randint(0, page.shape[1] - size)
        window = np.s_[y : y + size, x : x + size]
        if band[window].mean() > 0.02:
            break
    return page[window], band[window]


class PooledBatches(Drawing):
    """Endless batches out of the pool and, if there is one, out of that of real pages."""

    def __init__(self, arguments: argparse.Namespace, part: int = 0, step: int = 0):
        super().__init__(arguments, part, step)
        self.size = arguments.batch
        self.pools = [Pool(folder) for folder in (arguments.pool, arguments.real) if folder]

    def refresh(self):
        for pool in self.pools:
            pool.refresh()

    def is_ready(self) -> bool:
        return all(map(len, self.pools))

    def shards(self) -> list[list[str]]:
        return [pool.loaded for pool in self.pools]

    def load(self, names: list[list[str]]):
        for pool, of_pool in zip(self.pools, names):
            for name in of_pool:
                pool.load(name)


class Batches(PooledBatches):
    """Batches of augmented squares of the pool and, with their share, of real pages."""

    def __init__(self, arguments: argparse.Namespace, part: int = 0, step: int = 0):
        super().__init__(arguments, part, step)
        self.crop = arguments.crop
        self.weights = [1 - arguments.real_share, arguments.real_share] if arguments.real else [1.0]

    def next(self) -> Drawn:
        """Pages and bands, `[batch, 1, crop, crop]`, of zeros and ones."""
        self.look_for_shards()
        pages, bands = [], []
        for _ in range(self.size):
            page, band = self.rng.choices(self.pools, self.weights)[0].sample(self.rng)
            if self.crop < page.shape[0]:
                page, band = crop_with_text(self.rng, page, band, self.crop)
            pages.append(augment(self.rng, self.noise, page))
            bands.append(band)
        pages, bands = (torch.from_numpy(np.stack(squares)[:, None]) for squares in (pages, bands))
        return pages, bands


class Feed(IterableDataset):
    """The batches of one of several processes, as bytes, to be sent sooner."""

    def __init__(self, arguments: argparse.Namespace, step: int):
        self.arguments, self.step = arguments, step

    def __iter__(self) -> Iterator[Drawn]:
        return iter(Batches(self.arguments, get_worker_info().id, self.step).next, None)


def on_device(batches: Batches, arguments: argparse.Namespace, step: int) -> Iterator[Drawn]:
    """The batches from a step on, on the device; of `--workers` processes, or of this one."""
    drawn = fed(Feed(arguments, step), arguments) if arguments.workers else iter(batches.next, None)
    for pages, bands in drawn:
        pages, bands = (squares.to(arguments.device, non_blocking=True).float() for squares in (pages, bands))
        yield pages.contiguous(memory_format=torch.channels_last), bands


def segmentation_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    probability = torch.sigmoid(logits)
    overlap = (probability * target).sum()
    dice = 1 - (2 * overlap + 1) / (probability.sum() + target.sum() + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + dice


def learning_rate_share(progress: float, warm_up: float = 0.06) -> float:
    """One cycle: linear up, then a half cosine down to a hundredth."""
    if progress < warm_up:
        return 0.02 + 0.98 * progress / warm_up
    return 0.01 + 0.495 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def save(model: nn.Module, path: str):
    state = {k: v.contiguous() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    replace(Path(path), lambda partial: save_file(state, partial))


def load(path: str) -> SegmentationNet:
    state = {k: v.float() for k, v in load_file(path).items()}
    model = SegmentationNet(has_layout="layout_head.weight" in state)
    missing = model.load_state_dict(state, strict=False)
    wrong = [k for k in missing.missing_keys if not k.endswith("num_batches_tracked")] + missing.unexpected_keys
    if wrong:
        raise ValueError(f"{path}: keys do not match the network: {wrong}")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", required=True, type=Path, help="folder with rendered shards")
    parser.add_argument("--real", type=Path, help="folder with shards of real pages")
    parser.add_argument("--real-share", type=float, default=0.4, help="share of real tiles in a batch")
    parser.add_argument("--init", help="checkpoint to start from")
    parser.add_argument("--out", required=True)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--steps", type=int)
    length.add_argument("--minutes", type=float)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--crop", type=int, default=512, help="side of the squares that are trained on")
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--workers", type=int, default=0, help="processes that make the batches; this one, if none")
    parser.add_argument("--save-every", type=int, default=250)
    parser.add_argument("--resume", action="store_true", help="go on after the last checkpoint of OUT")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    batches = Batches(arguments)

    model = load(arguments.init) if arguments.init else SegmentationNet()
    model = model.to(arguments.device, memory_format=torch.channels_last).train()
    average = copy.deepcopy(model)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}], lr=arguments.rate
    )
    state_path = Path(arguments.out + ".state")
    running, step, before = 0.0, 0, 0.0
    if arguments.resume and state_path.exists():
        state = load_state(state_path)
        for part, name in ((model, "model"), (average, "average"), (optimiser, "optimiser")):
            part.load_state_dict(state[name])
        batches.restore(state["batches"])
        torch.set_rng_state(state["torch"])
        running, step, before = (state[name] for name in ("running", "step", "seconds"))
        print(f"goes on after step {step}", flush=True)

    def progress(elapsed: float) -> float:
        return step / arguments.steps if arguments.steps else elapsed / (60 * arguments.minutes)

    started, elapsed = time.time() - before, before
    feed = on_device(batches, arguments, step)
    while progress(elapsed) < 1:
        rate = arguments.rate * learning_rate_share(progress(elapsed))
        for group in optimiser.param_groups:
            group["lr"] = rate
        pages, bands = next(feed)
        with torch.autocast(pages.device.type, torch.bfloat16):
            logits = model(pages)
        loss = segmentation_loss(logits.float(), bands)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        move_towards(average, model, 1 - min(0.998, (step + 1) / (step + 20)))
        running = loss.detach() if step == 0 else 0.98 * running + 0.02 * loss.detach()
        step += 1
        elapsed = time.time() - started
        if step % 50 == 0:
            print(f"step {step} loss {float(running):.4f} rate {rate:.5f} {elapsed:.0f} s", flush=True)
        over = progress(elapsed) >= 1
        if step % arguments.save_every == 0 or over:
            state = {"model": model.state_dict(), "average": average.state_dict(), "optimiser": optimiser.state_dict()}
            state |= {"batches": batches.state(), "torch": torch.get_rng_state()}
            state |= {"step": step, "running": float(running), "seconds": elapsed}
            save(average, arguments.out)
            save_state(state_path, state)
    print(f"{step} steps", flush=True)


if __name__ == "__main__":
    main()
