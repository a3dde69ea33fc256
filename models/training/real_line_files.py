"""Real lines as files, `COLLECTION_PAGE_LINE.png` or `.jpg` with the text in `.txt`, and which of their pages are held out."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

HELD_OUT_EVERY = 8


def lines_by_page(folder: Path, wanted: Callable[[str], bool]) -> dict[str, list[list[Path]]]:
    """Images of the lines that have a text, of the `wanted` collections, page by page."""
    pages: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".png", ".jpg")):
        collection, page = path.stem.split("_")[0], path.stem.rsplit("_", 1)[0]
        if wanted(collection) and path.with_suffix(".txt").exists():
            pages[collection][page].append(path)
    return {collection: [of_page[page] for page in sorted(of_page)] for collection, of_page in pages.items()}


def split(pages: list[list[Path]], held_out_every: int) -> tuple[list[Path], list[Path]]:
    """Lines to train on, and those of every so manieth page."""
    train, held_out = [], []
    for number, lines in enumerate(pages, start=1):
        (train if number % held_out_every else held_out).extend(lines)
    return train, held_out
