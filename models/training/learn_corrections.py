"""Goes on training a recogniser on corrected lines of a library, and says what that gained there and lost elsewhere.

    node corrections export JOB --lines LINES
    python learn_corrections.py --lines LINES --out BUNDLE --elsewhere OTHER_LINES --check HELD_OUT_LINES --fonts FONTS

LINES holds `VOLUME_IMAGE_LINE.png` with the text in `.txt`. Every fifth page is held out: neither trained on nor used for any choice. The
weights end between those of `--model` and the learnt ones; every fifth of the other pages chooses where, and what is lost elsewhere counts
there as much as what is gained here.

So that nothing is forgotten, half of the lines are from elsewhere: real ones of OTHER_LINES, `COLLECTION_PAGE_LINE.png` or `.jpg`
with their `.txt`, of which every eighth page of a collection is read before and after and never trained on, and lines that are rendered in
FONTS, out of CORPUS or else out of the corrected texts. HELD_OUT_LINES are read before and after. All of these may be left out. Without
OTHER_LINES the weights go half of the way at most, and yet more is lost elsewhere; without HELD_OUT_LINES either, how much is not known.

BUNDLE receives the model, its card and `report.json`. No model is written, and the exit status is 3, if no other weights read the pages for
the choice better than those of `--model`, or the chosen ones read the held-out pages no better. What is made on the way is kept in WORK; the same
command goes on where it was interrupted.
"""

import argparse
import copy
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import cv2
import torch

from averaged_weights import move_towards
from correction_parts import Pages, Parts, apart, corrected_pages, in_parts, lines, without_class
from correction_report import EIGHT_LINES, STACKS, Row, card, rows, table, together, wrong
from line_samples import WIDEST_LINE, Sample, all_lines, real_ink, real_line, text_of
from make_model import SHIPPED, Work, described, effort, entries, length, render, seeded, write_bundle
from real_line_files import HELD_OUT_EVERY, lines_by_page
from recognition_net import RecognitionNet
from render_lines import save_shard
from train_recogniser import Heads, load_net, save

LINES_OF_THE_REPOSITORY = SHIPPED.parents[1] / "tests" / "fixtures" / "lines"
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
FARTHEST_UNCHECKED = 0.5
"""The share up to which the weights are moved where no lines from elsewhere say what that loses."""
NOTHING_GAINED = 3


class Elsewhere:
    """Real lines of other collections: some to go on training on, some to choose by, and some to read before and after."""

    def __init__(self, folders: list[Path], checks: list[Path]):
        self.trained: list[tuple[Path, str]] = []
        self.chosen_by: list[Sample] = []
        self.scored: list[Sample] = []
        for folder in folders:
            for collection, pages in lines_by_page(folder, lambda collection: True).items():
                scored, rest = kept_back(pages)
                chosen_by, trained = kept_back(rest)
                self.trained += [(line, collection) for line in lines(trained)]
                self.chosen_by += samples(chosen_by, collection)
                self.scored += samples(scored, f"{folder.name}: {collection}")
        for folder in checks:
            for sample in all_lines(folder):
                sample.group = f"{folder.name}: {sample.group}"
                self.scored.append(sample)


def kept_back(pages: Pages) -> tuple[Pages, Pages]:
    """Every eighth page, and the others; of few pages none is kept back."""
    return apart(pages, 1 / HELD_OUT_EVERY) if len(pages) >= HELD_OUT_EVERY else ([], pages)


def samples(pages: Pages, group: str) -> list[Sample]:
    return [sample for line in lines(pages) if (sample := real_line(line, group))]


class Progress:
    """Says on standard error how far a training is."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments

    def __call__(self, line: str):
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if "loss" not in entry:
            return
        step, minutes = entry["step"], entry["seconds"] / 60
        done = step / self.arguments.steps if self.arguments.steps else minutes / self.arguments.minutes
        left = minutes / done - minutes if done else self.arguments.minutes
        print(f"learning: {min(1, done):.0%}, step {step}, loss {entry['loss'][-1]:.3f}, {max(0, left):.0f} minutes left", file=sys.stderr)


def link(folder: Path, chosen: list[Path]):
    """A folder of these lines and no others."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for line in chosen:
        for path in (line, line.with_suffix(".txt")):
            (folder / path.name).symlink_to(path)


