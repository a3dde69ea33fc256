"""Several people who correct what was read at the same time, without a connection, on a tablet, and without the right to."""

import json

import pytest
from playwright.sync_api import expect

from cluster import SAMPLE
from correcting import JOB, LOST, PECHA, SHARED, TABLET, TABLETS, box, choose, correct, lines, on_scan, saved, sides, status, text_of, tool
from story import Visitor


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
    someone.close()
    assert not someone.wrong, someone.wrong
