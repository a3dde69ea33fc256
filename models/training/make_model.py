"""Trains a model from nothing, or from the weights of another with `--init`, to the bundle that the program reads, in one command.

    python make_model.py segmenter --fonts FONTS --corpus corpus.txt --pages PAGES --work WORK --out BUNDLE
    python make_model.py recogniser --fonts FONTS --corpus corpus.txt --pages PAGES --lines LINES --node NODE --work WORK --out BUNDLE

FONTS, PAGES and LINES are as the README beside this file describes them; NODE is the program, which cuts lines out of PAGES. All that
is made on the way is kept in WORK. The same command goes on where it was interrupted: a step that is done is not done again, and
training goes on from its last checkpoint. Every step has a seed, which `--seed` changes, but for the lines that are held out. With
`--steps` a repetition trains on the same batches, with `--minutes` for as long as it takes.

The recogniser keeps the charset and the language model of the shipped one.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from checkpoint import in_eight_bits, load_weights
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent / "weights" / "recogniser"
WEIGHTS, SECOND_WEIGHTS = "model.safetensors", "second.safetensors"
DOUBT = 0.2
"""Probability of what the first network does not say clearly, from which on the teacher reads a part of a line again."""
SEGMENTER_THRESHOLD = "0.85"
LAYOUT_STEPS = 4600
# Of the weights of `--init` in those of the recogniser that goes on from them.
START_SHARE = 0.5
# Of the training of a recogniser, for each of its networks to go on with the statistics of its norms kept.
KEPT_SHARE = 0.1
COLUMNS = 10_000
"""Of a batch for which the rates of the recogniser are; for others they grow with the root."""
# Real pages that a network may not be told have no picture.
PAGES_WITH_PICTURES = ("oet_MW1KG13607_00", "oet_MW1NLM1660_00", "oet_Nitartha-DTG204_00", "oet_Tibschol_03", "oet_W2KG5015_00")
# Pages that share their text with held-out lines.
PAGES_OF_HELD_OUT_LINES = ("TCCG_014", "TCCG_026", "TCCG_050")


class Work:
    """A folder of intermediate results, and a mark for every step that is done."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def step(self, name: str, *command: object, watch: Callable[[str], None] = lambda line: None):
        """Runs a command unless it has been run to its end; its output goes to a log of its own, and line by line to `watch`."""
        done, log = self / f"{name}.done", self / f"{name}.log"
        ordered = json.dumps([str(part) for part in command[1:]])
        if done.exists():
            if done.read_text(encoding="utf8") != ordered:
                sys.exit(f"{name} was done with other arguments: take another --work, or remove {done} and what it made")
            return
        print(f"{name}: see {log}", flush=True)
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "encoding": "utf8", "errors": "replace"}
        with open(log, "a", encoding="utf8") as output, subprocess.Popen([str(part) for part in command], cwd=HERE, **piped) as running:
            for line in running.stdout:
                output.write(line)
                output.flush()
                watch(line)
        if running.returncode:
            sys.exit(f"{name} failed: see {log}")
        done.write_text(ordered, encoding="utf8")

    def script(self, name: str, script: str, *arguments: object, **watched: Callable[[str], None]):
        self.step(name, sys.executable, HERE / script, *arguments, **watched)


def seed_and_start(arguments: argparse.Namespace) -> str:
    """What else a repetition has to know."""
    start = f", from the weights of {arguments.init.parent.name}/{arguments.init.name}" if arguments.init else ""
    return f"seed {arguments.seed}{start}"


def length(arguments: argparse.Namespace, share: float = 1.0) -> tuple[str, object]:
    """A share of the training that was asked for, as the scripts of training take it."""
    if arguments.steps:
        return "--steps", max(1, round(arguments.steps * share))
    return "--minutes", arguments.minutes * share


def seeded(arguments: argparse.Namespace, seed: int) -> tuple[str, int]:
    """The seed of a step; a hundred lie between those of one training and the next, so that no two steps share one."""
    return "--seed", seed + 100 * arguments.seed


def sources(arguments: argparse.Namespace, *names: str) -> list[dict[str, str]]:
    """What a model was trained on, as its description says it."""
    if arguments.sources:
        return json.loads(arguments.sources.read_text(encoding="utf8"))
    return [{"name": f"{name}: {getattr(arguments, name).name}", "licence": "as its source says"} for name in names]


