"""The page viewer as it serves whoever checks a reading against the scan."""

import io
import re

import pytest
from PIL import Image
from playwright.sync_api import TimeoutError, expect

from cluster import SAMPLE
from story import JOB, TORN

# A scan that is wider than any picture of it, and one of a book.
PECHA, BOOK = 2, 3
WIDEST = 6000
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# Number of times that a key is pressed that may scroll, and time that it has for it, in milliseconds.
PRESSES, PAUSE = 10, 5_000
LOADED = "image => image.complete && image.naturalWidth"


@pytest.fixture
def opened(visitor, site):
    """Opens a page in the viewer, and returns it with what was read on it."""
    site.finish()

    def open_page(number, **options):
        someone = visitor(**options)
        someone.sign_in()
        page = someone.open(f"/read/{JOB}/{SAMPLE}/{number}", f"page {number} of")
        return page, site.ask(f"/jobs/{JOB}/volumes/{SAMPLE}/pages/{number}")

    return open_page


def bounds(polygon):
    columns, rows = zip(*polygon)
    return min(columns), min(rows), max(columns), max(rows)


def shown_region(page):
    """Left, top, width and height, on the scan, of the line that is shown large."""
    address = page.locator(".strip image").last.get_attribute("href")
    return [int(number) for number in re.search(r"region=([\d,]+)", address)[1].split(",")]


def width_of(page, selector):
    return page.locator(selector).bounding_box()["width"]


def scroll_by_key(place, key):
    """Gives an element the keys, and presses one that scrolls it along; returns how far. Chromium on a busy machine may drop a key that it gets
    while it draws what a script has just scrolled, so it is pressed as somebody would: again if nothing moves."""
    place.focus()
    before = place.evaluate("place => place.scrollLeft")
    for _ in range(PRESSES):
        place.press(key)
        try:
            place.page.wait_for_function("([place, before]) => place.scrollLeft !== before", arg=[place.element_handle(), before], timeout=PAUSE)
        except TimeoutError:
            continue
        return place.evaluate("place => place.scrollLeft") - before
    raise AssertionError(f"{key} scrolls nothing")


@pytest.mark.parametrize("options", [{"viewport": {"width": 1400, "height": 900}}, PHONE], ids=["desk", "phone"])
def test_the_chosen_line_is_shown_large_with_its_text(opened, site, options):
    page, read = opened(PECHA, **options)
    strip = page.get_by_role("region", name="Chosen line")
    below = page.locator(".frame").evaluate("frame => frame.offsetTop")
    for number, line in [(0, read["lines"][0]), (3, read["lines"][3])]:
        page.locator("ol.lines li").nth(number).click()
        expect(page.get_by_role("status").filter(has_text="Line")).to_contain_text(f"Line {number + 1} of {len(read['lines'])}")
        expect(strip.locator("text")).to_have_text(line["text"])
        x, y, width, height = shown_region(page)
        left, top, right, bottom = bounds(line["polygon"])
        assert x <= left and y <= top and right <= x + width and bottom <= y + height
        assert height < 2 * (bottom - top)
        address = strip.locator("image").last.get_attribute("href")
        content = site.ask(address.removeprefix("/api/v1"))
        assert Image.open(io.BytesIO(content)).size == (width, height), "as sharp as the scan"
        # The text has the width of its line, which is high enough to be read, and what is below stays where it is.
        texts, lines = (strip.locator(kind).last.bounding_box() for kind in ("text", "image"))
        assert abs(texts["width"] / lines["width"] - (right - left) / width) < 0.05
        assert lines["height"] > 60
        assert page.locator(".frame").evaluate("frame => frame.offsetTop") == below
    assert strip.evaluate("view => view.scrollWidth > view.clientWidth")
    assert strip.is_visible() and strip.bounding_box()["y"] < page.viewport_size["height"]


def test_the_chosen_line_follows_the_keys_and_the_mouse(opened):
    page, read = opened(PECHA)
    lines, outlines = page.locator("ol.lines li"), page.locator(".sheet polygon")
    expect(lines.first).to_have_class("on")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(lines.nth(2)).to_have_class("on")
    expect(outlines.nth(2)).to_have_class("on")
    page.keyboard.press("ArrowUp")
    expect(lines.nth(1)).to_have_class("on")
    lines.nth(3).focus()
    page.keyboard.press("ArrowDown")
    expect(lines.nth(4)).to_be_focused()
    page.get_by_role("button", name="Line before").click()
    expect(lines.nth(3)).to_have_class("on")
    for _ in read["lines"]:
        page.keyboard.press("ArrowUp")
    expect(lines.first).to_have_class("on")

    # What is clicked on in the scan is in the middle of the large line, which is not much wider than the view.
    left, top, right, bottom = bounds(read["lines"][4]["polygon"])
    sheet = page.locator(".sheet").bounding_box()
    scale = sheet["width"] / read["width"]
    page.mouse.click(sheet["x"] + (left + 0.6 * (right - left)) * scale, sheet["y"] + (top + bottom) / 2 * scale)
    expect(lines.nth(4)).to_have_class("on")
    strip = page.locator(".strip")
    middle = strip.evaluate("view => (view.scrollLeft + view.clientWidth / 2) / view.scrollWidth")
    assert abs(middle - 0.6) < 0.05

    # There the arrows show what is beside it, and the page stays.
    assert scroll_by_key(strip, "ArrowLeft") < 0
    expect(page.locator("h1")).to_contain_text(f"page {PECHA} of")


