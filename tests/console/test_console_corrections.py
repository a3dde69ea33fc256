"""People who correct what was read in the page viewer: their keys, what becomes of their edits, and others at the same time."""

import hashlib
import json
import re
import secrets

import pytest
from playwright.sync_api import expect

from cluster import SAMPLE, Cluster
from story import PATIENCE, Visitor

expect.set_options(timeout=PATIENCE)

JOB = "proofs"
# A wide scan, a page of a book for what is done to lines as wholes, and pages for those who come alone.
PECHA, BOOK, SHARED, LOST, TABLETS = 5, 3, 4, 2, 1
TABLET = {"viewport": {"width": 768, "height": 1024}, "has_touch": True, "is_mobile": True}
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


@pytest.fixture(scope="module")
def proofs():
    with Proofs() as proofs:
        yield proofs


@pytest.fixture
def opened(browser, proofs):
    """Opens pages for people. In the end nothing may have gone wrong for any of them but what a test expects, which the browser itself notes."""
    visitors, expected = [], []

    def open_page(name, number, expecting=(), **options):
        someone = Visitor(browser, proofs, **options)
        visitors.append(someone)
        expected.extend(expecting)
        someone.sign_in(proofs.tokens[name])
        return someone.open(f"/read/{JOB}/{SAMPLE}/{number}", f"page {number} of")

    yield open_page
    wrong = [problem for visitor in visitors for problem in visitor.wrong]
    for visitor in visitors:
        visitor.context.close()
    unexpected = [problem for problem in wrong if not any(sign in problem for sign in expected)]
    assert not unexpected, unexpected


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


def test_one_sees_what_the_other_does_without_disturbing(opened, proofs):
    dolma, tashi = (opened(name, SHARED) for name in ("dolma", "tashi"))
    before = proofs.texts(SHARED)
    choose(tashi, 2)
    tashi.keyboard.type("ཐ")
    box(tashi).evaluate("box => box.setSelectionRange(3, 3)")
    correct(dolma, 0, "ཀ་ཁ།")
    expect(text_of(tashi, 0)).to_have_text("ཀ་ཁ།")
    expect(lines(tashi).nth(0)).to_contain_text("dolma")
    choose(dolma, 1)
    tool(dolma, "Delete").click()
    expect(lines(tashi)).to_have_count(len(before) - 1)
    # The line that is typed in is another one by its place, and the same for whoever types.
    expect(lines(tashi).nth(1)).to_have_class("on")
    expect(box(tashi)).to_be_focused()
    expect(box(tashi)).to_have_value(f"{before[2]}ཐ")
    assert box(tashi).evaluate("box => box.selectionEnd") == 3
    tashi.keyboard.press("Enter")
    saved(tashi)
    expect(text_of(dolma, 1)).to_have_text(f"{before[2]}ཐ")
    assert proofs.texts(SHARED)[:2] == ["ཀ་ཁ།", f"{before[2]}ཐ"]


@pytest.mark.parametrize("keeps", ["Keep mine", "Keep theirs"])
def test_a_line_that_two_type_in_is_shown_to_the_second_at_once(opened, proofs, keeps):
    dolma, tashi = (opened(name, SHARED) for name in ("dolma", "tashi"))
    choose(tashi, 3)
    box(tashi).fill(f"ཐ་{keeps}")
    correct(dolma, 3, f"ད་{keeps}")
    alert = tashi.get_by_role("alert").filter(has_text="dolma has changed the line that is typed in here")
    expect(alert).to_contain_text(f"ད་{keeps}")
    expect(box(tashi)).to_have_value(f"ཐ་{keeps}")
    alert.get_by_role("button", name=keeps).click()
    expect(alert).to_have_count(0)
    kept = f"{'ཐ' if keeps == 'Keep mine' else 'ད'}་{keeps}"
    expect(box(tashi)).to_have_value(kept)
    expect(text_of(tashi, 3)).to_have_text(kept)
    expect(text_of(dolma, 3)).to_have_text(kept)
    assert proofs.texts(SHARED)[3] == kept