def render(work: Work, arguments: argparse.Namespace, name: str, script: str, pool: str, *more: object, corpus: Path | None = None):
    work.script(name, script, "--fonts", arguments.fonts, "--corpus", corpus or arguments.corpus, "--out", work / pool, *more)


def segmenter(arguments: argparse.Namespace):
    """Rendered pages teach a first network, or `--init` is it, which marks the lines of real pages for the second.

    What else pages hold is learnt last.
    """
    work, pool = Work(arguments.work), ("--pool", arguments.work / "pages")
    render(work, arguments, "render", "render_pages.py", "pages", "--pages", arguments.rendered or 1500, *seeded(arguments, 11))
    train, first, second = "train_segmentation.py", work / "first.safetensors", work / "second.safetensors"
    rest, rate = 1.0, 8e-4
    if arguments.init:
        first = arguments.init
    else:
        rest, rate = 0.6, 2e-3
        drawn = ("--crop", 256, "--batch", 6, "--rate", 4e-3, *seeded(arguments, 1), "--resume")
        work.script("train-first", train, *pool, "--out", first, *length(arguments, 1 - rest), *drawn)
    real = work / "real"
    labels = ("--real", arguments.pages, "--out", real, "--overlays", work / "overlays", "--views", 4, "--exclude", "TCCG", *seeded(arguments, 1))
    work.script("label", "pseudo_labels.py", "--weights", first, *labels)
    mixed = ("--real", real, "--real-share", 0.3, "--init", first, "--crop", 320, "--batch", 6, "--rate", rate, *seeded(arguments, 2))
    work.script("train-second", train, *pool, *mixed, "--resume", "--out", second, *length(arguments, rest))
    plain, both = work / "plain", work / "both.safetensors"
    labels = ("--real", arguments.pages, "--out", plain, "--overlays", work / "overlays-plain", "--views", 2, *seeded(arguments, 4))
    work.script("label-plain", "pseudo_labels.py", "--weights", second, *labels, "--exclude", "TCCG", *PAGES_WITH_PICTURES)
    taught = (*pool, "--real", plain, "--init", second, "--out", both, "--steps", LAYOUT_STEPS, *seeded(arguments, 3), "--resume")
    work.script("train-layout", "train_layout.py", *taught)
    summary = work / "summary.json"
    amount = " ".join(map(str, length(arguments)))
    description = f"make_model.py segmenter {amount}, {seed_and_start(arguments)}: rendered pages, and real ones beside them"
    training = {"description": description, "data": sources(arguments, "fonts", "corpus", "pages"), "scores": {}}
    summary.write_text(json.dumps(training), encoding="utf8")
    bundle = ("--weights", both, "--threshold", SEGMENTER_THRESHOLD, "--summary", summary, "--name", arguments.name)
    work.script("export", "export_segmenter.py", *bundle, "--out", arguments.out)


