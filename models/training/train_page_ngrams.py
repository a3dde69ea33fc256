"""N-grams of characters by which `parkhang-pdf` judges text layers of PDFs.

    train_page_ngrams.py OUT --text en.txt cy.txt ... --han-words dict.txt --han-text zh.txt --traditional STCharacters.txt --tibetan bo.txt

Texts are UTF-8, one sentence a line. `--han-words` has lines of a word, its count and its class; `--traditional` lines of a simplified
character and its traditional ones. The file is compressed by zlib; inside, little-endian: the number of characters (u32) and the characters
(u32 each, ascending); then for orders 1, 2 and 3 the number of n-grams (u32) and for each its characters as numbers (u16 each,
ascending) and the bits (u8, in eighths) that the last character costs after those before it. Models of each kind of writing are joined: their characters
do not meet.
"""

import argparse
import math
import struct
import unicodedata
import zlib
from collections import Counter

EDGE = " "


def is_letter(c):
    o = ord(c)
    return (
        (c.isalpha() and (o <= 0x2B8 or 0x370 <= o <= 0x52F or 0x1E00 <= o <= 0x1FFF))
        and unicodedata.category(c)[0] == "L"
    )


def is_han(c):
    o = ord(c)
    return o in (0x3005, 0x3007) or 0x3400 <= o <= 0x4DBF or 0x4E00 <= o <= 0x9FFF


def is_tibetan(c):
    return 0xF40 <= ord(c) <= 0xFBD


def runs(text, keep):
    run = []
    for c in text:
        if keep(c):
            run.append(c)
        elif run:
            yield "".join(run)
            run = []
    if run:
        yield "".join(run)


def count(words, order, weight, tables, closed):
    """Counts the n-grams of words, with edges before them and, if `closed`, behind."""
    for word in words:
        padded = EDGE + word + (EDGE if closed else "")
        for i in range(1, len(padded)):
            tables[1][padded[i]] += weight
            tables[2][padded[i - 1 : i + 1]] += weight
            if order == 3:
                # Before the first letter stand two edges.
                tables[3][(EDGE + padded)[i - 1 : i + 2]] += weight


def costs(tables, least):
    """Bits of the last character of each n-gram after those before it, by n-gram; rare ones are left to shorter n-grams."""
    out = {}
    for order in (1, 2, 3):
        total = Counter()
        for gram, n in tables[order].items():
            total[gram[:-1]] += n
        for gram, n in tables[order].items():
            if n >= least[order]:
                out[gram] = -math.log2(n / total[gram[:-1]])
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--text", nargs="*", default=[])
    parser.add_argument("--han-words")
    parser.add_argument("--han-text", nargs="*", default=[])
    parser.add_argument("--traditional")
    parser.add_argument("--tibetan", nargs="*", default=[])
    args = parser.parse_args()

    grams = {}
    alphabet = {n: Counter() for n in (1, 2, 3)}
    for path in args.text:
        # English stands in most documents, and counts as four.
        weight = 4 if "english" in path else 1
        for line in open(path, encoding="utf-8"):
            line = unicodedata.normalize("NFC", line)
            words = [w.lower() for w in runs(line, is_letter)]
            count([w for w in words if len(w) > 1], 3, weight, alphabet, True)
    grams.update(costs(alphabet, {1: 3, 2: 3, 3: 4}))

    han = {n: Counter() for n in (1, 2, 3)}
    traditional = {}
    if args.traditional:
        for line in open(args.traditional, encoding="utf-8"):
            simplified, *others = line.split()
            traditional[simplified] = others[0]
    def both(words, weight):
        words = list(words)
        count(words, 2, weight, han, False)
        count(["".join(traditional.get(c, c) for c in w) for w in words], 2, weight, han, False)
    if args.han_words:
        for line in open(args.han_words, encoding="utf-8"):
            word, n, *_ = line.split()
            if all(map(is_han, word)):
                both([word], int(n))
    for path in args.han_text:
        for line in open(path, encoding="utf-8"):
            both(runs(line, is_han), 200)
    # The edge before a word of a list says nothing about running text.
    for gram in [g for g in han[2] if g[0] == EDGE]:
        del han[2][gram]
    grams.update(costs(han, {1: 50, 2: 400, 3: 1}))

    tibetan = {n: Counter() for n in (1, 2, 3)}
    for path in args.tibetan:
        for line in open(path, encoding="utf-8"):
            count(runs(line, is_tibetan), 3, 1, tibetan, True)
    grams.update({g: b for g, b in costs(tibetan, {1: 10, 2: 10, 3: 20}).items() if g != EDGE})

    characters = sorted({c for gram in grams for c in gram})
    number = {c: i for i, c in enumerate(characters)}
    data = struct.pack("<I", len(characters)) + b"".join(struct.pack("<I", ord(c)) for c in characters)
    for order in (1, 2, 3):
        rows = sorted((tuple(number[c] for c in g), b) for g, b in grams.items() if len(g) == order)
        data += struct.pack("<I", len(rows))
        for gram, bits in rows:
            data += struct.pack(f"<{order}HB", *gram, min(255, round(bits * 8)))
        print(order, len(rows))
    packed = zlib.compress(data, 9)
    print(len(data), len(packed))
    open(args.out, "wb").write(packed)


if __name__ == "__main__":
    main()
