"""Trains the line recogniser on lines from `render_lines.py` and on real lines.

    python train_recogniser.py --pool POOL --charset charset.json --out first.safetensors --minutes 30
    python train_recogniser.py --pool POOL --real LINES --charset charset.json --init first.safetensors --out better.safetensors \
        --minutes 20 --check held=HELD_OUT_POOL

Both heads are trained together, each with the CTC loss. Batches hold lines of about the same width and about `--columns`
columns; a share of `--real-share` of them holds real lines, small collections more often than their size asks for. Some of the real
lines are joined from pieces of others (`line_pieces.py`), once there are weights that can read them: those of `--init`, or the ones
of step `--cut-at`, which also sort out lines whose text must be another's. The learning rate warms up, stays, and falls over the last
`--fall-share` of `--steps`, or of `--minutes` on a machine whose speed varies. What is scored and saved is a moving average of the
weights, at the end with a `--start-share` of those of `--init`: the mean of both is often better than either.
Shards that appear in POOL during training are picked up.

OUT.state holds all that `--resume` needs to go on after the last checkpoint; with `--steps` the batches are then those of a run
that was never interrupted, and until the rate falls more steps may be asked for, as if they had been from the start. OUT.jsonl has
a line for every 50 steps with the losses and one for every checkpoint with the scores.

LINES holds `COLLECTION_PAGE_LINE.png` or `.jpg` with a `.txt` beside it. Every eighth page of a collection is held out for validation, and all
pages of `--unseen` ones.
"""

import argparse
import copy
import json
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from averaged_weights import move_towards
from checkpoint import load_state, replace, save_state
from line_augmentation import augment
from line_pieces import STRIDE, TSHEG, Cut, cuts, piece
from line_text import Symbols, as_printed, letters, stacks
from real_line_files import HELD_OUT_EVERY, lines_by_page, split
from recognition_net import RecognitionNet
from render_lines import HEIGHT, prepared
from stroke_pitch import even_strokes

CHECKPOINT_EVERY = 600
WORST_LINE = 0.3
WIDEST_LINE = 2600
FEWEST_FRAMES = 1.3
FEWEST_GREY_LEVELS = 9


@dataclass
class Sample:
    """Ink map [64, width], 255 = ink, its strokes evened, and what it says. Scores are listed by `group`."""

    ink: np.ndarray
    text: str
    group: str
    cuts: list[Cut] | None = None

    def __post_init__(self):
        self.ink = even_strokes(self.ink)

    def legible(self) -> bool:
        """Whether there are frames enough for its stacks; the strokes of other lines have run together."""
        return self.ink.shape[1] / STRIDE > FEWEST_FRAMES * len(stacks(as_printed(self.text)))


def pool_shard(path: Path, group: str | None = None) -> list[Sample]:
    """Lines of one shard, grouped by font unless a group is given."""
    with np.load(path) as shard:
        ink, widths, texts, fonts = (shard[name] for name in ("ink", "widths", "texts", "fonts"))
    images = np.split(ink, np.cumsum(widths)[:-1], axis=1)
    return [Sample(image.copy(), str(text), group or str(font)) for image, text, font in zip(images, texts, fonts)]


def real_lines(
    folder: Path, collections: set[str] | None = None, without: frozenset[str] = frozenset()
) -> tuple[list[Sample], list[Sample]]:
    """Lines to train on, and those of every eighth page; of all collections but `without` unless some are named."""
    train, held_out = [], []
    for collection, pages in lines_by_page(folder, wanted(collections, without)).items():
        for part, files in zip((train, held_out), split(pages, HELD_OUT_EVERY)):
            part.extend(samples_of(files, collection))
    return train, held_out


def all_lines(folder: Path, collections: set[str] | None = None, without: frozenset[str] = frozenset()) -> list[Sample]:
    """The same without a split."""
    of_collections = lines_by_page(folder, wanted(collections, without)).items()
    return [sample for collection, pages in of_collections for files in pages for sample in samples_of(files, collection)]


def wanted(collections: set[str] | None, without: frozenset[str]) -> Callable[[str], bool]:
    return lambda collection: (collections is None or collection in collections) and collection not in without


def samples_of(files: list[Path], collection: str) -> list[Sample]:
    return [sample for path in files if (sample := real_line(path, collection))]


