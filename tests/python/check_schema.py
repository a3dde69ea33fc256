"""Validates every XML document of a folder: check_schema.py SCHEMA FOLDER OLD NEW, with OLD in the schema read as NEW."""

import sys
from pathlib import Path

from lxml import etree


def main():
    schema_path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    old, new = (text.encode() for text in sys.argv[3:5])
    source = schema_path.read_bytes()
    assert old in source, f"{schema_path} does not contain {old}"
    schema = etree.XMLSchema(etree.fromstring(source.replace(old, new), base_url=str(schema_path)))
    documents = sorted(folder.rglob("*.xml"))
    assert documents, f"no documents in {folder}"
    for path in documents:
        document = etree.parse(path)
        if not schema.validate(document):
            sys.exit(f"{path}: {schema.error_log}")
    print(f"{len(documents)} documents are valid")


if __name__ == "__main__":
    main()
