"""Error rates of pages by collection, with those of the pages that gave the recogniser no lines, as docs/quality.md has them.

    node eval PAGES --json > eval.json
    python page_quality.py eval.json [--without TCCG]
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

from page_lines import is_held_out


def rate(pages: list[dict], what: str) -> str:
    length = sum(page[what]["length"] for page in pages)
    return f"{sum(page[what]['edits'] for page in pages) / length:.4f}" if length else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--without", nargs="*", default=["TCCG"], help="collections that have no page held out")
    arguments = parser.parse_args()
    collections = defaultdict(list)
    for page in json.loads(arguments.scores.read_text(encoding="utf8"))["pages"]:
        collections[Path(page["image"]).stem.rsplit("_", 1)[0]].append(page)
    held_out = {}
    for name, pages in collections.items():
        pages.sort(key=lambda page: page["image"])
        kept = [page for number, page in enumerate(pages) if is_held_out(number)]
        held_out[name] = [] if name in arguments.without else kept
    everything = [page for pages in collections.values() for page in pages]
    rows = sorted(((name, pages, held_out[name]) for name, pages in collections.items()), key=lambda row: rate(row[1], "characters"))
    rows.append(("all", everything, [page for pages in held_out.values() for page in pages]))
    print("| collection | pages | CER | WER | CER of held-out pages | line count right |\n|---|---|---|---|---|---|")
    for name, pages, kept in rows:
        right = sum(page["lines_read"] == page["lines_expected"] for page in pages)
        fair = f"{rate(kept, 'characters')} ({len(kept)})" if kept else ""
        print(f"| {name} | {len(pages)} | {rate(pages, 'characters')} | {rate(pages, 'words')} | {fair} | {right} |")


if __name__ == "__main__":
    main()