def real_line(path: Path, collection: str) -> Sample | None:
    """One that is not too wide for a batch."""
    grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    ink = prepared(grey, bilevel=len(np.unique(grey)) < FEWEST_GREY_LEVELS)
    if ink.shape[1] > WIDEST_LINE:
        return None
    return Sample(ink, path.with_suffix(".txt").read_text(encoding="utf8"), collection)


@torch.no_grad()
def cuttable(net: RecognitionNet, samples: list[Sample], heads: tuple[Symbols, Symbols], hard: str) -> list[Sample]:
    """The samples with their cuts, without those that the network reads so differently that their text must be another's.

    Lines of collections with `hard` in their names may differ twice as much, but those that do are not cut.
    """
    net.eval()
    symbols, kept = heads[1], []
    for sample in samples:
        log_probs = net(torch.from_numpy(sample.ink[None, None].astype(np.float32) / 255))[1][0].log_softmax(0).T.numpy()
        read, truth = letters(symbols.decode(log_probs.argmax(1).tolist())), letters(sample.text)
        wrong = Levenshtein.normalized_distance(read, truth)
        if wrong <= WORST_LINE or hard and hard in sample.group and wrong <= 2 * WORST_LINE:
            units = [symbols.encode([unit]) for unit in stacks(as_printed(sample.text))]
            sample.cuts = cuts(sample.ink, units, log_probs, symbols.classes[TSHEG]) if wrong <= WORST_LINE else []
            kept.append(sample)
    net.train()
    return kept


