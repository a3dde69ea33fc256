"""People who correct what was read in the page viewer: their keys, and what becomes of their edits."""

import json
import re

import pytest
from playwright.sync_api import expect

from correcting import BOOK, PECHA, box, choose, correct, lines, on_scan, saved, sides, text_of, tool

# From those who published the scheme, and of the tests of the models.
WYLIE = [
    ("bkra shis bde legs/", "བཀྲ་ཤིས་བདེ་ལེགས།"),
    ("oM ma Ni pad+me hU~M`/", "ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྂ།"),
    ("g.yag", "གཡག"),
    ("gyag", "གྱག"),
    ("rdzogs pa chen po/ /", "རྫོགས་པ་ཆེན་པོ། །"),
    ("@#/ /bzhugs so//", "༄༅། །བཞུགས་སོ༎"),
    ("1959 lor", "༡༩༥༩་ལོར"),
    ("k+Sha", "ཀྵ"),
    ("ha^", "ཧ༹"),
    ("rkka", "རཀཀ"),
    ("b la", "བ་ལ"),
    ("snga' G", "སྔའ་ག"),
    ("[abc] ka", "abc་ཀ"),
    (r"\u0f0bka", "་ཀ"),
    ("gangs  ri", "གངས་རི"),
    ("Ma la", "མ་ལ"),
    ("M", "མ"),
    (r"ka\ud800\U00110000\u0F40" "\\", "ཀ"),
    ("ka~X", "ཀ~྾"),
    ("brlabs", "བརླབས"),
    ("kr-i", "ཀྲྀ"),
    ("brgyud 'bras; *", "བརྒྱུད་འབྲས༏་༌"),
]


def test_wylie_is_read_as_the_models_read_it(opened):
    page = opened("dolma", PECHA)
    found = page.evaluate("""async (texts) => {
        const { toUnicode } = await import("/assets/wylie.js");
        return texts.map(toUnicode);
    }""", [wylie for wylie, _ in WYLIE])
    assert list(zip([wylie for wylie, _ in WYLIE], found)) == WYLIE


@pytest.mark.parametrize("before, behind, keys, after", [
    ("", "", "bkra shis/ /", "བཀྲ་ཤིས། །"),
    # Behind letters that are there a vowel and a letter below belong to them.
    ("བདག", "་པོ", "i", "བདགི་པོ"),
    ("བཀ", "་ཤིས", "ra", "བཀྲ་ཤིས"),
    ("ཧཱུ", "", "~M`/", "ཧཱུྂ།"),
    ("བདེ།", "", " /", "བདེ། །"),
    # Taken back as it was typed.
    ("ཀ་", "", "bkri\b\byi", "ཀ་བཀྱི"),
    ("ཀ་", "", "kha\b\b", "ཀ་"),
    # What is no Latin stays what it is.
    ("ཀ་", "་ཁ", "ཆོས", "ཀ་ཆོས་ཁ"),
], ids=["line", "vowel", "below", "sign", "shad", "back", "all_back", "tibetan"])
def test_wylie_becomes_tibetan_where_it_is_typed(opened, before, behind, keys, after):
    page = opened("dolma", PECHA)
    choose(page, 0)
    page.get_by_label("Wylie").check()
    box(page).fill(before + behind)
    box(page).evaluate("(box, caret) => { box.focus(); box.setSelectionRange(caret, caret); }", len(before))
    for key in keys:
        page.keyboard.press("Backspace") if key == "\b" else page.keyboard.type(key)
    expect(box(page)).to_have_value(after)
    assert box(page).evaluate("box => box.value.length - box.selectionEnd") == len(behind), "the caret is behind what was typed"
    expect(page.locator(".strip text")).to_have_text(after)
    page.keyboard.press("Escape")


