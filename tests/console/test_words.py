"""Pages of PDFs with the boxes of their words, in the console and in the exported viewer."""

import json
import shutil
import subprocess

import pytest
from playwright.sync_api import expect

from cluster import ROOT, Cluster
from story import Visitor

JOB, VOLUME = "letters", "HKEX-7"
PDFS = ROOT / "tests/fixtures/pdf"
PAGES = 3
# A scan of which the file holds no text.
SCANNED = 3


@pytest.fixture(scope="module")
def letters():
    """A cluster that has read the PDF."""
    cluster = Cluster()
    shutil.copy(PDFS / "letter_form.pdf", cluster.scans / f"{VOLUME}.pdf")
    with cluster:
        cluster.start("cpu,gpu")
        cluster.run("job", "create", JOB, "--pipeline", "page_ocr", "--volume", VOLUME)
        cluster.run("job", "status", JOB, "--wait")
        yield cluster


def truth(number):
    """The words of a page with their boxes as shares of the page."""
    words = json.loads((PDFS / "letter_form.words.json").read_text())[number - 1]
    return [(word["text"], [share / side for share, side in zip(word["bbox"], [595.3, 841.9] * 2)]) for word in words]


def shown(page):
    """Titles of the boxes that are shown over the scan, and their middles as shares of it."""
    return page.evaluate("""() => {
        const sheet = document.querySelector(".sheet").getBoundingClientRect();
        return [...document.querySelectorAll(".sheet rect")].map((rect) => {
            const { left, right, top, bottom } = rect.getBoundingClientRect();
            return [rect.textContent, ((left + right) / 2 - sheet.left) / sheet.width, ((top + bottom) / 2 - sheet.top) / sheet.height];
        });
    }""")


def share_found(page, number):
    """Share of the words of a page in whose place there is a box that says so."""
    boxes = shown(page)
    words = truth(number)
    found = [
        any(title.startswith(f"{text}, ") and left <= x <= right and top <= y <= bottom for title, x, y in boxes)
        for text, (left, top, right, bottom) in words
    ]
    return sum(found) / len(words)


# Rows: 159.
@pytest.mark.parametrize("number", [1, SCANNED])
def test_the_console_shows_the_words_of_a_pdf_in_their_places(letters, browser, number):
    visitor = Visitor(browser, letters)
    visitor.sign_in()
    page = visitor.open(f"/read/{JOB}/{VOLUME}/{number}", f"page {number} of {PAGES}")
    picture = page.locator(".sheet img")
    page.wait_for_function("image => image.complete && image.naturalWidth > 500", arg=picture.element_handle())
    first = page.locator(".sheet rect").first
    expect(first).to_be_hidden()
    page.get_by_label("words").check()
    expect(first).to_be_visible()
    assert share_found(page, number) >= 0.9
    first.click()
    expect(page.locator("ol.lines li").first).to_have_class("on")
    visitor.close()
    assert not visitor.wrong, visitor.wrong


def test_the_exported_viewer_shows_the_words_of_a_pdf_in_their_places(browser, tmp_path, letters):
    out = tmp_path / "out"
    subprocess.run([letters.node, "ocr", PDFS / "letter_form.pdf", "--out", out, "--export", "html"], check=True, capture_output=True)
    page = browser.new_page()
    page.goto(next(out.glob("export/html/*.html")).as_uri())
    for number in range(1, PAGES + 1):
        expect(page.locator("#pages option:checked")).to_contain_text(f"{number} / {PAGES}")
        first = page.locator(".sheet rect").first
        if number == 1:
            expect(first).to_be_hidden()
            page.keyboard.press("w")
        expect(first).to_be_visible()
        assert share_found(page, number) >= 0.9, number
        page.keyboard.press("ArrowRight")
    page.close()