class Batches:
    """Endless batches of lines of about the same width."""

    def __init__(self, pool: Path, real: list[Sample], arguments: argparse.Namespace):
        self.folder, self.real_share, self.columns = pool, arguments.real_share, arguments.columns
        self.joined_share = arguments.joined_share
        self.rng, self.noise = random.Random(arguments.seed), np.random.default_rng(arguments.seed)
        self.loaded: list[str] = []
        self.rendered: list[Sample] = []
        self.queue: list[list[int]] = []
        self.order: list[int] = []
        self.draw_from(real)

    def draw_from(self, real: list[Sample]):
        self.real = sorted(real, key=lambda sample: sample.ink.shape[1])
        self.by_group: dict[str, list[Sample]] = defaultdict(list)
        for sample in self.real:
            self.by_group[sample.group].append(sample)
        self.weights = [len(self.by_group[sample.group]) ** -0.5 for sample in self.real]

    def state(self) -> dict:
        return {"rng": self.rng.getstate(), "noise": self.noise.bit_generator.state, "loaded": list(self.loaded)} | {
            "queue": [list(batch) for batch in self.queue],
            "order": list(self.order),
        }

    def restore(self, state: dict):
        for name in state["loaded"]:
            self.load(name)
        self.rng.setstate(state["rng"])
        self.noise.bit_generator.state = state["noise"]
        self.queue, self.order = state["queue"], state["order"]

    def load(self, name: str):
        self.rendered.extend(sample for sample in pool_shard(self.folder / name) if sample.legible())
        self.loaded.append(name)

    def refresh(self):
        for path in sorted(self.folder.glob("*.npz")):
            if path.name not in self.loaded:
                self.load(path.name)

    def split(self, samples: list[int]) -> list[list[int]]:
        def width(number: int) -> int:
            return self.rendered[number].ink.shape[1]

        batches: list[list[int]] = [[]]
        for number in sorted(samples, key=width):
            if batches[-1] and (len(batches[-1]) + 1) * width(number) > self.columns:
                batches.append([])
            batches[-1].append(number)
        self.rng.shuffle(batches)
        return batches

    def next(self) -> list[tuple[np.ndarray, str]]:
        if self.real and self.rng.random() < self.real_share:
            return [self.augmented(*self.joined(sample), 1.0) for sample in self.real_batch()]
        while not self.queue:
            if not self.order:
                self.refresh()
                self.order = list(range(len(self.rendered)))
                self.rng.shuffle(self.order)
            self.queue = self.split(self.order[:400])
            self.order = self.order[400:]
        return [self.augmented(s.ink, s.text, 0.45) for s in (self.rendered[number] for number in self.queue.pop())]

    def augmented(self, ink: np.ndarray, text: str, strength: float) -> tuple[np.ndarray, str]:
        other = self.rng.choice(self.rendered or self.real).ink
        return augment(self.rng, self.noise, ink, other, strength), text

    def real_batch(self) -> list[Sample]:
        around = self.rng.choices(range(len(self.real)), self.weights)[0]
        count = max(2, self.columns // self.real[around].ink.shape[1])
        start = max(0, min(around - 2 * count, len(self.real) - 4 * count))
        near = range(start, min(start + 4 * count, len(self.real)))
        chosen = set(self.rng.choices(near, [self.weights[number] for number in near], k=count))
        return [self.real[number] for number in sorted(chosen)]

    def joined(self, sample: Sample) -> tuple[np.ndarray, str]:
        """The line, or pieces of lines of its collection in one line of about the same width."""
        if not sample.cuts or self.rng.random() >= self.joined_share:
            return sample.ink, sample.text
        width, parts = sample.ink.shape[1], []
        for _ in range(6):
            left = width - sum(part[0].shape[1] for part in parts)
            if left < 60:
                break
            donor = self.rng.choice(self.by_group[sample.group]) if parts else sample
            if donor.cuts:
                wanted = min(left, width * self.rng.uniform(0.15, 0.6))
                part = piece(self.rng, donor.ink, stacks(as_printed(donor.text)), donor.cuts, wanted)
                if part and part[0].shape[1] <= left + 60:
                    parts.append(part)
        if not parts:
            return sample.ink, sample.text
        return np.concatenate([ink for ink, _ in parts], axis=1), "".join(text for _, text in parts)


def collate(batch: list[tuple[np.ndarray, str]], heads: tuple[Symbols, Symbols]):
    """Images, their frames, and for each head the classes and their numbers."""
    width = max(ink.shape[1] for ink, _ in batch)
    images = np.zeros((len(batch), 1, HEIGHT, -(-width // 8) * 8), np.float32)
    for image, (ink, _) in zip(images, batch):
        image[0, :, : ink.shape[1]] = ink
    frames = torch.tensor([-(-ink.shape[1] // STRIDE) for ink, _ in batch])
    texts = [as_printed(text) for _, text in batch]
    targets = []
    for head, units in zip(heads, (texts, [stacks(text) for text in texts])):
        classes = [head.encode(list(text)) for text in units]
        targets.append((torch.tensor(sum(classes, [])), torch.tensor([len(line) for line in classes])))
    return torch.from_numpy(images).to(memory_format=torch.channels_last), frames, targets


def ctc(logits: torch.Tensor, frames: torch.Tensor, target: tuple[torch.Tensor, torch.Tensor], smoothing: float) -> torch.Tensor:
    """The CTC loss, and a little of what it would cost to name every class equally often."""
    log_probs = logits.permute(2, 0, 1).log_softmax(-1)
    loss = F.ctc_loss(log_probs, target[0], frames, target[1], zero_infinity=True)
    return loss - smoothing * log_probs.mean() if smoothing else loss


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


def widened(state: dict[str, torch.Tensor], symbols: Symbols, layer: str) -> dict[str, torch.Tensor]:
    """Weights for a charset to which symbols were added at its end: a new stack begins as the mean of those that are like it."""
    weight, bias = state[f"{layer}.weight"], state[f"{layer}.bias"]
    known = len(bias) - 1
    rows, biases = [weight], [bias]
    for symbol in symbols.symbols[known:]:
        old = symbols.symbols[:known]
        if len(symbol) == 1:
            alike = [other for other in old if symbol in other]
        else:
            alike = [other for other in old if other == symbol[:-1]]
            alike = alike or [other for other in old if other[0] == symbol[0] and other[-1] == symbol[-1]]
        numbers = [symbols.classes[other] for other in alike] or [0]
        rows.append(weight[numbers].mean(0, keepdim=True))
        biases.append(bias[numbers].mean(0, keepdim=True) - 3)
    return state | {f"{layer}.weight": torch.cat(rows), f"{layer}.bias": torch.cat(biases)}


def load_net(charset: str, weights: str | None) -> tuple[RecognitionNet, tuple[Symbols, Symbols]]:
    named = json.loads(Path(charset).read_text(encoding="utf8"))
    heads = (Symbols(named["codepoints"]), Symbols(named["stacks"]))
    net = RecognitionNet(*(len(head.symbols) + 1 for head in heads))
    if weights:
        state = {k: v.float() if v.is_floating_point() else v for k, v in load_file(weights).items()}
        net.load_state_dict(widened(state, heads[1], "hst"))
    return net, heads


@torch.no_grad()
def blend(net: RecognitionNet, start: RecognitionNet, share: float, known: int):
    """Moves weights towards those they began from, but for the stacks after the first `known`, which began as guesses."""
    state = net.state_dict()
    learnt = {name: value[known:].clone() for name, value in state.items() if name.startswith("hst.")}
    move_towards(net, start, share)
    for name, value in learnt.items():
        state[name][known:] = value


def learning_rate(arguments: argparse.Namespace, step: int, done: float) -> float:
    """The rate of a step, where a share `done` of the training is past.

    Warm-up, plateau and fall along 1 - sqrt, after Hägele et al., "Scaling Laws and Compute-Optimal Training Beyond Fixed Training
    Durations", 2024: as good as a cosine, and where the end lies need not be known before the fall.
    """
    fallen = math.sqrt(max(0.0, 1 - (1 - done) / arguments.fall_share))
    rate = arguments.last_rate + (arguments.rate - arguments.last_rate) * (1 - fallen)
    return rate * min(1.0, (step + 1) / arguments.warm_up)


def save(net: RecognitionNet, path: str):
    """16-bit floats, as they are shipped."""
    state = {k: (v.half() if v.is_floating_point() else v).contiguous() for k, v in net.state_dict().items()}
    replace(Path(path), lambda partial: save_file(state, partial))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", required=True, type=Path, help="folder of render_lines.py")
    parser.add_argument("--real", type=Path, help="folder with line images and texts")
    parser.add_argument("--collections", default="TCCG,proj19,proj42,Lhasa", help="of the real lines")
    parser.add_argument("--unseen", default="", help="collections of the real lines to score and never to train on")
    parser.add_argument("--pages", type=Path, help="folder of page_lines.py")
    parser.add_argument("--check-pages", type=Path, help="folder of page_lines.py --held-out")
    parser.add_argument("--charset", required=True, help="charset.json of the bundle")
    parser.add_argument("--init", help="weights to start from")
    parser.add_argument("--out", required=True)
    parser.add_argument("--check", action="append", default=[], help="NAME=POOL or POOL, lines to score before and after")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--steps", type=int)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--last-rate", type=float, default=3e-5)
    parser.add_argument("--fall-share", type=float, default=0.3, help="of the training, in which the rate falls to the last one")
    parser.add_argument("--warm-up", type=int, default=100, help="steps")
    parser.add_argument("--columns", type=int, default=10000, help="columns of a batch")
    parser.add_argument("--real-share", type=float, default=0.25)
    parser.add_argument("--cut-at", type=int, help="step at which to cut the real lines; at once, where weights are given")
    parser.add_argument("--joined-share", type=float, default=0.35, help="of the real lines")
    parser.add_argument("--hard", default="", help="part of the names of collections that are read badly so far")
    parser.add_argument("--smoothing", type=float, default=0.0, help="weight of label smoothing")
    parser.add_argument("--average", type=float, default=0.998, help="decay of the moving average of the weights in a step")
    parser.add_argument("--start-share", type=float, default=0.0, help="of the weights of --init in what is saved at the end")
    parser.add_argument("--resume", action="store_true", help="go on after the last checkpoint of OUT")
    parser.add_argument("--bf16", action="store_true", help="16-bit arithmetic, for processors that have it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.start_share and not arguments.init:
        parser.error("--start-share is of the weights of --init")
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    cv2.setNumThreads(1)

    started = time.monotonic()
    net, heads = load_net(arguments.charset, arguments.init)
    net.to(memory_format=torch.channels_last)
    unseen, real, checks = frozenset(filter(None, arguments.unseen.split(","))), [], []
    if arguments.real:
        real, checks = real_lines(arguments.real, set(arguments.collections.split(",")), without=unseen)
        checks += all_lines(arguments.real, set(unseen))
        if not real:
            parser.error(f"{arguments.real} has no lines of {arguments.collections}: name its --collections")
    elif unseen:
        parser.error("--unseen names collections of --real")
    if arguments.pages:
        real += [sample for sample in all_lines(arguments.pages, without=unseen) if sample.legible()]
    if arguments.check_pages:
        of_pages = all_lines(arguments.check_pages)
        for sample in of_pages:
            sample.group = f"pages of {sample.group}"
        checks += of_pages
    for named in arguments.check:
        name, folder = named.split("=", 1) if "=" in named else (None, named)
        for path in sorted(Path(folder).glob("*.npz")):
            checks += pool_shard(path, name)
    cut_at = 0 if arguments.init else arguments.cut_at
    if cut_at == 0:
        real = cuttable(net, real, heads, arguments.hard) or real
    print("lines: real", len(real), "to check", len(checks), f"after {time.monotonic() - started:.0f} s", flush=True)

    for module in net.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.01  # batches of real and of rendered lines differ: average over many
    average = copy.deepcopy(net)
    optimiser = torch.optim.AdamW(net.parameters(), lr=arguments.rate, betas=(0.9, 0.98), weight_decay=1e-2)
    batches, all_real = Batches(arguments.pool, real, arguments), real
    state_path, log_path = Path(arguments.out + ".state"), Path(arguments.out + ".jsonl")
    step, lines, before, mean = 0, 0, 0.0, None
    if arguments.resume and state_path.exists():
        state = load_state(state_path)
        net.load_state_dict(state["net"])
        average.load_state_dict(state["average"])
        optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["torch"])
        real = [all_real[number] for number, _ in state["real"]]
        for sample, (_, where) in zip(real, state["real"]):
            sample.cuts = where
        batches.draw_from(real)
        batches.restore(state["batches"])
        step, lines, before, mean = (state[name] for name in ("step", "lines", "seconds", "mean"))
    elif log_path.exists():
        log_path.unlink()

    def log(**entry):
        with open(log_path, "a", encoding="utf8") as file:
            file.write(json.dumps({"step": step, "lines": lines, "seconds": round(spent)} | entry) + "\n")
        print(json.dumps({"step": step} | entry), flush=True)

    start, spent = time.monotonic() - before, before
    if not step:
        log(scores=error_rates(average, checks, heads))
        start = time.monotonic()
    net.train()
    while True:
        spent = time.monotonic() - start
        done = step / arguments.steps if arguments.steps else spent / (60 * arguments.minutes)
        if done >= 1:
            break
        rate = learning_rate(arguments, step, done)
        for group in optimiser.param_groups:
            group["lr"] = rate
        if step and step == cut_at:
            real = cuttable(average, all_real, heads, arguments.hard) or all_real
            batches.draw_from(real)
            print("real lines:", len(real), "of which cut:", sum(bool(sample.cuts) for sample in real), flush=True)
        batch = batches.next()
        images, frames, targets = collate(batch, heads)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.bf16):
            outputs = net(images)
        losses = [ctc(logits.float(), frames, target, arguments.smoothing) for logits, target in zip(outputs, targets)]
        optimiser.zero_grad()
        sum(losses).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimiser.step()
        step, lines = step + 1, lines + len(batch)
        move_towards(average, net, 1 - min(arguments.average, (1 + step) / (10 + step)))
        current = np.array([loss.item() for loss in losses])
        mean = current if mean is None else 0.98 * mean + 0.02 * current
        if step % 50 == 0:
            log(loss=[round(float(value), 4) for value in mean], rate=float(f"{rate:.2e}"))
        if step % CHECKPOINT_EVERY == 0:
            save(average, arguments.out)
            state = {"net": net.state_dict(), "average": average.state_dict(), "optimiser": optimiser.state_dict()}
            state |= {"torch": torch.get_rng_state(), "batches": batches.state()}
            numbers = {id(sample): number for number, sample in enumerate(all_real)}
            state |= {"real": [(numbers[id(sample)], sample.cuts) for sample in real]}
            state |= {"step": step, "lines": lines, "seconds": spent, "mean": mean}
            save_state(state_path, state)
            log(scores=error_rates(average, checks, heads))
    if arguments.start_share:
        known = len(load_file(arguments.init)["hst.bias"])
        blend(average, load_net(arguments.charset, arguments.init)[0], arguments.start_share, known)
    save(average, arguments.out)
    average, _ = load_net(arguments.charset, arguments.out)
    log(scores=error_rates(average, checks, heads))


if __name__ == "__main__":
    main()
