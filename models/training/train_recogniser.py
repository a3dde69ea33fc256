"""Trains the line recogniser on lines from `render_lines.py` and on real lines.

    python train_recogniser.py --pool POOL --charset charset.json --out first.safetensors --minutes 30
    python train_recogniser.py --pool POOL --real LINES --charset charset.json --init first.safetensors --out better.safetensors \
        --minutes 20 --check held=HELD_OUT_POOL

Both heads are trained together, each with the CTC loss. Batches hold lines of about the same width and about `--columns`
columns; a share of `--real-share` of these are real lines, small collections more often than their size asks for. Some of the real
lines are joined from pieces of others (`line_pieces.py`), once there are weights that can read them: those of `--init`, or the ones
of step `--cut-at`, which also sort out lines whose text must be another's. The learning rate warms up, stays, and falls over the last
`--fall-share` of `--steps`, or of `--minutes` on a machine whose speed varies. What is scored and saved is a moving average of the
weights, at the end with a `--start-share` of those of `--init`: the mean of both is often better than either. `--keep-statistics` goes
on from weights with the statistics of norms that they have. `--keep` is for learning something new in few and small batches: it does so
too, and what other weights read better, those of `--init` as a rule, is learnt from them.
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
import time
from collections import defaultdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from safetensors.torch import load_file, save_file

from averaged_weights import move_towards
from checkpoint import load_state, load_weights, replace, save_state
from learner import Learner, Teacher, ctc, distillation, forward, kept
from line_batches import Batches, Heads, collate, collated
from line_pieces import TSHEG, Cut, cuts
from line_samples import Sample, all_lines, pool_shard, real_lines
from line_text import Symbols, as_printed, letters, stacks
from recognition_net import RecognitionNet, widths_of

WORST_LINE = 0.3
DISTILLED_FROM = 0.1


@torch.no_grad()
def cuts_of(sample: Sample, net: RecognitionNet, symbols: Symbols, hard: str, trusted: bool) -> list[Cut] | None:
    """Where the sample can be cut; none if the network reads it so differently that its text must be another's.

    A line of a collection with `hard` in its name may differ twice as much, and a `trusted` one as much as it likes, but then it is
    not cut.
    """
    log_probs = net(torch.from_numpy(sample.ink[None, None].astype(np.float32) / 255))[1][0].log_softmax(0).T.numpy()
    read, truth = letters(symbols.decode(log_probs.argmax(1).tolist())), letters(sample.text)
    wrong = Levenshtein.normalized_distance(read, truth)
    if wrong <= WORST_LINE:
        units = [symbols.encode([unit]) for unit in stacks(as_printed(sample.text))]
        return cuts(sample.ink, units, log_probs, symbols.classes[TSHEG])
    return [] if trusted or hard and hard in sample.group and wrong <= 2 * WORST_LINE else None


def cuttable(net: RecognitionNet, samples: list[Sample], heads: Heads, arguments: argparse.Namespace) -> list[Sample]:
    """The samples with their cuts, without those that have another's text."""
    read = partial(cuts_of, net=copy.deepcopy(net).cpu().eval(), symbols=heads[1], hard=arguments.hard, trusted=arguments.trusted)
    if arguments.workers:
        with get_context("fork").Pool(arguments.workers, torch.set_num_threads, (1,)) as pool:
            found = pool.map(read, samples, chunksize=8)
    else:
        found = map(read, samples)
    for sample, where in zip(samples, found):
        sample.cuts = where
    return [sample for sample in samples if sample.cuts is not None]


@torch.no_grad()
def errors(net: RecognitionNet, samples: list[Sample], heads: Heads) -> dict[str, list[int]]:
    """By group the edits of both heads, read greedily, and the letters of the truth."""
    net.eval()
    device, counts = next(net.parameters()).device, defaultdict(lambda: [0, 0, 0])
    for sample in samples:
        images, _, _ = collate([(sample.ink.astype(np.float32) / 255, sample.text)], heads)
        truth, count = letters(sample.text), counts[sample.group]
        for number, (head, logits) in enumerate(zip(heads, net(images.to(device)))):
            count[number] += Levenshtein.distance(truth, letters(head.decode(logits[0].argmax(0).tolist())))
        count[2] += len(truth)
    net.train()
    return {group: count for group, count in sorted(counts.items()) if count[2]}