def gather(work: Work, arguments: argparse.Namespace, learnt: list[Path], elsewhere: Elsewhere) -> bool:
    """Puts lines from elsewhere, real and rendered, into the pool of the training; whether there are any."""
    pool = work / "pool"
    pool.mkdir(exist_ok=True)
    inks = [(real_ink(line), text_of(line), collection) for line, collection in elsewhere.trained]
    others = [line for line in inks if line[0].shape[1] <= WIDEST_LINE]
    if others:
        save_shard(pool / "real.npz", others)
    if arguments.fonts:
        corpus = arguments.corpus or work / "texts.txt"
        if not arguments.corpus:
            corpus.write_text("\n".join(text_of(line).strip() for line in learnt), encoding="utf8")
        drawn = ("--lines", arguments.rendered, *seeded(arguments, 31), "--cursive", 0.4, "--workers", arguments.threads)
        render(work, arguments, "render", "render_lines.py", "pool", *drawn, corpus=corpus)
    return bool(others or arguments.fonts)


def start_of(arguments: argparse.Namespace) -> dict:
    """The network of the model that goes on learning, as the description names its architecture and weights."""
    model = described(arguments.model)
    return model["second_reading"] if arguments.second else model


def learn(work: Work, arguments: argparse.Namespace, learnt: list[Path], elsewhere: Elsewhere) -> Path:
    """The weights after the training."""
    share, weights, model = 0.5 if gather(work, arguments, learnt, elsewhere) else 1.0, work / "learnt.safetensors", described(arguments.model)
    link(work / "corrected", learnt)
    start = ("--init", arguments.model / start_of(arguments)["weights"]["file"], "--charset", arguments.model / model["charset"]["file"])
    data = ("--pool", work / "pool", "--pages", work / "corrected", "--real-share", share, "--trusted")
    rates = ("--rate", arguments.rate, "--last-rate", 5e-6, "--smoothing", 0.02, "--checkpoint-every", 300)
    way = ("--threads", arguments.threads, *seeded(arguments, 21), "--resume", *length(arguments), *(("--bf16",) if arguments.bf16 else ()))
    work.script("learn", "train_recogniser.py", *data, *start, *rates, *way, "--out", weights, watch=Progress(arguments))
    return weights


def between(start: RecognitionNet, learnt: RecognitionNet, share: float) -> RecognitionNet:
    """The network whose weights are moved by a share of the way to the learnt ones."""
    net = copy.deepcopy(start)
    move_towards(net, learnt, share)
    return net


def tried(start: RecognitionNet, learnt: RecognitionNet, here: list[Sample], there: list[Sample], heads: Heads) -> list[dict]:
    """The error rates of every share on the pages for the choice, of the collection and, where there are any, of others."""
    choices = []
    for share in SHARES if there else [share for share in SHARES if share <= FARTHEST_UNCHECKED]:
        net = between(start, learnt, share)
        counts = {name: wrong(net, part, heads) for name, part in (("here", here), ("elsewhere", there)) if part}
        choices.append({"share": share} | {name: round(edits / letters, 4) for name, (edits, letters) in counts.items()})
    return choices


def best(choices: list[dict]) -> dict:
    """The one with the least errors here and elsewhere together, of equals the one that is moved least."""
    return min(choices, key=lambda choice: (choice["here"] + choice.get("elsewhere", 0.0), choice["share"]))


def choice_said(choices: list[dict]) -> str:
    rates = [", ".join(f"{rate:.1%} {where}" for where, rate in choice.items() if where != "share") for choice in choices]
    said = "; ".join(f"moved by {choice['share']:.0%}, {rate}" for choice, rate in zip(choices, rates))
    return f"The weights are moved by {best(choices)['share']:.0%} of the way to the learnt ones. CER of the pages for this choice: {said}."