def recogniser(arguments: argparse.Namespace):
    """Rendered lines, real lines, and lines that the program cuts from real pages."""
    work, lines = Work(arguments.work), arguments.rendered or 12_000
    processes = ("--workers", max(1, arguments.workers))
    render(work, arguments, "render", "render_lines.py", "lines", "--lines", lines, *seeded(arguments, 31), "--cursive", 0.4, *processes)
    rare = work / "rare.txt"
    work.script("rare", "rare_corpus.py", "--corpus", arguments.corpus, "--out", rare, "--segments", 8000, *seeded(arguments, 1))
    drawn = ("--lines", max(1, lines // 4), *seeded(arguments, 41), "--cursive", 0.2, *processes)
    render(work, arguments, "render-rare", "render_lines.py", "lines", *drawn, corpus=rare)
    if arguments.latin_fonts:
        numbers = ("--lines", max(1, lines // 6), *seeded(arguments, 51), "--cursive", 0.2, *processes)
        numbers += ("--numbers", 1, "--number-fonts", arguments.latin_fonts)
        render(work, arguments, "render-numbers", "render_lines.py", "lines", *numbers)
    render(work, arguments, "render-held-out", "render_lines.py", "held-out", "--lines", 160, "--seed", 50, "--held-out")
    read, cut = work / "read", ("--out", work / "read", "--truth", arguments.pages)
    work.step("read", arguments.node, "ocr", arguments.pages, "--out", read)
    without = ("--without", *PAGES_OF_HELD_OUT_LINES)
    work.script("cut", "page_lines.py", *cut, "--lines", work / "page-lines", *without)
    work.script("cut-held-out", "page_lines.py", *cut, "--lines", work / "held-out-page-lines", "--held-out")
    weights = work / WEIGHTS
    data = ("--pool", work / "lines", "--real", arguments.lines, "--pages", work / "page-lines")
    data += ("--collections", arguments.collections) if arguments.collections else ()
    checks = ("--check-pages", work / "held-out-page-lines", "--check", f"held-out={work / 'held-out'}")
    larger = (arguments.columns / COLUMNS) ** 0.5
    rates = ("--rate", 1.5e-3 * larger, "--last-rate", 1e-5, "--warm-up", 300, "--cut-at", arguments.cut_at)
    if arguments.init:
        rates = ("--init", arguments.init, "--rate", 6e-4 * larger, "--last-rate", 5e-6, "--start-share", START_SHARE)
    data += ("--hard", "Tibschol", "--unseen", arguments.unseen, "--charset", SHIPPED / "charset.json", "--resume")
    processor = ("--device", arguments.device, "--workers", arguments.workers, "--columns", arguments.columns)
    processor += ("--threads", arguments.threads, *(("--bf16",) if arguments.bf16 else ()))
    chosen = ("--out", weights, "--real-share", 0.4, "--smoothing", 0.02, "--teacher", arguments.teacher, *seeded(arguments, 21))
    networks = [WEIGHTS, *([f"{WEIGHTS}.teacher"] if arguments.teacher else [])]
    rest = length(arguments, 1 - KEPT_SHARE * len(networks))
    work.script("train", "train_recogniser.py", *data, *checks, *rates, *chosen, *rest, *processor)
    kept = [work / f"kept-{network}" for network in networks]
    for number, (network, out) in enumerate(zip(networks, kept)):
        former = work / network
        chosen = ("--init", former, "--keep", former, "--out", out, "--real-share", 0.45, *seeded(arguments, 61 + number))
        rates = ("--rate", 2e-4 * larger, "--last-rate", 1e-5, "--warm-up", 20, "--average", 0.98, *length(arguments, KEPT_SHARE))
        work.script(f"train-kept-{number}", "train_recogniser.py", *data, *checks, *chosen, *rates, *processor)
    bundle(arguments, kept[0], [weights, *kept])


def bundle(arguments: argparse.Namespace, weights: Path, trained: list[Path]):
    """The bundle of these weights and of what lies beside them as their teacher, after one training for each of `trained`."""
    efforts = ", then ".join(effort(entries(each)) for each in trained)
    scores = next(entry["scores"] for entry in reversed(entries(weights)) if "scores" in entry)
    training = {
        "description": f"make_model.py recogniser, {efforts}, {seed_and_start(arguments)}",
        "data": sources(arguments, "fonts", "corpus", "pages", "lines"),
        "scores": {f"character error rate, {group}": score[1] for group, score in scores.items()},
    }
    write_bundle(arguments.out, SHIPPED, weights, arguments.name, training, arguments.teacher)


def entries(weights: Path) -> list[dict]:
    """What train_recogniser.py wrote down while it made these weights."""
    return [json.loads(line) for line in Path(f"{weights}.jsonl").read_text(encoding="utf8").splitlines()]


def effort(log: list[dict]) -> str:
    return f"{log[-1]['step']} steps in {log[-1]['seconds'] / 60:.0f} minutes"


def described(bundle: Path) -> dict:
    return json.loads((bundle / "model.json").read_text(encoding="utf8"))


def write_bundle(
    out: Path, like: Path, weights: Path, name: str, training: dict, teacher: float = 0.0, architecture: dict | None = None
):
    """A recogniser with these weights, and with the charset and the language model of another, whose network it has unless an architecture is given.

    The teacher that was trained beside it, so many times as wide, reads once more what it is unsure of; nobody does without one.
    """
    description = described(like)
    out.mkdir(parents=True, exist_ok=True)
    kept = [description["charset"], *([description["language_model"]["ngrams"]] if "language_model" in description else [])]
    for file in kept:
        shutil.copyfile(like / file["file"], out / file["file"])
    description["name"] = name
    description["architecture"] = architecture or description["architecture"]
    description["weights"] = bundled(out, WEIGHTS, weights)
    description.pop("second_reading", None)
    if teacher:
        description["second_reading"] = {
            "architecture": wider(description["architecture"], teacher),
            "weights": bundled(out, SECOND_WEIGHTS, Path(f"{weights}.teacher")),
            "doubt": DOUBT,
        }
    description["training"] = training
    text = json.dumps(description, ensure_ascii=False, indent=2)
    (out / "model.json").write_text(text + "\n", encoding="utf8")


def bundled(out: Path, name: str, weights: Path) -> dict[str, str]:
    """Weights as a file of a bundle, as its description names it."""
    save_file(in_eight_bits(load_weights(weights)), out / name)
    return {"file": name, "sha256": hashlib.sha256((out / name).read_bytes()).hexdigest()}


def wider(architecture: dict, times: float) -> dict:
    """The dimensions that `RecognitionNet.wider` gives."""
    stem = [round(times * width) for width in architecture["stem"]]
    return architecture | {"stem": stem, "channels": round(times * architecture["channels"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True, metavar="segmenter|recogniser")
    for name, make, minutes in (("segmenter", segmenter, 60.0), ("recogniser", recogniser, 100.0)):
        kind = kinds.add_parser(name, help=(make.__doc__ or "").strip().splitlines()[0])
        kind.set_defaults(make=make)
        kind.add_argument("--fonts", required=True, type=Path, help="folder with Tibetan fonts")
        kind.add_argument("--corpus", required=True, type=Path, help="plain text, one segment a line")
        kind.add_argument("--pages", required=True, type=Path, help="page scans with transcriptions")
        kind.add_argument("--work", required=True, type=Path, help="folder for what is made on the way")
        kind.add_argument("--out", required=True, type=Path, help="folder for the bundle")
        kind.add_argument("--name", default=f"{name}-of-my-own", help="of the model")
        kind.add_argument("--sources", type=Path, help="JSON list with name and licence of all data, for the description")
        kind.add_argument("--init", type=Path, help="weights to start from")
        kind.add_argument("--rendered", type=int, help="pages or lines to render")
        kind.add_argument("--seed", type=int, default=0, help="of the training: another one renders and draws other lines")
        amount = kind.add_mutually_exclusive_group()
        amount.add_argument("--minutes", type=float, default=minutes, help="of training (default: %(default)s)")
        amount.add_argument("--steps", type=int, help="of training, in the place of minutes")
        if make is recogniser:
            kind.add_argument("--lines", required=True, type=Path, help="real lines with texts")
            kind.add_argument("--node", required=True, type=Path, help="the program")
            kind.add_argument("--collections", help="of the real lines; those of the shipped model if left out")
            kind.add_argument("--unseen", default="", help="collections of the real lines to score and never to train on")
            kind.add_argument("--latin-fonts", type=Path, help="folder with fonts for the Latin digits of page numbers")
            kind.add_argument("--cut-at", type=int, default=3000, help="step at which the real lines are cut into pieces")
            kind.add_argument("--threads", type=int, default=1, help="of the training (default: %(default)s)")
            kind.add_argument("--bf16", action="store_true", help="16-bit arithmetic, for processors that have it")
            kind.add_argument("--device", default="cpu", help="of the training, cpu or cuda (default: %(default)s)")
            kind.add_argument("--workers", type=int, default=0, help="processes that render lines and make the batches of the training")
            kind.add_argument("--columns", type=int, default=COLUMNS, help="of a batch (default: %(default)s)")
            kind.add_argument("--teacher", type=float, default=0.0, help="train a network of so many times the width to teach this one and to read what it is unsure of")
    arguments = parser.parse_args()
    for name, value in vars(arguments).items():
        if isinstance(value, Path):
            if name not in ("work", "out") and not value.exists():
                parser.error(f"--{name}: there is no {value}")
            setattr(arguments, name, value.resolve())
    arguments.make(arguments)


if __name__ == "__main__":
    main()
