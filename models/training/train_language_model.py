"""Trains the n-gram model of stacks that helps the beam search of the recogniser.

    python train_language_model.py --corpus corpus.txt more.txt --charset BUNDLE/charset.json --order 6 --entries 600000 \
        --out stacks.ngrams

The units are the classes of the stacks head. White space is left out, all digits are one unit, and so are the signs that end a
clause. A segment of the corpus goes on where the one before it ended, because the lines of a page begin anywhere. Smoothing is
Witten and Bell's. Of the n-grams those are kept that change the likelihood of the corpus most (Seymore and Rosenfeld, 1996), with
what they begin and end with, and the weights of backing off are computed anew. Nothing is random: the same input makes the same file.

The file is gzip. Inside, little-endian:

| bytes | what |
|---|---|
| 4 | `PKNG` |
| u8, u8 | version, 1; order N |
| u16 | number of classes C, the blank included |
| N x u32 | number of n-grams of length 1..N |
| C x u16 | unit of every class, which is a class that stands for it; 0 for what is passed over: blank and white space |

and then for each length with n entries:

| bytes | what |
|---|---|
| n x u16 | last unit of every entry |
| n x u8 | its cost: -16 times the natural logarithm of its probability |
| n x i8 | but for length N: 16 times the logarithm of its weight for backing off |
| n x u16 | but for length N: how many entries of the next length begin with it |

Entries of a length are ordered by what they begin with, an entry of the length before, and then by unit.

ln p(w | h) is the value of entry h w if there is one; else it is the weight of entry h, or 0 if there is no such entry, plus
ln p(w | h'), where h' is h without its first unit. A history holds N - 1 units at most.
"""

import argparse
import gzip
import json
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from line_text import Symbols, as_printed, stacks

BITS = 10
UNIT = (1 << BITS) - 1
STEPS = 16
MAGIC = b"PKNG"
ALIKE = ("།༑༔༎", "༡༠༢༣༤༥༦༧༨༩0123456789")


def units(symbols: Symbols) -> np.ndarray:
    """The class that stands for each class, 0 for what is passed over."""
    table = np.arange(len(symbols.symbols) + 1)
    for number, symbol in enumerate(symbols.symbols, 1):
        for alike in ALIKE:
            if symbol in alike:
                table[number] = symbols.classes[alike[0]]
        if symbol.isspace():
            table[number] = 0
    return table


def corpus_units(path: Path, symbols: Symbols) -> np.ndarray:
    spelled: dict[str, list[int]] = {}
    found: list[int] = []
    with open(path, encoding="utf8") as corpus:
        for line in corpus:
            for unit in stacks("".join(as_printed(line).split())):
                if unit not in spelled:
                    spelled[unit] = symbols.spell(unit)
                found.extend(spelled[unit])
    return units(symbols)[np.array(found, np.int64)]


@dataclass
class Level:
    """The n-grams of one length. The key of an n-gram is the place of all but its last unit on the level before, and the last unit."""

    keys: np.ndarray
    counts: np.ndarray
    suffix: np.ndarray
    """Place on the level before of the n-gram without its first unit."""
    prob: np.ndarray | None = None

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Places of keys; -1 where there is none."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)

    def parents(self) -> np.ndarray:
        return self.keys >> BITS

    def last(self) -> np.ndarray:
        return self.keys & UNIT


def counted(units: np.ndarray, table: np.ndarray, order: int) -> list[Level]:
    """All n-grams; on the first level all units, also those that do not occur."""
    every = np.setdiff1d(np.unique(table), 0)
    place = np.zeros(len(table), np.int64)
    place[every] = np.arange(len(every))
    levels = [Level(every, np.bincount(units, minlength=len(table))[every], np.zeros(len(every), int))]
    places = place[units]
    for length in range(2, order + 1):
        running = (places[:-1] << BITS) | units[length - 1 :]
        keys, places, counts = np.unique(running, return_inverse=True, return_counts=True)
        before = levels[-1]
        if length == 2:
            suffix = place[keys & UNIT]
        else:
            suffix = before.find((before.suffix[keys >> BITS] << BITS) | (keys & UNIT))
        levels.append(Level(keys, counts, suffix))
    return levels


def smoothed(levels: list[Level]):
    """Witten and Bell: p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h)), t(h) = number of different w after h."""
    first = levels[0]
    kinds = np.count_nonzero(first.counts)
    first.prob = (first.counts + kinds / len(first.keys)) / (first.counts.sum() + kinds)
    for level, before in zip(levels[1:], levels):
        parents = level.parents()
        total, kinds = np.bincount(parents, level.counts), np.bincount(parents)
        level.prob = (level.counts + kinds[parents] * before.prob[level.suffix]) / (total + kinds)[parents]


