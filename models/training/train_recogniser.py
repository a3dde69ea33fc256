"""Trains the line recogniser on lines from `render_lines.py` and on real lines.

    python train_recogniser.py --pool POOL --charset charset.json --out first.safetensors --minutes 30
    python train_recogniser.py --pool POOL --real LINES --charset charset.json --init first.safetensors --out better.safetensors \
        --minutes 20 --check held=HELD_OUT_POOL

Both heads are trained together, each with the CTC loss. Batches hold lines of about the same width and about `--columns`
columns; a share of `--real-share` of them holds real lines. The learning rate warms up and then falls along a cosine over
`--steps`, or over `--minutes` on a machine whose speed varies. Shards that appear in POOL during training are picked up.

LINES holds `COLLECTION_PAGE_LINE.png` or `.jpg` with a `.txt` beside it. Every eighth page of a collection is held out for validation.
"""

import argparse
import json
import math
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from line_text import Symbols, letters, normalised, stacks
from recognition_net import RecognitionNet
from render_lines import HEIGHT, prepared
from stroke_pitch import even_strokes

HELD_OUT_EVERY = 8
STRIDE = 4
WIDEST_LINE = 2600
FEWEST_FRAMES = 1.3
FEWEST_GREY_LEVELS = 9


@dataclass
class Sample:
    """Ink map [64, width], 255 = ink, its strokes evened, and what it says. Scores are listed by `group`."""

    ink: np.ndarray
    text: str
    group: str

    def __post_init__(self):
        self.ink = even_strokes(self.ink)

    def legible(self) -> bool:
        """Whether there are frames enough for its stacks; the strokes of other lines have run together."""
        return self.ink.shape[1] / STRIDE > FEWEST_FRAMES * len(stacks(normalised(self.text)))


def pool_shard(path: Path, group: str | None = None) -> list[Sample]:
    """Lines of one shard, grouped by font unless a group is given."""
    with np.load(path) as shard:
        ink, widths, texts, fonts = (shard[name] for name in ("ink", "widths", "texts", "fonts"))
    images = np.split(ink, np.cumsum(widths)[:-1], axis=1)
    return [Sample(image.copy(), str(text), group or str(font)) for image, text, font in zip(images, texts, fonts)]


def real_lines(folder: Path, collections: set[str] | None = None) -> tuple[list[Sample], list[Sample]]:
    """Lines to train on, and those of every eighth page; of all collections unless some are named."""
    pages: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".png", ".jpg")):
        collection = path.stem.split("_")[0]
        if collections and collection not in collections or not path.with_suffix(".txt").exists():
            continue
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        ink = prepared(grey, bilevel=len(np.unique(grey)) < FEWEST_GREY_LEVELS)
        if ink.shape[1] <= WIDEST_LINE:
            text = path.with_suffix(".txt").read_text(encoding="utf8")
            pages[collection][path.stem.rsplit("_", 1)[0]].append(Sample(ink, text, collection))
    train, held_out = [], []
    for collection in pages.values():
        for number, page in enumerate(sorted(collection)):
            (held_out if number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 else train).extend(collection[page])
    return train, held_out


def augment(rng: random.Random, noise: np.random.Generator, ink: np.ndarray, strength: float) -> np.ndarray:
    """Another scan of the same line: other crop, slant, proportions, stroke width and grain; 0..1."""
    height, width = ink.shape
    stretch, scale = rng.uniform(0.88, 1.14), rng.uniform(1 - 0.25 * strength, 1 + 0.1 * strength)
    slant, slope = rng.gauss(0, 0.05), rng.gauss(0, 0.0015)
    shift = height / 2 * (1 - scale) + rng.uniform(-5, 5) * strength - slope * width / 2
    matrix = np.float32([[stretch, slant, -slant * height / 2], [slope, scale, shift]])
    line = cv2.warpAffine(ink, matrix, (round(width * stretch), height), flags=cv2.INTER_AREA).astype(np.float32) / 255
    change = rng.random()
    if change < 0.12:
        line = cv2.dilate(line, np.ones((2, 2), np.uint8))
    elif change < 0.2:
        line = cv2.erode(line, np.ones((2, 1), np.uint8))
    elif change < 0.32:
        line = cv2.GaussianBlur(line, (0, 0), rng.uniform(0.3, 0.9))
    if rng.random() < 0.25:
        line = line + noise.normal(0, rng.uniform(0.01, 0.07), line.shape)
    return np.clip(line, 0, 1).astype(np.float32)