def error_rates(net: RecognitionNet, samples: list[Sample], heads: Heads) -> dict[str, tuple[float, float]]:
    """Character error rate by group, of both heads."""
    return {group: (round(c[0] / c[2], 4), round(c[1] / c[2], 4)) for group, c in errors(net, samples, heads).items()}


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


def load_net(charset: str, weights: str | None) -> tuple[RecognitionNet, Heads]:
    named = json.loads(Path(charset).read_text(encoding="utf8"))
    heads = (Symbols(named["codepoints"]), Symbols(named["stacks"]))
    classes = [len(head.symbols) + 1 for head in heads]
    if not weights:
        return RecognitionNet(*classes), heads
    state = load_weights(weights)
    net = RecognitionNet(*classes, **widths_of(state))
    net.load_state_dict(widened(state, heads[1], "hst"))
    return net, heads


@torch.no_grad()
def blend(net: RecognitionNet, start: str, arguments: argparse.Namespace):
    """Moves weights towards those they began from, but for stacks that these do not know, which began as guesses."""
    known, state = len(load_file(start)["hst.bias"]), net.state_dict()
    learnt = {name: value[known:].clone() for name, value in state.items() if name.startswith("hst.")}
    move_towards(net, load_net(arguments.charset, start)[0].to(arguments.device), arguments.start_share)
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
    parser.add_argument("--rendered-strength", type=float, default=0.45, help="of the changes to rendered lines, up to 1")
    parser.add_argument("--real-share", type=float, default=0.25)
    parser.add_argument("--cut-at", type=int, help="step at which to cut the real lines; at once, where weights are given")
    parser.add_argument("--cut-with", help="weights that tell at once where to cut the real lines")
    parser.add_argument("--joined-share", type=float, default=0.35, help="of the real lines")
    parser.add_argument("--hard", default="", help="part of the names of collections that are read badly so far")
    parser.add_argument("--trusted", action="store_true", help="train on real lines however differently the network reads them")
    parser.add_argument("--smoothing", type=float, default=0.0, help="weight of label smoothing")
    parser.add_argument("--average", type=float, default=0.998, help="decay of the moving average of the weights in a step")
    parser.add_argument("--teacher", type=float, default=0.0, help="train a network of so many times the width to teach this one")
    parser.add_argument("--teacher-init", help="weights for the teacher to start from")
    parser.add_argument("--teacher-dropout", type=float, default=0.05, help="it is wide enough to learn the real lines by heart")
    parser.add_argument("--teacher-until", type=float, default=0.6, help="share of the training in which the teacher learns")
    parser.add_argument("--keep", help="weights of the same charset, to whose distributions to keep in lines that they read better")
    parser.add_argument("--keep-statistics", action="store_true", help="normalise by the statistics of --init, as in reading")
    parser.add_argument("--start-share", type=float, default=0.0, help="of the weights of --init in what is saved at the end")
    parser.add_argument("--resume", action="store_true", help="go on after the last checkpoint of OUT")
    parser.add_argument("--checkpoint-every", type=int, default=600, help="steps")
    parser.add_argument("--bf16", action="store_true", help="16-bit arithmetic, for processors that have it")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--workers", type=int, default=0, help="processes that make the batches; this one, if none")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.start_share and not arguments.init:
        parser.error("--start-share is of the weights of --init")
    if arguments.keep:
        arguments.keep_statistics = True
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    cv2.setNumThreads(1)

    started = time.monotonic()
    net, heads = load_net(arguments.charset, arguments.init)
    net.to(arguments.device, memory_format=torch.channels_last)
    unseen, real, checks = frozenset(filter(None, arguments.unseen.split(","))), [], []
    if arguments.real:
        real, checks = real_lines(arguments.real, set(arguments.collections.split(",")), unseen, arguments.workers)
        checks += all_lines(arguments.real, set(unseen))
        if not real:
            parser.error(f"{arguments.real} has no lines of {arguments.collections}: name its --collections")
    elif unseen:
        parser.error("--unseen names collections of --real")
    if arguments.pages:
        real += [sample for sample in all_lines(arguments.pages, None, unseen, arguments.workers) if sample.legible()]
    if arguments.check_pages:
        of_pages = all_lines(arguments.check_pages, workers=arguments.workers)
        for sample in of_pages:
            sample.group = f"pages of {sample.group}"
        checks += of_pages
    for named in arguments.check:
        name, folder = named.split("=", 1) if "=" in named else (None, named)
        for path in sorted(Path(folder).glob("*.npz")):
            checks += pool_shard(path, name)
    cut_at = 0 if arguments.init or arguments.cut_with else arguments.cut_at
    if cut_at == 0:
        cutter = load_net(arguments.charset, arguments.cut_with)[0] if arguments.cut_with else net
        real = cuttable(cutter, real, heads, arguments) or real
    print("lines: real", len(real), "to check", len(checks), f"after {time.monotonic() - started:.0f} s", flush=True)

    student = Learner(net, arguments.rate, arguments.average, arguments.keep_statistics)
    teacher = Teacher(net, arguments) if arguments.teacher else None
    former = load_net(arguments.charset, arguments.keep)[0].to(arguments.device).eval() if arguments.keep else None
    batches, all_real = Batches(arguments.pool, real, arguments), real
    state_path, log_path = Path(arguments.out + ".state"), Path(arguments.out + ".jsonl")
    step, lines, before, mean = 0, 0, 0.0, None
    if arguments.resume and state_path.exists():
        state = load_state(state_path)
        student.restore(state["student"])
        if teacher:
            teacher.learner.restore(state["teacher"])
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
        print(json.dumps({"step": step, "seconds": round(spent)} | entry), flush=True)

    start, spent = time.monotonic() - before, before
    if not step:
        log(scores=error_rates(student.average, checks, heads))
        start = time.monotonic()
    feed = collated(batches, heads, arguments, step)
    while True:
        spent = time.monotonic() - start
        done = step / arguments.steps if arguments.steps else spent / (60 * arguments.minutes)
        if done >= 1:
            break
        rate = learning_rate(arguments, step, done)
        teaching_rate = learning_rate(arguments, step, done / arguments.teacher_until) if done < arguments.teacher_until else 0.0
        if step and step == cut_at:
            real = cuttable(student.average, all_real, heads, arguments) or all_real
            batches.draw_from(real)
            feed = collated(batches, heads, arguments, step)
            print("real lines:", len(real), "of which cut:", sum(bool(sample.cuts) for sample in real), flush=True)
        batch = next(feed)
        images, frames, targets = batch
        step, lines = step + 1, lines + len(images)
        outputs = forward(net, images, arguments.bf16)
        losses = [ctc(logits, frames, target, arguments.smoothing) for logits, target in zip(outputs, targets)]
        loss, current = sum(losses), losses
        if teacher:
            taught, loss_of_teacher = teacher.outputs(batch, teaching_rate, step)
            apart = [distillation(*pair, frames, target) for *pair, target in zip(outputs, taught, targets)]
            loss = loss + min(1.0, done / DISTILLED_FROM) * sum(apart)
            current = [*losses, apart[-1], loss_of_teacher]
        if former:
            with torch.no_grad():
                known = forward(former, images, arguments.bf16)
            forgotten = [kept(*pair, frames, target) for *pair, target in zip(outputs, known, targets)]
            loss = loss + sum(forgotten)
            current = [*current, forgotten[-1]]
        student.learn(loss, rate, step)
        current = torch.stack(current).detach().double()
        mean = current if mean is None else 0.98 * mean + 0.02 * current
        if step % 50 == 0:
            log(loss=[round(value, 4) for value in mean.tolist()], rate=float(f"{rate:.2e}"))
        if step % arguments.checkpoint_every == 0:
            save(student.average, arguments.out)
            if teacher:
                save(teacher.learner.average, f"{arguments.out}.teacher")
            state = {"student": student.state(), "teacher": teacher and teacher.learner.state()}
            state |= {"torch": torch.get_rng_state(), "batches": batches.state()}
            numbers = {id(sample): number for number, sample in enumerate(all_real)}
            state |= {"real": [(numbers[id(sample)], sample.cuts) for sample in real]}
            state |= {"step": step, "lines": lines, "seconds": spent, "mean": mean}
            save_state(state_path, state)
            log(scores=error_rates(student.average, checks, heads))
    average = student.average
    if arguments.start_share:
        blend(average, arguments.init, arguments)
        if teacher and arguments.teacher_init:
            blend(teacher.learner.average, arguments.teacher_init, arguments)
    save(average, arguments.out)
    if teacher:
        save(teacher.learner.average, f"{arguments.out}.teacher")
        print(json.dumps({"teacher": error_rates(teacher.learner.average, checks, heads)}), flush=True)
    average = load_net(arguments.charset, arguments.out)[0].to(arguments.device)
    log(scores=error_rates(average, checks, heads))


if __name__ == "__main__":
    main()