def finish(arguments: argparse.Namespace, work: Work, report: dict, scored: list[Row], weights: Path) -> int:
    """Says what came of it, and writes the bundle if something was gained."""
    model = described(arguments.model)
    gained = report["share"] > 0 and scored[0].wrong_after < scored[0].wrong_before
    print(report["choice_said"], table(scored), *report["notes"], sep="\n\n")
    text = json.dumps(report, ensure_ascii=False, indent=2) + "\n"
    (work / "report.json").write_text(text, encoding="utf8")
    if not gained:
        print(f"\nnothing was gained: no model was written. See {work / 'report.json'}", file=sys.stderr)
        return NOTHING_GAINED
    learnt = [f"{report['lines']['learnt']} corrected lines of the folder {arguments.lines.name}"]
    learnt += [f"lines of the folder {folder.name}" for folder in arguments.elsewhere]
    learnt += [f"lines rendered in fonts of the folder {arguments.fonts.name}"] if arguments.fonts else []
    training = {
        "description": f"{report['training']}. {report['choice_said']}",
        "data": model["training"]["data"] + [{"name": name, "licence": "as its source says"} for name in learnt],
        "scores": {f"character error rate, {row.name}": round(row.wrong_after / row.letters, 4) for row in scored},
    }
    write_bundle(arguments.out, arguments.model, weights, arguments.name, training, architecture=start_of(arguments)["architecture"])
    (arguments.out / "report.json").write_text(text, encoding="utf8")
    (arguments.out / "README.md").write_text(card(arguments.name, model["name"], report, scored), encoding="utf8")
    print(f"\nwritten: {arguments.out}, to be named as {arguments.name}", file=sys.stderr)
    return 0


def remarks(pages: Pages, parts: Parts, learnable: list[Path], heads: Heads) -> list[str]:
    """What has to be known of the lines to understand the scores."""
    notes = []
    if not parts.whole_pages():
        notes.append("The pages were too few to hold out whole ones: the last lines of a page were, which flatters the score.")
    if left_out := len(lines(parts.learnt)) - len(learnable):
        notes.append(f"{left_out} lines were not learnt from: they are too narrow for their text, or too wide for the memory.")
    if unwritable := without_class([text_of(line) for line in lines(pages)], heads[STACKS]):
        said = ", ".join(f"{symbol} (U+{ord(symbol):04X}) in {count} lines" for symbol, count in unwritable.items())
        notes.append(f"The model has no class for these characters and goes on leaving them out: {said}.")
    return notes


