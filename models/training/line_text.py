"""What a line says, as the classes of a head and as it is scored."""

import unicodedata

LETTERS_SCORED_ALIKE = str.maketrans({"༎": "།།", "༌": "་", "ཪ": "ར"})


class Symbols:
    """The classes of one head, from 1; 0 is the blank. A unit without a class is spelled: by the longest beginning that has one,
    then by what follows it, as far as there are classes."""

    def __init__(self, symbols: list[str]):
        self.symbols = symbols
        self.classes = {symbol: index + 1 for index, symbol in enumerate(symbols)}

    def spell(self, unit: str) -> list[int]:
        if unit in self.classes:
            return [self.classes[unit]]
        for length in range(len(unit) - 1, 0, -1):
            if unit[:length] in self.classes:
                return [self.classes[unit[:length]], *self.spell(unit[length:])]
        return self.spell(unit[1:]) if len(unit) > 1 else []

    def encode(self, units: list[str]) -> list[int]:
        return [number for unit in units for number in self.spell(unit)]

    def decode(self, best: list[int]) -> str:
        kept = [index for index, before in zip(best, [0, *best]) if index and index != before]
        return "".join(self.symbols[index - 1] for index in kept)


def normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFD", text).split())


def as_printed(text: str) -> str:
    """Normalised text without differences that no image shows."""
    return normalised(text).translate(LETTERS_SCORED_ALIKE)


def letters(text: str) -> str:
    """Text as it is scored: without white space, and without differences that no image shows."""
    return "".join(unicodedata.normalize("NFD", text).translate(LETTERS_SCORED_ALIKE).split())


def stacks(text: str) -> list[str]:
    """A letter with the letters and signs joined to it, one a stack."""
    units: list[str] = []
    for char in text:
        if units and unicodedata.category(char).startswith("M"):
            units[-1] += char
        else:
            units.append(char)
    return units