@pytest.mark.parametrize("keeps", ["Keep mine", "Keep theirs"])
def test_of_two_edits_of_a_line_either_can_be_kept(opened, proofs, keeps):
    dolma = opened("dolma", SHARED)
    tashi = opened("tashi", SHARED, expecting=["409", "net::ERR_"])
    mine, theirs = f"ཐ་གཉིས་{keeps}", f"ད་གཉིས་{keeps}"
    tashi.context.set_offline(True)
    # Of two edits of a line without a connection the second one builds on the first.
    correct(tashi, 4, "ཐ་དང་པོ")
    correct(tashi, 4, mine)
    expect(status(tashi)).to_contain_text("2 edits not sent yet: no connection")
    correct(dolma, 4, theirs)
    saved(dolma)
    tashi.context.set_offline(False)
    conflict = tashi.get_by_role("alert").filter(has_text="Not saved: dolma has changed this")
    expect(conflict).to_contain_text(mine)
    expect(conflict).to_contain_text(theirs)
    expect(text_of(tashi, 4)).to_have_text(theirs)
    # It waits for whoever decides.
    tashi.reload()
    expect(conflict).to_contain_text(mine)
    expect(conflict).to_contain_text(theirs)
    conflict.get_by_role("button", name=keeps).click()
    expect(conflict).to_have_count(0)
    kept = mine if keeps == "Keep mine" else theirs
    for page in (tashi, dolma):
        expect(text_of(page, 4)).to_have_text(kept)
    assert proofs.texts(SHARED)[4] == kept


def test_an_edit_of_a_neighbour_is_no_question(opened, proofs):
    dolma = opened("dolma", SHARED)
    tashi = opened("tashi", SHARED, expecting=["409", "net::ERR_"])
    before = proofs.texts(SHARED)
    tashi.context.set_offline(True)
    choose(tashi, 6)
    tashi.keyboard.press("Alt+ArrowUp")
    expect(status(tashi)).to_contain_text("1 edit not sent yet: no connection")
    correct(dolma, 5, "ད་གཞན།")
    saved(dolma)
    tashi.context.set_offline(False)
    for page in (tashi, dolma):
        expect(text_of(page, 5)).to_have_text(before[6])
        expect(text_of(page, 6)).to_have_text("ད་གཞན།")
        expect(page.get_by_role("alert")).to_have_count(0)
    assert proofs.texts(SHARED)[5:7] == [before[6], "ད་གཞན།"]


def test_no_keystroke_is_lost_with_the_connection(opened, proofs):
    page = opened("dolma", LOST, expecting=["net::ERR_"])
    before = proofs.read(LOST)
    texts = [line["text"] for line in before["lines"]]
    # The orchestrator is out of reach, and the files of the console come from where they came before.
    out_of_reach = lambda route: route.abort("connectionfailed")
    page.context.route("**/edits", out_of_reach)
    correct(page, 0, "ཀ་དང་པོ")
    correct(page, 1, "ཁ་གཉིས་པ")
    correct(page, 0, "ཀ་གསུམ་པ")
    expect(status(page)).to_contain_text("3 edits not sent yet: no connection")
    choose(page, 2)
    page.keyboard.type("ང་མ་ཚར")
    assert proofs.read(LOST)["revision"] == before["revision"]

    # The window is closed without a question, and opened again.
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.reload()
    expect(text_of(page, 0)).to_have_text("ཀ་གསུམ་པ")
    expect(text_of(page, 1)).to_have_text("ཁ་གཉིས་པ")
    expect(status(page)).to_contain_text("3 edits not sent yet: no connection")
    draft = page.get_by_role("alert").filter(has_text="Typed and not saved")
    expect(draft).to_contain_text("in line 3")
    draft.get_by_role("button", name="Go on with it").click()
    expect(box(page)).to_have_value(f"{texts[2]}ང་མ་ཚར")
    expect(box(page)).to_be_focused()
    page.keyboard.type("།")
    page.keyboard.press("Enter")
    expect(status(page)).to_contain_text("4 edits not sent yet: no connection")

    page.context.unroute("**/edits", out_of_reach)
    saved(page)
    after = proofs.read(LOST)
    assert after["revision"] == before["revision"] + 4, "each has come, and only once"
    assert [line["text"] for line in after["lines"]] == ["ཀ་གསུམ་པ", "ཁ་གཉིས་པ", f"{texts[2]}ང་མ་ཚར།", *texts[3:]]
    page.reload()
    expect(text_of(page, 2)).to_have_text(f"{texts[2]}ང་མ་ཚར།")
    expect(draft).to_have_count(0)


def test_an_edit_whose_answer_is_lost_is_made_once(opened, proofs):
    page = opened("dolma", LOST, expecting=["net::ERR_"])
    before = proofs.read(LOST)["revision"]
    lost = []

    def swallow(route):
        lost.append(route.fetch().status)
        route.abort("connectionreset")

    page.context.route("**/edits", swallow, times=1)
    correct(page, 3, "ཅ་ཆ།")
    saved(page)
    assert lost == [200]
    assert proofs.read(LOST)["revision"] == before + 1
    expect(text_of(page, 3)).to_have_text("ཅ་ཆ།")