def run(arguments: argparse.Namespace) -> int:
    began, work, model = time.monotonic(), Work(arguments.work), described(arguments.model)
    pages = corrected_pages(arguments.lines)
    if not pages:
        sys.exit(f"{arguments.lines} has no lines with a text")
    parts = in_parts(pages, arguments.hold_out)
    learnable = [line for line in lines(parts.learnt) if (sample := real_line(line, "here")) and sample.legible()]
    if not (learnable and parts.chosen_by and parts.held_out):
        sys.exit(f"{arguments.lines} has {len(lines(pages))} lines with a text: too few to learn from, to choose by and to judge by")
    start, heads = load_net(arguments.model / model["charset"]["file"], arguments.model / start_of(arguments)["weights"]["file"])
    notes = remarks(pages, parts, learnable, heads)
    checks = arguments.check if arguments.check or arguments.elsewhere else [LINES_OF_THE_REPOSITORY]
    elsewhere = Elsewhere(arguments.elsewhere, checks)
    if checks == [LINES_OF_THE_REPOSITORY]:
        notes.append(EIGHT_LINES)
    if not elsewhere.chosen_by:
        notes.append("As there were no lines from elsewhere to choose by, the weights go half of the way at most.")
    numbers = {"learnt": len(learnable), "chosen_by": len(lines(parts.chosen_by)), "held_out": len(lines(parts.held_out))}
    print(f"corrected lines of {len(pages)} pages: {numbers}; from elsewhere {len(elsewhere.trained)}", file=sys.stderr)
    link(work / "held-out", lines(parts.held_out))
    learnt = load_net(arguments.model / model["charset"]["file"], learn(work, arguments, learnable, elsewhere))[0]
    choices = tried(start, learnt, samples(parts.chosen_by, "here"), elsewhere.chosen_by, heads)
    share = best(choices)["share"]
    weights = work / "chosen.safetensors"
    save(between(start, learnt, share), str(weights))
    after = load_net(arguments.model / model["charset"]["file"], weights)[0]
    print(f"reading {numbers['held_out'] + len(elsewhere.scored)} lines before and after", file=sys.stderr)
    scored = rows(start, after, samples(parts.held_out, "held-out pages of the corrected lines"), heads)
    others = rows(start, after, elsewhere.scored, heads)
    scored += [together("elsewhere, all", others), *others] if others else []
    log = entries(work / "learnt.safetensors")
    training = f"learn_corrections.py, {effort(log)} with rate {arguments.rate:g} and seed {arguments.seed}, from the weights of {model['name']}"
    report = {"model": arguments.name, "from": model["name"], "training": training, "lines": numbers, "pages": len(pages)}
    report |= {"whole_pages": parts.whole_pages(), "share": share, "choices": choices}
    report |= {"choice_said": choice_said(choices), "notes": notes, "scores": [asdict(row) for row in scored]}
    report |= {"minutes_of_training": round(log[-1]["seconds"] / 60, 1), "minutes_of_this_run": round((time.monotonic() - began) / 60, 1)}
    return finish(arguments, work, report, scored, weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True, type=Path, help="folder with corrected lines and their texts")
    parser.add_argument("--model", type=Path, default=SHIPPED, help="bundle to go on from (default: the shipped recogniser)")
    parser.add_argument("--second", action="store_true", help="go on from the network for unsure lines, which then reads all of them")
    parser.add_argument("--out", required=True, type=Path, help="folder for the bundle")
    parser.add_argument("--work", type=Path, help="folder for what is made on the way (default: beside --out)")
    parser.add_argument("--name", help="of the new model (default: that of --model with -learnt)")
    parser.add_argument("--elsewhere", nargs="*", default=[], type=Path, help="folders with lines of other collections, to go on training on")
    parser.add_argument("--check", nargs="*", default=[], type=Path, help="folders with lines to read before and after, never trained on")
    parser.add_argument("--fonts", type=Path, help="folder with Tibetan fonts: rendered lines are trained on as well")
    parser.add_argument("--corpus", type=Path, help="what rendered lines say, one segment a line (default: what the corrected ones say)")
    parser.add_argument("--rendered", type=int, default=2000, help="lines to render (default: %(default)s)")
    parser.add_argument("--hold-out", type=float, default=0.2, help="share of the pages (default: %(default)s)")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--minutes", type=float, default=20.0, help="of training (default: %(default)s)")
    amount.add_argument("--steps", type=int, help="of training, in the place of minutes")
    parser.add_argument("--rate", type=float, default=5e-4, help="of learning (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another one draws other batches")
    parser.add_argument("--threads", type=int, default=1, help="of the training; more than there are idle cores make it slower (default: %(default)s)")
    parser.add_argument("--bf16", action="store_true", help="16-bit arithmetic, for processors that have it")
    arguments = parser.parse_args()
    if not 0 < arguments.hold_out <= 0.5:
        parser.error("--hold-out is a share of the pages, up to 0.5")
    for folder in (arguments.lines, arguments.model, *arguments.elsewhere, *arguments.check, *filter(None, (arguments.fonts, arguments.corpus))):
        if not folder.exists():
            parser.error(f"there is no {folder}")
    if not (arguments.model / "model.json").exists() or described(arguments.model)["architecture"]["name"] != "ctc-residual-conv":
        parser.error(f"{arguments.model} is not a recogniser of this program")
    if arguments.second and "second_reading" not in described(arguments.model):
        parser.error(f"--second: {arguments.model} has one network")
    arguments.work = arguments.work or arguments.out.with_name(f"{arguments.out.name}.work")
    arguments.name = arguments.name or f"{described(arguments.model)['name']}-learnt"
    for name, value in vars(arguments).items():
        if isinstance(value, Path):
            setattr(arguments, name, value.resolve())
        elif name in ("elsewhere", "check"):
            setattr(arguments, name, [path.resolve() for path in value])
    if arguments.out == arguments.model:
        parser.error("--out is the folder of --model")
    torch.set_num_threads(arguments.threads)
    cv2.setNumThreads(1)
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
