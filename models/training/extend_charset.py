"""Adds classes to the stacks of a charset, so that every Tibetan text can be written with them.

    python extend_charset.py --charset BUNDLE/charset.json --corpus corpus.txt --real LINES PAGES --add 120 --out charset.json

Added are the code points of the charset that are no class of the stacks yet, marks that are joined to letters included, the
digits, and the `--add` stacks that are most frequent in the corpus and in the transcriptions, where one counts `--weight` times. A stack without a class is then spelled: by the longest part that has one, and the code points that follow.
`train_recogniser.py --init` takes weights for the shorter charset.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from line_text import as_printed, stacks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--charset", required=True, type=Path)
    parser.add_argument("--corpus", required=True, type=Path)
    parser.add_argument("--real", nargs="*", default=[], type=Path, help="folders with transcriptions")
    parser.add_argument("--add", type=int, default=120)
    parser.add_argument("--weight", type=int, default=20)
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    charset = json.loads(arguments.charset.read_text(encoding="utf8"))
    known = set(charset["stacks"])
    added = [symbol for symbol in [*charset["codepoints"], *"0123456789"] if symbol not in known and symbol not in "༎༌ཪ"]
    known.update(added)
    counts: Counter[str] = Counter()
    with open(arguments.corpus, encoding="utf8") as corpus:
        for line in corpus:
            counts.update(stacks(as_printed(line)))
    for folder in arguments.real:
        for path in sorted(folder.glob("*.txt")):
            for unit, count in Counter(stacks(as_printed(path.read_text(encoding="utf8")))).items():
                counts[unit] += arguments.weight * count
    rare = [unit for unit, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    rare = [unit for unit in rare if unit not in known and len(unit) > 1 and "ༀ" <= unit[0] <= "࿿"]
    charset["stacks"] += added + rare[: arguments.add]
    arguments.out.write_text(json.dumps(charset, ensure_ascii=False), encoding="utf8")
    print(len(added), "code points,", " ".join(added))
    print(len(rare[: arguments.add]), "stacks,", " ".join(rare[: arguments.add]))


if __name__ == "__main__":
    main()