def test_who_may_only_read_sees_who_corrected_and_changes_nothing(opened, proofs):
    page = opened("eva", LOST)
    editor = opened("dolma", LOST)
    correct(editor, 4, "ཇ་ཉ།")
    expect(text_of(page, 4)).to_have_text("ཇ་ཉ།")
    expect(lines(page).nth(4)).to_contain_text("dolma")
    expect(page.get_by_label("correct")).to_have_count(0)
    expect(page.locator(".editor, textarea")).to_have_count(0)
    lines(page).nth(4).click()
    expect(page.get_by_role("status").filter(has_text="Line 5")).to_contain_text("corrected by dolma")
    edit = {"id": "8c2f3c1e-7f0b-4b6e-9d0a-3b6c1f8e2a11", "replaces": [], "lines": []}
    answer = page.context.request.post(f"/api/v1{proofs.path(LOST)}/edits", data=edit)
    assert answer.status == 403


def test_corrections_of_lines_that_are_gone_are_shown(opened, proofs):
    page = opened("eva", LOST)
    line = {"id": "8c2f3c1e", "polygon": [[0, 0], [10, 0], [10, 10]], "text": "དང་པོ་"}
    gone = {"replaces": [line], "lines": [{**line, "text": "དང་པོར་"}], "who": "tashi", "at": "2026-11-20T10:00:00Z"}

    def lose(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=json.dumps({**answer.json(), "unplaced": [gone]}))

    page.route(f"**{proofs.path(LOST)}", lose)
    page.reload()
    heading = page.get_by_role("heading", name="Corrections of lines that are no longer found")
    expect(heading).to_be_visible()
    item = page.get_by_role("listitem").filter(has_text="tashi")
    expect(item).to_contain_text("དང་པོ་")
    expect(item).to_contain_text("དང་པོར་")


def test_an_edit_that_is_refused_is_told_and_kept(opened, proofs):
    page = opened("dolma", LOST, expecting=["403"])
    before = proofs.texts(LOST)
    # Somebody else may do less with this browser now.
    answer = page.context.request.post("/api/v1/session", data={"token": proofs.tokens["eva"]})
    assert answer.status == 204
    correct(page, 0, "མི་ཆོག")
    refused = page.get_by_role("alert").filter(has_text="Not saved:")
    expect(refused).to_contain_text("མི་ཆོག")
    expect(text_of(page, 0)).to_have_text(before[0])
    page.context.request.post("/api/v1/session", data={"token": proofs.tokens["dolma"]})
    refused.get_by_role("button", name="Try again").click()
    saved(page)
    expect(refused).to_have_count(0)
    assert proofs.texts(LOST)[0] == "མི་ཆོག"


def test_a_page_is_corrected_on_a_tablet(opened, proofs):
    page = opened("dolma", TABLETS, **TABLET)
    read = proofs.read(TABLETS)
    count = len(read["lines"])
    lines(page).nth(0).tap()
    expect(box(page)).to_be_focused()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= TABLET["viewport"]["width"]
    for button in page.locator(".editor button:visible").all():
        size = button.bounding_box()
        assert min(size["width"], size["height"]) >= 38, button.inner_text()
        assert size["x"] >= 0 and size["x"] + size["width"] <= TABLET["viewport"]["width"]
    # A keyboard on the screen gives whole words, which it composes.
    page.get_by_label("Wylie").check()
    box(page).fill("")
    box(page).focus()
    keyboard = page.context.new_cdp_session(page)
    for text in ("b", "bk", "bkr", "bkra"):
        keyboard.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})
    keyboard.send("Input.insertText", {"text": "bkra"})
    keyboard.send("Input.insertText", {"text": " "})
    expect(box(page)).to_have_value("བཀྲ་")
    tool(page, "Save").tap()
    saved(page)
    assert proofs.texts(TABLETS)[0] == "བཀྲ་"

    # A finger draws.
    tool(page, "Add").tap()
    page.locator(".sheet").scroll_into_view_if_needed()
    left, top, right, bottom = sides(read["lines"][-1]["polygon"])
    x, y = on_scan(page, read, left, bottom + 4)
    points = [(x, y), (x + 60, y + 12), (x + 120, y + 24)]
    for kind, (x, y) in zip(("touchStart", "touchMove", "touchMove"), points):
        keyboard.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y, "id": 1}]})
    keyboard.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(lines(page)).to_have_count(count + 1)
    saved(page)
    assert len(proofs.texts(TABLETS)) == count + 1


def test_an_operator_corrects_only_after_saying_so(browser, proofs):
    someone = Visitor(browser, proofs)
    someone.sign_in()
    page = someone.open(f"/read/{JOB}/{SAMPLE}/{PECHA}", f"page {PECHA} of")
    lines(page).nth(1).click()
    expect(box(page)).to_be_hidden()
    page.get_by_label("correct").check()
    lines(page).nth(1).click()
    expect(box(page)).to_be_focused()
    page.reload()
    expect(box(page)).to_be_visible()
    someone.context.close()
    assert not someone.wrong, someone.wrong
