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
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from averaged_weights import move_towards
from checkpoint import load_state, replace, save_state
from segmentation_net import SegmentationNet


class Pool:
    """Bit-packed tiles of all shards in a folder."""

    def __init__(self, folder: str):
        self.folder = Path(folder)
        self.loaded: list[str] = []
        self.pages: list[np.ndarray] = []
        self.bands: list[np.ndarray] = []

    def refresh(self):
        for path in sorted(self.folder.glob("*.npz")):
            if path.name not in self.loaded:
                self.load(path.name)

    def load(self, name: str):
        with np.load(self.folder / name) as shard:
            self.pages.extend(shard["pages"])
            self.bands.extend(shard["bands"])
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


def batch(rng: random.Random, noise: np.random.Generator, pools: list[tuple[float, Pool]], size: int, crop: int):
    weights = [weight for weight, _ in pools]
    pages, bands = [], []
    for _ in range(size):
        page, band = rng.choices(pools, weights)[0][1].sample(rng)
        if crop < page.shape[0]:
            page, band = crop_with_text(rng, page, band, crop)
        pages.append(augment(rng, noise, page))
        bands.append(band)
    to_tensor = lambda arrays: torch.from_numpy(np.stack(arrays)[:, None].astype(np.float32))
    return to_tensor(pages), to_tensor(bands)


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
    model = SegmentationNet()
    state = {k: v.float() for k, v in load_file(path).items()}
    missing = model.load_state_dict(state, strict=False)
    wrong = [k for k in missing.missing_keys if not k.endswith("num_batches_tracked")] + missing.unexpected_keys
    if wrong:
        raise ValueError(f"{path}: keys do not match the network: {wrong}")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", required=True, help="folder with rendered shards")
    parser.add_argument("--real", help="folder with shards of real pages")
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
    parser.add_argument("--save-every", type=int, default=250)
    parser.add_argument("--resume", action="store_true", help="go on after the last checkpoint of OUT")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    rng, noise = random.Random(arguments.seed), np.random.default_rng(arguments.seed)
    pool = Pool(arguments.pool)
    pools = [(1.0, pool)]
    if arguments.real:
        pools = [(1 - arguments.real_share, pool), (arguments.real_share, Pool(arguments.real))]

    model = load(arguments.init) if arguments.init else SegmentationNet()
    model = model.to(memory_format=torch.channels_last).train()
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
        for (_, source), names in zip(pools, state["loaded"]):
            for name in names:
                source.load(name)
        rng.setstate(state["rng"])
        noise.bit_generator.state = state["noise"]
        torch.set_rng_state(state["torch"])
        running, step, before = (state[name] for name in ("running", "step", "seconds"))
        print(f"goes on after step {step}", flush=True)

    def progress(elapsed: float) -> float:
        return step / arguments.steps if arguments.steps else elapsed / (60 * arguments.minutes)

    started, elapsed = time.time() - before, before
    while progress(elapsed) < 1:
        if step % 100 == 0:
            for _, source in pools:
                source.refresh()
        rate = arguments.rate * learning_rate_share(progress(elapsed))
        for group in optimiser.param_groups:
            group["lr"] = rate
        pages, bands = batch(rng, noise, pools, arguments.batch, arguments.crop)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(pages.contiguous(memory_format=torch.channels_last))
        loss = segmentation_loss(logits.float(), bands)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        move_towards(average, model, 1 - min(0.998, (step + 1) / (step + 20)))
        running = loss.item() if step == 0 else 0.98 * running + 0.02 * loss.item()
        step += 1
        elapsed = time.time() - started
        if step % 50 == 0:
            print(f"step {step} loss {running:.4f} rate {rate:.5f} tiles {len(pool)} {elapsed:.0f} s", flush=True)
        over = progress(elapsed) >= 1
        if step % arguments.save_every == 0 or over:
            state = {"model": model.state_dict(), "average": average.state_dict(), "optimiser": optimiser.state_dict()}
            state |= {"rng": rng.getstate(), "noise": noise.bit_generator.state, "torch": torch.get_rng_state()}
            state |= {"loaded": [source.loaded for _, source in pools]}
            state |= {"step": step, "running": running, "seconds": elapsed}
            save(average, arguments.out)
            save_state(state_path, state)
    print(f"{step} steps", flush=True)


if __name__ == "__main__":
    main()
