"""Corrected lines in three parts: to learn from, to choose the weights by, and to judge by.

Lines of one page share its hand, its paper and its scan, so a page is in one part as a whole; where there is a single page, the last of
its lines stand for a page.
"""

from dataclasses import dataclass
from pathlib import Path

from line_samples import text_of
from line_text import Symbols, as_printed, letters
from real_line_files import lines_by_page

Pages = list[list[Path]]


@dataclass
class Parts:
    """Pages with the pictures of their lines."""

    learnt: Pages
    chosen_by: Pages
    held_out: Pages

    def whole_pages(self) -> bool:
        """Whether no page has lines in two parts."""
        pages = [{page_of(line) for page in part for line in page} for part in (self.learnt, self.chosen_by, self.held_out)]
        return sum(map(len, pages)) == len(set().union(*pages))


def page_of(line: Path) -> str:
    return line.stem.rsplit("_", 1)[0]


def apart(pages: Pages, share: float) -> tuple[Pages, Pages]:
    """The pages that are kept back, evenly spread and one at least, and the others."""
    if len(pages) == 1:
        kept = max(1, round(share * len(pages[0])))
        return [pages[0][-kept:]], [pages[0][:-kept]]
    every = min(len(pages), max(2, round(1 / share)))
    return pages[every - 1 :: every], [page for number, page in enumerate(pages, start=1) if number % every]


def in_parts(pages: Pages, share: float) -> Parts:
    held_out, rest = apart(pages, share)
    chosen_by, learnt = apart(rest, share)
    return Parts(learnt, chosen_by, held_out)


def corrected_pages(folder: Path) -> Pages:
    """Lines with a text, page by page, of all volumes in order of their names."""
    of_volumes = lines_by_page(folder, lambda volume: True)
    pages = ([line for line in page if letters(text_of(line))] for volume in sorted(of_volumes) for page in of_volumes[volume])
    return [page for page in pages if page]


def lines(pages: Pages) -> list[Path]:
    return [line for page in pages for line in page]


def without_class(texts: list[str], symbols: Symbols) -> dict[str, int]:
    """Characters that no class of a head can write, not even joined to others, and how many of the texts have them."""
    counts: dict[str, int] = {}
    for text in texts:
        for symbol in sorted(set(as_printed(text))):
            if not symbols.spell(symbol):
                counts[symbol] = counts.get(symbol, 0) + 1
    return counts