def test_a_scan_is_enlarged_and_moved_about(opened):
    page, read = opened(PECHA)
    frame, picture = page.get_by_role("region", name="Scan"), page.locator(".sheet img")
    page.wait_for_function(f"{LOADED} === 1600", arg=picture.element_handle())
    whole = width_of(page, ".sheet")
    fits = page.get_by_title("Fit the width")
    for enlarge, reduce in [
        (lambda: page.get_by_role("button", name="Larger").click(), lambda: page.get_by_role("button", name="Smaller").click()),
        (lambda: page.keyboard.press("+"), lambda: page.keyboard.press("-")),
    ]:
        enlarge()
        expect(fits).to_have_text("125 %")
        assert abs(width_of(page, ".sheet") / whole - 1.25) < 0.02
        reduce()
        expect(fits).to_have_text("100 %")
    assert frame.get_attribute("tabindex") is None

    # The wheel alone scrolls, as anywhere; with Ctrl what is under the mouse stays there.
    box = frame.bounding_box()
    at = (box["x"] + 0.25 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.move(*at)
    page.mouse.wheel(0, 0)
    expect(fits).to_have_text("100 %")
    page.keyboard.down("Control")
    for _ in range(5):
        page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    expect(fits).to_have_text("349 %")
    share = page.evaluate("""([x, y]) => {
      const box = document.querySelector(".sheet").getBoundingClientRect();
      return (x - box.left) / box.width;
    }""", at)
    assert abs(share - 0.25) < 0.01
    # A sharper picture comes by itself.
    page.wait_for_function(f"{LOADED} === {WIDEST}", arg=picture.element_handle())

    chosen = page.locator("ol.lines li.on").inner_text()
    before = frame.evaluate("frame => frame.scrollLeft")
    page.mouse.down()
    page.mouse.move(at[0] - 150, at[1], steps=5)
    page.mouse.up()
    assert frame.evaluate("frame => frame.scrollLeft") == pytest.approx(before + 150, abs=2)
    assert page.locator("ol.lines li.on").inner_text() == chosen, "dragging chooses no line"

    # What is chosen is brought into view.
    page.locator("ol.lines li").last.click()
    left, top, right, bottom = bounds(read["lines"][-1]["polygon"])
    seen = frame.evaluate("frame => [frame.scrollLeft, frame.scrollTop, frame.clientHeight]")
    scale = width_of(page, ".sheet") / read["width"]
    assert seen[0] == pytest.approx(left * scale, abs=3)
    assert seen[1] - 3 <= top * scale and bottom * scale <= seen[1] + seen[2] + 3

    assert scroll_by_key(frame, "ArrowRight") > 0
    expect(page.locator("h1")).to_contain_text(f"page {PECHA} of")
    page.keyboard.press("0")
    expect(fits).to_have_text("100 %")
    assert width_of(page, ".sheet") == whole


def test_two_fingers_enlarge_a_scan(opened):
    page, _ = opened(BOOK, **PHONE)
    page.wait_for_function(LOADED, arg=page.locator(".sheet img").element_handle())
    page.locator(".frame").scroll_into_view_if_needed()
    box = page.locator(".frame").bounding_box()
    x, y = box["x"] + box["width"] / 2, min(box["y"] + 100, 800)
    touch = page.context.new_cdp_session(page)

    def fingers(kind, apart):
        points = [{"x": x + side * apart / 2, "y": y, "id": number} for number, side in enumerate([-1, 1] if apart else [])]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", 80)
    for apart in (100, 130, 160, 200):
        fingers("touchMove", apart)
    fingers("touchEnd", 0)
    # From the first move on; the browser itself enlarges nothing.
    expect(page.get_by_title("Fit the width")).to_have_text("200 %")
    assert page.evaluate("visualViewport.scale") == 1
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["viewport"]["width"]


def test_copied_lines_are_their_text_alone(opened):
    page, read = opened(PECHA, viewport={"width": 1280, "height": 1400})
    page.get_by_label("numbers").check()
    texts = page.locator("ol.lines li > span:first-child")
    first, last = texts.nth(0).bounding_box(), texts.nth(2).bounding_box()
    page.mouse.move(first["x"] + 1, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] + 40, last["y"] + last["height"] / 2, steps=8)
    page.mouse.up()
    page.context.grant_permissions(["clipboard-read"])
    page.keyboard.press("Control+C")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert [line for line in copied.splitlines() if line] == [line["text"] for line in read["lines"][:3]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_of_the_chosen_line_has_the_colours_of_the_page(opened, scheme):
    page, _ = opened(PECHA, color_scheme=scheme)
    shades = page.evaluate("""() => [
      getComputedStyle(document.querySelector(".strip text")).fill, getComputedStyle(document.querySelector(".strip")).backgroundColor,
    ].map(colour => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part) / 765, 0))""")
    ink, ground = shades
    assert (ground - ink if scheme == "light" else ink - ground) > 0.7, shades


def test_a_page_that_could_not_be_read_says_so_and_shows_no_broken_picture(visitor, site):
    site.work()
    site.ask("/jobs", {"job": "spoilt", "volume": [TORN]})
    site.run("job", "status", "spoilt", "--wait")
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/read/spoilt/{TORN}/1", "page 1 of 1")
    expect(page.get_by_text("the content is no image format that is known here")).to_be_visible()
    expect(page.get_by_text("There is no picture of the scan.")).to_be_visible()
    expect(page.locator(".frame")).to_be_hidden()
