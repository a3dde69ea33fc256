"""Text that is rich in rare stacks, numbers and Sanskrit, for rendering lines with what running text has too little of.

    python rare_corpus.py --corpus corpus.txt --out rare.txt --segments 6000 --seed 1

Every segment mixes running text with syllables of which a stack is among the rare ones of the corpus; these are drawn with the
square root of their frequency.
"""

import argparse
import random
from collections import Counter
from pathlib import Path

from line_text import as_printed, stacks

COMMON_STACKS = 260
DIGITS = ("༠༡༢༣༤༥༦༧༨༩", "0123456789")


def number(rng: random.Random) -> str:
    digits = rng.choices(DIGITS, (3, 1))[0]
    written = "".join(rng.choice(digits) for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))
    return rng.choice((f"{written} ", f"{written}། ", f"༼{written}༽ "))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--segments", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    segments = arguments.corpus.read_text(encoding="utf8").splitlines()
    counts: Counter[str] = Counter()
    syllables: Counter[str] = Counter()
    for segment in segments:
        counts.update(stacks(as_printed(segment)))
        syllables.update(as_printed(segment).replace(" ", "་").replace("།", "་").split("་"))
    common = {stack for stack, _ in counts.most_common(COMMON_STACKS)}
    rare = sorted(syllable for syllable in syllables if len(stacks(syllable)) <= 5 and set(stacks(syllable)) - common)
    weights = [syllables[syllable] ** 0.5 for syllable in rare]
    rng = random.Random(arguments.seed)
    with open(arguments.out, "w", encoding="utf8") as out:
        for _ in range(arguments.segments):
            plain = rng.choice(segments).split("་")
            start = rng.randrange(max(1, len(plain) - 6))
            parts = ["་".join(plain[start : start + rng.randint(1, 6)])]
            for _ in range(rng.randint(1, 3)):
                parts.append("་".join(rng.choices(rare, weights, k=rng.randint(1, 5))))
            text = rng.choice(("་", "་", "་", "། ")).join(part for part in parts if part)
            if rng.random() < 0.08:
                text = number(rng) + text
            out.write(text + rng.choice(("་", "།", "།", "། །")) + "\n")
    print(len(rare), "rare syllables")


if __name__ == "__main__":
    main()
