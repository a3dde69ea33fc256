"""Gathers plain Tibetan text from folders of transcribed books, for the language model.

    python gather_texts.py --out more.txt sheja_kunkhyab/raw_data/volumes nalanda-corpus/*/csvtxt

Of every `.txt` file the Tibetan is kept. Page and line numbers in brackets, marks of sections in braces and the numbers and
letters of notes go; of a correction `(what stands there,what should)` the second is taken. The text is cut into segments at double shads;
a segment that has been met before is left out, because editions repeat themselves.
"""

import argparse
import re
import unicodedata
from pathlib import Path

ALIKE = {"༌": "་", "ༀ": "ཨོཾ"}
LONGEST_REPEATED = 15


def tibetan(text: str) -> str:
    text = re.sub(r"\[\d[^\]]*\]|\{[^}]*\}", "", text)
    text = re.sub(r"\(([^,()]*),([^()]*)\)", r"\2", text)
    text = re.sub(r"\n\s*\d+\.\s?", "", text)
    text = unicodedata.normalize("NFD", text)
    for symbol, other in ALIKE.items():
        text = text.replace(symbol, other)
    return "".join(symbol for symbol in text if "ༀ" <= symbol <= "࿿" or symbol == " ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    seen: set[str] = set()
    with open(arguments.out, "w", encoding="utf8") as out:
        for folder in arguments.folders:
            for path in sorted(folder.glob("*.txt")):
                for segment in tibetan(path.read_text(encoding="utf8", errors="replace")).split("། །"):
                    if len(segment) <= LONGEST_REPEATED or segment not in seen:
                        seen.add(segment)
                        out.write(segment + "། །\n")


if __name__ == "__main__":
    main()
