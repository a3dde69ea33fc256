"""Makes a folder of the real lines that the recogniser was not trained on, for `node eval`.

    python held_out_lines.py --lines LINES --out FOLDER
    node eval FOLDER

LINES holds `COLLECTION_PAGE_LINE.png` or `.jpg` with the text in `.txt`. FOLDER receives links to every eighth page of each
collection and to all of the `--unseen` ones, and `manifest.tsv`, which names the collections.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from train_recogniser import HELD_OUT_EVERY


def held_out(folder: Path, collections: list[str], unseen: list[str]) -> dict[str, list[Path]]:
    """Images of the held-out lines by collection."""
    pages: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".png", ".jpg") and p.with_suffix(".txt").exists()):
        collection, page = path.stem.split("_")[0], path.stem.rsplit("_", 1)[0]
        if collection in (*collections, *unseen):
            pages[collection][page].append(path)
    every = {collection: 1 if collection in unseen else HELD_OUT_EVERY for collection in pages}
    return {
        collection: [line for page in sorted(of_page)[every[collection] - 1 :: every[collection]] for line in of_page[page]]
        for collection, of_page in pages.items()
    }


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
