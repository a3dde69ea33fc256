#!/usr/bin/env python3
"""Reads artifact tables with pyarrow, duckdb and polars and compares what they see.

    check_parquet.py FOLDER [FOLDER ...]

Every *.parquet below the folders that is named after an artifact table must have the columns of that table, with their
types, first and in order, and the three readers must agree on every value. Exits with 1 and says where if not.
"""

import json
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow
import pyarrow.parquet

STRING, INT, FLOAT, BOOL, BINARY = (
    pyarrow.string(),
    pyarrow.int32(),
    pyarrow.float32(),
    pyarrow.bool_(),
    pyarrow.binary(),
)
POLYGON = pyarrow.list_(pyarrow.list_(INT))
SEGMENT = pyarrow.struct([("text", STRING), ("x", INT), ("width", INT), ("confidence", FLOAT)])
BOUNDS = [(f"bbox_{edge}", FLOAT) for edge in ("x0", "y0", "x1", "y1")]
LAYER_WORD = pyarrow.struct([("text", STRING), *BOUNDS, ("line", INT)])
CELL = pyarrow.struct(
    [("row", INT), ("column", INT), ("row_span", INT), ("column_span", INT), ("is_header", BOOL), *BOUNDS, ("text", STRING)]
)
CHUNK_BOX = pyarrow.struct([("page", INT), *BOUNDS])

TABLES = {
    "line_detection": [
        ("image_name", STRING),
        ("rotated_image_path", STRING),
        ("rot_mask", BINARY),
        ("page_angle", FLOAT),
        ("dewarping_applied", BOOL),
        ("tps_ratio", FLOAT),
        ("filtered_contours", pyarrow.list_(POLYGON)),
        ("page_index", INT),
        ("source_name", STRING),
        ("image_width", INT),
        ("image_height", INT),
        ("rotated_width", INT),
        ("rotated_height", INT),
        ("tps_points", pyarrow.list_(pyarrow.list_(FLOAT))),
        ("tps_alpha", FLOAT),
        ("input_sha256", STRING),
        ("is_binary", BOOL),
    ],
    "line_images": [
        ("image_name", STRING),
        ("line_index", INT),
        ("line_image_path", STRING),
        ("line_guid", STRING),
        ("bbox_x", INT),
        ("bbox_y", INT),
        ("bbox_w", INT),
        ("bbox_h", INT),
        ("center_x", INT),
        ("center_y", INT),
        ("contour", POLYGON),
        ("page_index", INT),
        ("crop_x", INT),
        ("crop_y", INT),
        ("crop_w", INT),
        ("crop_h", INT),
        ("image_width", INT),
        ("image_height", INT),
        ("is_binary", BOOL),
    ],
    "ocr_results": [
        ("image_name", STRING),
        ("line_index", INT),
        ("line_guid", STRING),
        ("text", STRING),
        ("encoding", STRING),
        ("page_index", INT),
        ("confidence", FLOAT),
        ("segments", pyarrow.list_(SEGMENT)),
        ("outline", POLYGON),
        ("alignment", FLOAT),
        ("perplexity", FLOAT),
        ("sources", pyarrow.list_(INT)),
        ("ink_y", INT),
        ("ink_h", INT),
    ],
    "page_text": [
        ("image_name", STRING),
        ("page_index", INT),
        ("source_name", STRING),
        ("width", FLOAT),
        ("height", FLOAT),
        ("rotation", INT),
        ("dpi", FLOAT),
        ("verdict", STRING),
        ("score", FLOAT),
        ("reason", STRING),
        ("words", pyarrow.list_(LAYER_WORD)),
        ("picture_share", FLOAT),
    ],
    "words": [
        ("image_name", STRING),
        ("page_index", INT),
        ("page", INT),
        ("word_index", INT),
        ("text", STRING),
        ("bbox_x0", FLOAT),
        ("bbox_y0", FLOAT),
        ("bbox_x1", FLOAT),
        ("bbox_y1", FLOAT),
        ("confidence", FLOAT),
        ("line", INT),
        ("source", STRING),
        ("engine", STRING),
        ("contradicted", BOOL),
    ],
    "blocks": [
        ("image_name", STRING),
        ("page_index", INT),
        ("page", INT),
        ("block_index", INT),
        ("role", STRING),
        ("text", STRING),
        *BOUNDS,
        ("size", FLOAT),
        ("cells", pyarrow.list_(CELL)),
    ],
    "chunks": [
        ("image_name", STRING),
        ("page_index", INT),
        ("page", INT),
        ("chunk", INT),
        ("text", STRING),
        ("tokens", INT),
        ("lang", STRING),
        ("kind", STRING),
        ("headings", pyarrow.list_(STRING)),
        ("pages", pyarrow.list_(INT)),
        ("boxes", pyarrow.list_(CHUNK_BOX)),
    ],
    "vectors": [
        ("image_name", STRING),
        ("page_index", INT),
        ("page", INT),
        ("chunk", INT),
        ("dense", pyarrow.list_(FLOAT)),
        ("indices", pyarrow.list_(pyarrow.uint32())),
        ("values", pyarrow.list_(FLOAT)),
    ],
    "errors": [
        ("image_name", STRING),
        ("page_index", INT),
        ("category", STRING),
        ("message", STRING),
        ("attempts", INT),
    ],
}


def read_duckdb(path):
    relation = duckdb.sql(f"SELECT * FROM read_parquet('{path}')")
    return [dict(zip(relation.columns, row)) for row in relation.fetchall()]


def problems_of(path):
    expected = TABLES[path.stem]
    table = pyarrow.parquet.read_table(path)
    found = [(field.name, field.type) for field in table.schema][: len(expected)]
    for (name, kind), column in zip(expected, found):
        if (name, kind) != column:
            yield f"column {column[0]} is {column[1]}; expected {name}, {kind}"
    if len(found) < len(expected):
        yield f"columns are missing from {expected[len(found)][0]} on"

    provenance = (pyarrow.parquet.read_metadata(path).metadata or {}).get(b"parkhang.provenance")
    if provenance is None or "fingerprint" not in json.loads(provenance):
        yield "there is no provenance"

    rows = table.to_pylist()
    for reader, others in [("duckdb", read_duckdb(path)), ("polars", polars.read_parquet(path).to_dicts())]:
        if len(others) != len(rows):
            yield f"{reader} reads {len(others)} rows, pyarrow {len(rows)}"
        for index, (row, other) in enumerate(zip(rows, others)):
            for name, value in row.items():
                if other.get(name) != value:
                    yield f"row {index}, {name}: {reader} reads {other.get(name)!r:.80}, pyarrow {value!r:.80}"


def main(folders):
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*.parquet")) if path.stem in TABLES]
    if not paths:
        sys.exit("no artifact table found")
    failed = False
    for path in paths:
        problems = list(problems_of(path))
        failed |= bool(problems)
        print(f"{path}: {'ok' if not problems else ''}")
        for problem in problems[:20]:
            print(f"  {problem}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
