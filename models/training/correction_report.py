"""What learning from corrected lines gained on their collection and lost elsewhere, as a table, a model card and numbers."""

from dataclasses import asdict, dataclass

from line_samples import Sample
from recognition_net import RecognitionNet
from train_recogniser import Heads, errors

STACKS = 1
EIGHT_LINES = "Elsewhere, only the eight lines of the repository were read: too few to tell how much was lost there."


@dataclass
class Row:
    """Lines that were not trained on, and how many of their letters are wrong before and after."""

    name: str
    lines: int
    letters: int
    wrong_before: int
    wrong_after: int

    def cells(self) -> str:
        before, after = (100 * wrong / self.letters for wrong in (self.wrong_before, self.wrong_after))
        return f"| {self.name} | {self.lines} | {before:.1f} % | {after:.1f} % | {after - before:+.1f} |"


def wrong(net: RecognitionNet, samples: list[Sample], heads: Heads) -> tuple[int, int]:
    """Wrong letters of all lines, and their letters."""
    counts = errors(net, samples, heads).values()
    return sum(count[STACKS] for count in counts), sum(count[-1] for count in counts)


def rows(before: RecognitionNet, after: RecognitionNet, samples: list[Sample], heads: Heads) -> list[Row]:
    """One for every group of lines, in order of their names."""
    old, new = (errors(net, samples, heads) for net in (before, after))
    number = {group: sum(sample.group == group for sample in samples) for group in old}
    return [Row(group, number[group], count[-1], count[STACKS], new[group][STACKS]) for group, count in old.items()]


def together(name: str, parts: list[Row]) -> Row:
    return Row(name, *(sum(asdict(row)[what] for row in parts) for what in ("lines", "letters", "wrong_before", "wrong_after")))


def table(scored: list[Row]) -> str:
    heading = "| lines that were not trained on | number | CER before | CER after | points |\n|---|---|---|---|---|"
    return "\n".join([heading, *(row.cells() for row in scored)])


def card(name: str, start: str, report: dict, scored: list[Row]) -> str:
    """The README of the bundle."""
    return f"""# {name}

`{start}`, which went on learning from {report["lines"]["learnt"]} corrected lines. {report["training"]}.

{report["choice_said"]}

Character error rate (Levenshtein over code points without white space) of the `stacks` head, read greedily, without the language model:

{table(scored)}

{" ".join(report["notes"])}

Charset and n-grams are those of `{start}`. `report.json` has the numbers.
"""
