"""Gathers plain Tibetan text from folders of transcribed books, for the language model.

    python gather_texts.py --out more.txt --without LINES PAGES --megabytes 24 --largest 3 derge-tengyur/text

Of every `.txt` file the Tibetan is kept. Page and line numbers in brackets, marks of sections in braces and the numbers and
letters of notes go; of a correction `(what stands there,what should)` the second is taken. The text is cut into segments at double shads;
a segment that has been met before is left out, because editions repeat themselves.

With `--without`, files that share passages with a transcription `NAME.txt` in those folders are left out, so that what is read
with the language model can be scored by them. With `--megabytes`, files are drawn, in an order that looks random and is always
the same, until there is so much; of those larger than `--largest` none.
"""

import argparse
import hashlib
import re
import unicodedata
from pathlib import Path

ALIKE = {"༌": "་", "ༀ": "ཨོཾ"}
LONGEST_REPEATED = 15
MEGABYTE = 1_000_000
PASSAGE = 25
PASSAGE_STEP = 12
FEWEST_SHARED = 15


def tibetan(text: str) -> str:
    text = re.sub(r"\[\d[^\]]*\]|〔[^〕]*〕|\{[^}]*\}", "", text)
    text = re.sub(r"\(([^,()]*),([^()]*)\)", r"\2", text)
    text = re.sub(r"\n\s*\d+\.\s?", "", text)
    text = unicodedata.normalize("NFD", text)
    for symbol, other in ALIKE.items():
        text = text.replace(symbol, other)
    return "".join(symbol for symbol in text if "ༀ" <= symbol <= "࿿" or symbol == " ")


def letters(text: str) -> str:
    return re.sub(r"[\s།༎༏༑]", "", unicodedata.normalize("NFD", text))


def passages(folders: list[Path]) -> set[str]:
    """Pieces of the transcriptions in these folders."""
    found = set()
    for folder in folders:
        for path in folder.glob("*.txt"):
            text = letters(path.read_text(encoding="utf8"))
            found.update(text[i : i + PASSAGE] for i in range(0, len(text) - PASSAGE + 1, PASSAGE_STEP))
    return found


def shares_passages(text: str, known: set[str]) -> bool:
    plain = letters(text)
    shared = sum(plain[i : i + PASSAGE] in known for i in range(len(plain) - PASSAGE + 1))
    return shared >= FEWEST_SHARED


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="folders with transcriptions")
    parser.add_argument("--megabytes", type=float, default=float("inf"), help="text wanted, in all")
    parser.add_argument("--largest", type=float, default=float("inf"), help="megabytes of a file at most")
    arguments = parser.parse_args()
    known = passages(arguments.without)
    left = arguments.megabytes * MEGABYTE
    drawn: list[tuple[Path, str]] = []
    paths = [path for folder in arguments.folders for path in folder.glob("*.txt")]
    for path in sorted(paths, key=lambda path: hashlib.md5(path.name.encode()).digest()):
        text = tibetan(path.read_text(encoding="utf8", errors="replace"))
        size = len(text.encode())
        if size > min(left, arguments.largest * MEGABYTE) or shares_passages(text, known):
            continue
        left -= size
        drawn.append((path, text))
    seen: set[str] = set()
    with open(arguments.out, "w", encoding="utf8") as out:
        for _, text in sorted(drawn):
            for segment in text.split("། །"):
                if len(segment) <= LONGEST_REPEATED or segment not in seen:
                    seen.add(segment)
                    out.write(segment + "། །\n")
    print(f"{len(drawn)} of {len(paths)} files, {sum(len(text.encode()) for _, text in drawn)} bytes")


if __name__ == "__main__":
    main()
