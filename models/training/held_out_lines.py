"""Makes a folder of the real lines that the recogniser was not trained on, for `node eval`.

    python held_out_lines.py --lines LINES --out FOLDER
    node eval FOLDER

LINES holds `COLLECTION_PAGE_LINE.png` or `.jpg` with the text in `.txt`. FOLDER receives links to every eighth page of each
collection and to all of the `--unseen` ones, and `manifest.tsv`, which names the collections.
"""

import argparse
from pathlib import Path

from real_line_files import HELD_OUT_EVERY, lines_by_page, split


def held_out(folder: Path, collections: list[str], unseen: list[str]) -> dict[str, list[Path]]:
    """Images of the held-out lines by collection."""
    pages = lines_by_page(folder, lambda collection: collection in (*collections, *unseen))
    every = {collection: 1 if collection in unseen else HELD_OUT_EVERY for collection in pages}
    return {collection: split(pages[collection], every[collection])[1] for collection in pages}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--collections", default="TCCG,proj19,proj42")
    parser.add_argument("--unseen", default="", help="collections that were never trained on")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True)
    chosen = held_out(arguments.lines.resolve(), arguments.collections.split(","), arguments.unseen.split(","))
    rows = ["file\tcollection\ttruth"]
    for collection, lines in chosen.items():
        for image in lines:
            text = image.with_suffix(".txt")
            for path in (image, text):
                (arguments.out / path.name).symlink_to(path)
            rows.append(f"{image.name}\t{collection}\t{text.name}")
    (arguments.out / "manifest.tsv").write_text("\n".join(rows) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
