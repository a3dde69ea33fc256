"""Validates every PAGE XML document of a folder: check_pagexml.py SCHEMA FOLDER."""

import sys
from pathlib import Path

from lxml import etree

SCHEMA_YEAR, DOCUMENT_YEAR = b"pagecontent/2019-07-15", b"pagecontent/2013-07-15"


def main():
    schema_path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    schema = etree.XMLSchema(etree.fromstring(schema_path.read_bytes().replace(SCHEMA_YEAR, DOCUMENT_YEAR)))
    documents = sorted(folder.rglob("*.xml"))
    assert documents, f"no documents in {folder}"
    for path in documents:
        document = etree.parse(path)
        if not schema.validate(document):
            sys.exit(f"{path}: {schema.error_log}")
    print(f"{len(documents)} documents are valid")


if __name__ == "__main__":
    main()