def test_a_line_is_clicked_typed_and_saved(opened, proofs):
    page = opened("dolma", PECHA)
    before = proofs.read(PECHA)
    choose(page, 1)
    page.keyboard.type("ཀ།")
    expect(page.locator(".strip text")).to_have_text(f"{before['lines'][1]['text']}ཀ།")
    page.keyboard.press("Enter")
    saved(page)
    # The next one is there to be corrected.
    expect(lines(page).nth(2)).to_have_class("on")
    expect(box(page)).to_be_focused()
    expect(box(page)).to_have_value(before["lines"][2]["text"])
    after = proofs.read(PECHA)
    assert after["revision"] == before["revision"] + 1
    assert after["lines"][1]["text"] == before["lines"][1]["text"] + "ཀ།"
    assert after["lines"][1]["corrected"]["who"] == "dolma"

    page.reload()
    expect(text_of(page, 1)).to_have_text(after["lines"][1]["text"])
    expect(lines(page).nth(1).get_by_title(re.compile("corrected by dolma, .*20"))).to_contain_text("dolma")
    lines(page).nth(1).click()
    expect(page.get_by_role("status").filter(has_text="Line 2")).to_contain_text("corrected by dolma")
    # Where the text is clicked on, the caret is.
    at = box(page).evaluate("box => box.selectionEnd")
    assert 0 < at < len(after["lines"][1]["text"])
    page.keyboard.type("ཁ")
    # A double click selects a word.
    lines(page).nth(1).locator("> span").dblclick()
    begin, end = box(page).evaluate("box => [box.selectionStart, box.selectionEnd]")
    assert begin < end
    # And where the picture above it is.
    page.locator(".strip").evaluate("view => view.scrollTo(0, 0)")
    text, strip = (page.locator(f".strip {kind}").last.bounding_box() for kind in ("text", "image"))
    page.mouse.click(text["x"] + 1, strip["y"] + strip["height"] / 2)
    assert box(page).evaluate("box => box.selectionEnd") == 0
    # And where the scan is.
    left, top, right, bottom = sides(after["lines"][1]["polygon"])
    page.mouse.click(*on_scan(page, after, left + 0.6 * (right - left), (top + bottom) / 2))
    place = box(page).evaluate("box => box.selectionEnd / box.value.length")
    assert 0.45 < place < 0.75
    # What is typed is seen below its picture, wherever in a wide line that is.
    for key, ends in [("End", lambda seen: seen > 0), ("Home", lambda seen: seen == 0)]:
        page.keyboard.press(key)
        page.keyboard.type("ཁ")
        assert ends(page.locator(".strip").evaluate("view => Math.floor(view.scrollLeft)"))
    page.keyboard.press("Escape")
    expect(box(page)).to_have_value(after["lines"][1]["text"])
    expect(lines(page).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(box(page)).to_be_focused()
    page.reload()
    expect(text_of(page, 1)).to_have_text(after["lines"][1]["text"])
    assert proofs.read(PECHA)["revision"] == after["revision"], "what was left with Escape is not saved"


def test_what_is_typed_is_saved_with_whatever_leaves_the_line(opened, proofs):
    page = opened("dolma", PECHA)
    before = proofs.texts(PECHA)
    choose(page, 2)
    page.keyboard.type("ག")
    lines(page).nth(3).click()
    expect(text_of(page, 2)).to_have_text(f"{before[2]}ག")
    choose(page, 3)
    page.keyboard.type("ང")
    page.get_by_role("button", name="← Previous").click()
    expect(page.locator("h1")).to_contain_text(f"page {PECHA - 1} of")
    saved(page)
    assert proofs.texts(PECHA)[2:4] == [f"{before[2]}ག", f"{before[3]}ང"]


def test_one_key_leads_to_the_next_uncertain_line(opened, proofs):
    page = opened("dolma", BOOK)
    # One as a whole, and one because of a word of it.
    whole, in_part = 2, 5
    doubted = proofs.read(BOOK)["lines"][in_part]["words"][3]["text"]

    def doubt(route):
        answer = route.fetch()
        content = answer.json()
        for index, line in enumerate(content["lines"]):
            line["confidence"] = 0.5 if index == whole else 0.95
            for number, word in enumerate(line["words"]):
                word["confidence"] = 0.6 if (index, number) == (in_part, 3) else 0.95
        route.fulfill(response=answer, body=json.dumps(content))

    page.route(f"**{proofs.path(BOOK)}", doubt)
    page.reload()
    expect(page.locator("ol.lines .unsure")).to_have_text([text_of(page, whole).inner_text(), doubted.rstrip()])
    page.keyboard.press("u")
    expect(lines(page).nth(2)).to_have_class("on")
    expect(box(page)).not_to_be_focused()
    page.keyboard.press("u")
    expect(lines(page).nth(5)).to_have_class("on")
    page.keyboard.press("u")
    expect(lines(page).nth(2)).to_have_class("on")
    page.keyboard.press("Enter")
    expect(box(page)).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(lines(page).nth(5)).to_have_class("on")
    expect(box(page)).to_be_focused()
    # The word that is least sure is selected, so that it can be typed anew.
    selected = box(page).evaluate("box => box.value.slice(box.selectionStart, box.selectionEnd)")
    assert selected == doubted.rstrip()
    tool(page, "Unsure").click()
    expect(lines(page).nth(2)).to_have_class("on")


def test_edits_are_taken_back_and_done_again(opened, proofs):
    page = opened("dolma", BOOK)
    before = proofs.texts(BOOK)
    correct(page, 0, "ཀ")
    correct(page, 1, "ཁ")
    saved(page)
    page.keyboard.press("Escape")
    expect(lines(page).nth(2)).to_be_focused()
    page.keyboard.press("Control+z")
    expect(text_of(page, 1)).to_have_text(before[1])
    page.keyboard.press("Control+z")
    expect(text_of(page, 0)).to_have_text(before[0])
    saved(page)
    read = proofs.read(BOOK)
    assert [line["text"] for line in read["lines"]] == before
    assert read["lines"][0]["corrected"] is None and read["lines"][0]["confidence"] is not None, "it is as it was read"
    page.keyboard.press("Control+Shift+Z")
    expect(text_of(page, 0)).to_have_text("ཀ")
    page.keyboard.press("Control+Shift+Z")
    expect(text_of(page, 1)).to_have_text("ཁ")
    tool(page, "Undo").click()
    tool(page, "Undo").click()
    saved(page)
    assert proofs.texts(BOOK) == before

    # In the box it is the typing that is taken back first.
    choose(page, 3)
    page.keyboard.type("ཀཁ")
    page.keyboard.press("Control+z")
    expect(box(page)).to_have_value(f"{before[3]}ཀ")
    page.keyboard.press("Control+z")
    expect(box(page)).to_have_value(before[3])


def test_lines_are_split_and_merged(opened, proofs):
    page = opened("dolma", BOOK)
    before = proofs.read(BOOK)
    line = before["lines"][1]
    at = len(line["text"]) // 2
    choose(page, 1)
    box(page).evaluate("(box, caret) => box.setSelectionRange(caret, caret)", at)
    page.keyboard.press("Shift+Enter")
    expect(text_of(page, 1)).to_have_text(line["text"][:at])
    expect(text_of(page, 2)).to_have_text(line["text"][at:])
    expect(page.locator(".sheet polygon")).to_have_count(len(before["lines"]) + 1)
    saved(page)
    one, other = proofs.read(BOOK)["lines"][1:3]
    assert one["id"] == line["id"] != other["id"]
    (left, _, cut, _), (begin, _, right, _) = sides(one["polygon"]), sides(other["polygon"])
    # As far as the outline is on the page.
    whole = sides([(max(0, x), y) for x, y in line["polygon"]])
    assert cut == begin and sides(one["polygon"] + other["polygon"]) == whole
    assert 0.25 < (cut - left) / (right - left) < 0.75

    lines(page).nth(1).click()
    tool(page, "Merge").click()
    expect(text_of(page, 1)).to_have_text(line["text"])
    saved(page)
    again = proofs.read(BOOK)["lines"]
    assert len(again) == len(before["lines"]) and sides(again[1]["polygon"]) == whole
    tool(page, "Undo").click()
    tool(page, "Undo").click()
    saved(page)
    assert proofs.read(BOOK)["lines"] == before["lines"]


def test_lines_are_moved_and_removed(opened, proofs):
    page = opened("dolma", BOOK)
    before = proofs.read(BOOK)["lines"]
    texts = [line["text"] for line in before]
    choose(page, 2)
    page.keyboard.press("Alt+ArrowUp")
    expect(text_of(page, 1)).to_have_text(texts[2])
    expect(lines(page).nth(1)).to_have_class("on")
    page.keyboard.press("Alt+ArrowUp")
    expect(text_of(page, 0)).to_have_text(texts[2])
    tool(page, "Move down").click()
    expect(text_of(page, 1)).to_have_text(texts[2])
    saved(page)
    assert proofs.texts(BOOK)[:3] == [texts[0], texts[2], texts[1]]

    # The first one, and the last one of those that are left.
    for index in (0, len(texts) - 2):
        choose(page, index)
        tool(page, "Delete").click()
    expect(lines(page)).to_have_count(len(texts) - 2)
    saved(page)
    assert proofs.texts(BOOK) == [texts[2], texts[1], *texts[3:-1]]
    for _ in range(5):
        tool(page, "Undo").click()
    expect(lines(page)).to_have_count(len(texts))
    saved(page)
    assert proofs.read(BOOK)["lines"] == before


def test_outlines_are_drawn(opened, proofs):
    page = opened("dolma", BOOK, viewport={"width": 1280, "height": 1400})
    read = proofs.read(BOOK)
    count = len(read["lines"])
    _, _, right, bottom = sides(read["lines"][2]["polygon"])
    _, top, _, _ = sides(read["lines"][3]["polygon"])
    choose(page, 2)
    tool(page, "Add").click()
    # A box that is dragged, between two lines.
    corners = [(right - 200, bottom - 4), (right - 20, max(top, bottom) + 6)]
    page.mouse.move(*on_scan(page, read, *corners[0]))
    page.mouse.down()
    page.mouse.move(*on_scan(page, read, *corners[1]), steps=4)
    page.mouse.up()
    expect(lines(page)).to_have_count(count + 1)
    expect(box(page)).to_be_focused()
    page.keyboard.type("གསར།")
    page.keyboard.press("Enter")
    saved(page)
    new = [line for line in proofs.read(BOOK)["lines"] if line["text"] == "གསར།"]
    assert len(new) == 1 and new[0]["corrected"]["who"] == "dolma"
    drawn = sides(new[0]["polygon"])
    assert drawn == pytest.approx([*corners[0], *corners[1]], abs=3)

    # Corners one after the other; the last of them is taken back, and drawn elsewhere.
    index = proofs.texts(BOOK).index("གསར།")
    lines(page).nth(index).click()
    tool(page, "Outline").click()
    x, y = corners[0]
    wanted = [(x, y), (x + 90, y - 5), (x + 180, y), (x + 170, y + 30)]
    for corner in [*wanted[:3], (x + 20, y + 60)]:
        page.mouse.click(*on_scan(page, read, *corner))
    page.keyboard.press("Backspace")
    page.mouse.click(*on_scan(page, read, *wanted[3]))
    page.keyboard.press("Enter")
    saved(page)
    polygon = proofs.read(BOOK)["lines"][index]["polygon"]
    assert len(polygon) == 4
    for corner, meant in zip(polygon, wanted):
        assert corner == pytest.approx(meant, abs=3)

    # What is left off changes nothing.
    tool(page, "Outline").click()
    page.mouse.click(*on_scan(page, read, x, y))
    page.keyboard.press("Escape")
    expect(page.locator(".drawing")).to_have_count(0)
    assert proofs.read(BOOK)["lines"][index]["polygon"] == polygon
    for _ in range(3):
        tool(page, "Undo").click()
    expect(lines(page)).to_have_count(count)
    saved(page)
    assert proofs.read(BOOK)["lines"] == read["lines"]
