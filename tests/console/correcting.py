"""Pages that people correct in the viewer: a cluster for them, and what they do in the editor."""

import hashlib
import secrets

from playwright.sync_api import expect

from cluster import SAMPLE, Cluster
from story import PATIENCE

expect.set_options(timeout=PATIENCE)

JOB = "proofs"
# A wide scan, a page of a book for what is done to lines as wholes, and pages for those who come alone.
PECHA, BOOK, SHARED, LOST, TABLETS = 5, 3, 4, 2, 1
TABLET = {"viewport": {"width": 768, "height": 1024}, "has_touch": True, "is_mobile": True}


class Proofs(Cluster):
    """A cluster that has read the sample, with two people who may correct it and one who may not."""

    def __init__(self):
        super().__init__()
        self.tokens = {name: secrets.token_urlsafe(32) for name in ("dolma", "tashi", "eva")}
        roles = {"dolma": "edit", "tashi": "edit", "eva": "read"}
        file = self.folder / "tokens"
        file.write_text("".join(f"{name} {roles[name]} {hashlib.sha256(token.encode()).hexdigest()}\n" for name, token in self.tokens.items()))
        self.environment["PARKHANG_API__TOKENS_FILE"] = str(file)

    def __enter__(self):
        super().__enter__()
        self.start("cpu,gpu")
        self.ask("/jobs", {"job": JOB, "volume": [SAMPLE]})
        self.run("job", "status", JOB, "--wait")
        return self

    def path(self, number):
        return f"/jobs/{JOB}/volumes/{SAMPLE}/pages/{number}"

    def read(self, number):
        return self.ask(self.path(number))

    def texts(self, number):
        return [line["text"] for line in self.read(number)["lines"]]


def lines(page):
    return page.locator("ol.lines li")


def text_of(page, index):
    return lines(page).nth(index).locator("> span")


def box(page):
    return page.get_by_label("Text of the line")


def status(page):
    return page.locator(".editor").get_by_role("status").first


def saved(page):
    expect(status(page)).to_contain_text("saved")


def tool(page, name):
    return page.locator(".editor").get_by_role("button", name=name, exact=True)


def choose(page, index):
    """Clicks on a line behind its text, so that the caret is at its end."""
    lines(page).nth(index).locator("small").click()
    expect(box(page)).to_be_focused()


def correct(page, index, text):
    choose(page, index)
    box(page).fill(text)
    page.keyboard.press("Enter")


def sides(polygon):
    columns, rows = zip(*polygon)
    return min(columns), min(rows), max(columns), max(rows)


def on_scan(page, read, x, y):
    """Where a point of the scan is on the screen."""
    sheet = page.locator(".sheet").bounding_box()
    return sheet["x"] + x * sheet["width"] / read["width"], sheet["y"] + y * sheet["height"] / read["height"]