def pruned(levels: list[Level], entries: int) -> list[Level]:
    """Keeps about so many n-grams of two units and more."""
    gains = [level.counts * np.log(level.prob / before.prob[level.suffix]) for level, before in zip(levels[1:], levels)]
    low, high = 0.0, float(max(gain.max() for gain in gains))
    for _ in range(25):
        middle = (low + high) / 2
        kept = wanted(levels, gains, middle)
        low, high = (middle, high) if sum(k.sum() for k in kept[1:]) > entries else (low, middle)
    kept = wanted(levels, gains, high)
    result, places = [levels[0]], np.arange(len(levels[0].keys))
    for level, keep in zip(levels[1:], kept[1:]):
        keys = (places[level.parents()[keep]] << BITS) | level.last()[keep]
        suffix = places[level.suffix[keep]]
        result.append(Level(keys, level.counts[keep], suffix, level.prob[keep]))
        places = np.where(keep, np.cumsum(keep) - 1, -1)
    return result


def wanted(levels: list[Level], gains: list[np.ndarray], least: float) -> list[np.ndarray]:
    """What gains enough, and what that begins and ends with."""
    kept = [np.ones(len(levels[0].keys), bool)] + [gain > least for gain in gains]
    for number in range(len(levels) - 1, 1, -1):
        level, keep = levels[number], kept[number]
        kept[number - 1][level.parents()[keep]] = True
        kept[number - 1][level.suffix[keep]] = True
    return kept


def backing_off(levels: list[Level]) -> list[np.ndarray]:
    """For every n-gram the weight that makes the probabilities after it add up to 1."""
    weights: list[np.ndarray] = []
    for level, longer in zip(levels, levels[1:]):
        parents = longer.parents()
        taken = np.bincount(parents, longer.prob, len(level.keys))
        free = np.bincount(parents, level.prob[longer.suffix], len(level.keys))
        weights.append(np.maximum(1 - taken, 1e-4) / np.maximum(1 - free, 1e-4))
    return weights


def packed(levels: list[Level], weights: list[np.ndarray], table: np.ndarray) -> bytes:
    order = len(levels)
    parts = [MAGIC, struct.pack("<BBH", 1, order, len(table)), struct.pack(f"<{order}I", *(len(level.keys) for level in levels))]
    parts.append(table.astype("<u2").tobytes())
    for length, level in enumerate(levels, 1):
        parts.append(level.last().astype("<u2").tobytes())
        parts.append(np.clip(np.round(-STEPS * np.log(level.prob)), 0, 255).astype("u1").tobytes())
        if length < order:
            parts.append(np.clip(np.round(STEPS * np.log(weights[length - 1])), -128, 127).astype("i1").tobytes())
            children = np.bincount(levels[length].parents(), minlength=len(level.keys))
            parts.append(children.astype("<u2").tobytes())
    return gzip.compress(b"".join(parts), 9, mtime=0)


class LanguageModel:
    """The model as it is read from a file, for tests of what it is worth."""

    def __init__(self, path: Path):
        data = gzip.decompress(Path(path).read_bytes())
        assert data[:4] == MAGIC and data[4] == 1
        self.order = data[5]
        sizes = struct.unpack_from(f"<{self.order}I", data, 8)
        place = 8 + 4 * self.order
        count = struct.unpack_from("<H", data, 6)[0]
        self.units = np.frombuffer(data, "<u2", count, place).tolist()
        place += 2 * count
        entries: list[tuple] = [()]
        self.logs: dict[tuple, float] = {}
        self.weights: dict[tuple, float] = {}
        children = np.array([sizes[0]])
        for length, size in enumerate(sizes, 1):
            classes = np.frombuffer(data, "<u2", size, place)
            costs = np.frombuffer(data, "u1", size, place + 2 * size)
            parents = np.repeat(np.arange(len(children)), children)
            keys = [(*entries[parent], int(number)) for parent, number in zip(parents, classes)]
            self.logs.update(zip(keys, (costs / -STEPS).tolist()))
            place += 3 * size
            if length < self.order:
                self.weights.update(zip(keys, (np.frombuffer(data, "i1", size, place) / STEPS).tolist()))
                children = np.frombuffer(data, "<u2", size, place + size)
                place += 3 * size
            entries = keys

    def log_prob(self, history: tuple, unit: int) -> float:
        score = 0.0
        while True:
            found = self.logs.get((*history, unit))
            if found is not None:
                return score + found
            score += self.weights.get(history, 0.0)
            history = history[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, type=Path, nargs="+", help="plain text, one segment a line")
    parser.add_argument("--charset", required=True, type=Path)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--entries", type=int, default=400_000)
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    symbols = Symbols(json.loads(arguments.charset.read_text(encoding="utf8"))["stacks"])
    assert len(symbols.symbols) <= UNIT
    corpus, table = np.concatenate([corpus_units(path, symbols) for path in arguments.corpus]), units(symbols)
    corpus = corpus[corpus > 0]
    levels = counted(corpus, table, arguments.order)
    print(len(corpus), "stacks,", [len(level.keys) for level in levels], "n-grams", flush=True)
    smoothed(levels)
    levels = pruned(levels, arguments.entries)
    data = packed(levels, backing_off(levels), table)
    arguments.out.write_bytes(data)
    print([len(level.keys) for level in levels], "kept,", len(data), "bytes")


if __name__ == "__main__":
    main()