class Batches:
    """Endless batches of lines of about the same width."""

    def __init__(self, pool: Path, real: list[Sample], real_share: float, columns: int, seed: int):
        self.folder, self.real_share, self.columns = pool, real_share, columns
        self.rng, self.noise = random.Random(seed), np.random.default_rng(seed)
        self.loaded: set[str] = set()
        self.rendered: list[Sample] = []
        self.real = sorted(real, key=lambda sample: sample.ink.shape[1])

    def refresh(self):
        for path in sorted(self.folder.glob("*.npz")):
            if path.name not in self.loaded:
                self.rendered.extend(sample for sample in pool_shard(path) if sample.legible())
                self.loaded.add(path.name)

    def split(self, samples: list[Sample]) -> list[list[Sample]]:
        samples = sorted(samples, key=lambda sample: sample.ink.shape[1])
        batches: list[list[Sample]] = [[]]
        for sample in samples:
            if batches[-1] and (len(batches[-1]) + 1) * sample.ink.shape[1] > self.columns:
                batches.append([])
            batches[-1].append(sample)
        self.rng.shuffle(batches)
        return batches

    def __iter__(self):
        while True:
            self.refresh()
            self.rng.shuffle(self.rendered)
            for start in range(0, len(self.rendered), 400):
                for batch in self.split(self.rendered[start : start + 400]):
                    while self.real and self.rng.random() < self.real_share:
                        yield [(augment(self.rng, self.noise, s.ink, 1.0), s.text) for s in self.real_batch()]
                    yield [(augment(self.rng, self.noise, s.ink, 0.4), s.text) for s in batch]

    def real_batch(self) -> list[Sample]:
        around = self.rng.randrange(len(self.real))
        count = max(2, self.columns // self.real[around].ink.shape[1])
        start = max(0, min(around - 2 * count, len(self.real) - 4 * count))
        near = self.real[start : start + 4 * count]
        return self.rng.sample(near, min(count, len(near)))


def collate(batch: list[tuple[np.ndarray, str]], heads: tuple[Symbols, Symbols]):
    """Images, their frames, and for each head the classes and their numbers."""
    width = max(ink.shape[1] for ink, _ in batch)
    images = np.zeros((len(batch), 1, HEIGHT, -(-width // 8) * 8), np.float32)
    for image, (ink, _) in zip(images, batch):
        image[0, :, : ink.shape[1]] = ink
    frames = torch.tensor([-(-ink.shape[1] // STRIDE) for ink, _ in batch])
    texts = [normalised(text) for _, text in batch]
    targets = []
    for head, units in zip(heads, (texts, [stacks(text) for text in texts])):
        classes = [head.encode(list(text)) for text in units]
        targets.append((torch.tensor(sum(classes, [])), torch.tensor([len(line) for line in classes])))
    return torch.from_numpy(images), frames, targets


def ctc(logits: torch.Tensor, frames: torch.Tensor, target: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return F.ctc_loss(logits.permute(2, 0, 1).log_softmax(-1), target[0], frames, target[1], zero_infinity=True)


@torch.no_grad()
def error_rates(net: RecognitionNet, samples: list[Sample], heads: tuple[Symbols, Symbols]) -> dict[str, tuple[float, float]]:
    """Character error rate by group, of both heads read greedily."""
    net.eval()
    counts = defaultdict(lambda: [0, 0, 0])
    for sample in samples:
        images, _, _ = collate([(sample.ink.astype(np.float32) / 255, sample.text)], heads)
        truth, count = letters(sample.text), counts[sample.group]
        for number, (head, logits) in enumerate(zip(heads, net(images))):
            count[number] += Levenshtein.distance(truth, letters(head.decode(logits[0].argmax(0).tolist())))
        count[2] += len(truth)
    net.train()
    return {group: (round(c[0] / c[2], 4), round(c[1] / c[2], 4)) for group, c in sorted(counts.items()) if c[2]}


def load_net(charset: str, weights: str | None) -> tuple[RecognitionNet, tuple[Symbols, Symbols]]:
    named = json.loads(Path(charset).read_text(encoding="utf8"))
    heads = (Symbols(named["codepoints"]), Symbols(named["stacks"]))
    net = RecognitionNet(*(len(head.symbols) + 1 for head in heads))
    if weights:
        net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(weights).items()})
    return net, heads


def save(net: RecognitionNet, path: str):
    """16-bit floats, as they are shipped."""
    state = {k: (v.half() if v.is_floating_point() else v).contiguous() for k, v in net.state_dict().items()}
    save_file(state, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", required=True, type=Path, help="folder of render_lines.py")
    parser.add_argument("--real", type=Path, help="folder with line images and texts")
    parser.add_argument("--collections", default="TCCG,proj19,proj42,Lhasa", help="of the real lines")
    parser.add_argument("--pages", type=Path, help="folder of page_lines.py")
    parser.add_argument("--charset", required=True, help="charset.json of the bundle")
    parser.add_argument("--init", help="weights to start from")
    parser.add_argument("--out", required=True)
    parser.add_argument("--check", action="append", default=[], help="NAME=POOL or POOL, lines to score before and after")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--steps", type=int)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--last-rate", type=float, default=3e-5)
    parser.add_argument("--warm-up", type=int, default=100, help="steps")
    parser.add_argument("--columns", type=int, default=10000, help="columns of a batch")
    parser.add_argument("--real-share", type=float, default=0.25)
    parser.add_argument("--bf16", action="store_true", help="16-bit arithmetic, for processors that have it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    cv2.setNumThreads(1)

    net, heads = load_net(arguments.charset, arguments.init)
    real, checks = real_lines(arguments.real, set(arguments.collections.split(","))) if arguments.real else ([], [])
    if arguments.pages:
        train, held_out = real_lines(arguments.pages)
        real, checks = real + [sample for sample in train if sample.legible()], checks + held_out
    for named in arguments.check:
        name, folder = named.split("=", 1) if "=" in named else (None, named)
        for path in sorted(Path(folder).glob("*.npz")):
            checks += pool_shard(path, name)
    print("lines: real", len(real), "to check", len(checks), flush=True)
    if arguments.init:
        print("before", json.dumps(error_rates(net, checks, heads)), flush=True)

    for module in net.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.01  # batches of real and of rendered lines differ: average over many
    optimiser = torch.optim.AdamW(net.parameters(), lr=arguments.rate, betas=(0.9, 0.98), weight_decay=1e-2)
    net.train()
    start, lines, mean = time.monotonic(), 0, None
    for step, batch in enumerate(Batches(arguments.pool, real, arguments.real_share, arguments.columns, arguments.seed)):
        spent = time.monotonic() - start
        done = step / arguments.steps if arguments.steps else spent / (60 * arguments.minutes)
        if done >= 1:
            break
        fall = 0.5 * (1 + math.cos(math.pi * done))
        rate = (arguments.last_rate + (arguments.rate - arguments.last_rate) * fall) * min(1.0, (step + 1) / arguments.warm_up)
        for group in optimiser.param_groups:
            group["lr"] = rate
        images, frames, targets = collate(batch, heads)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.bf16):
            outputs = net(images)
        losses = [ctc(logits.float(), frames, target) for logits, target in zip(outputs, targets)]
        optimiser.zero_grad()
        sum(losses).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimiser.step()
        lines += len(batch)
        current = np.array([loss.item() for loss in losses])
        mean = current if mean is None else 0.98 * mean + 0.02 * current
        if (step + 1) % 50 == 0:
            print(f"{spent:.0f} s, step {step + 1}, {lines} lines, loss {mean[0]:.3f} {mean[1]:.3f}, rate {rate:.1e}", flush=True)
        if (step + 1) % 600 == 0:
            save(net, arguments.out)
            print("scores", json.dumps(error_rates(net, checks, heads)), flush=True)
    save(net, arguments.out)
    net, _ = load_net(arguments.charset, arguments.out)
    print("after", json.dumps(error_rates(net, checks, heads)), flush=True)


if __name__ == "__main__":
    main()
