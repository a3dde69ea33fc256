"""What it takes a person to make pages right in the page viewer: keystrokes.py [SCANS TRUTH [PAGES]]

Reads the scans of SCANS, a folder of volumes, of which TRUTH has the texts (its manifest.tsv names them, as tests/fixtures/sample-truth does),
and corrects the first ten pages, or PAGES, in a browser until the interface answers the truth. Of each page only what is wrong is touched: a
click on the place, a key for each sign that goes, and Wylie for what comes. Leaving a line saves it. Lines that were not found, are one or are
two are added, split and merged.

Seconds are those of the keystroke-level model (Card, Moran and Newell 1980): 0.28 s a key, 1.1 s a click, 0.4 s from the mouse to the keys and
back, and 1.35 s to find out what is to be done, for each place that is wrong and for each line that is looked at.
"""

import csv
import difflib
import re
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from cluster import ROOT, Cluster
from story import CHROMIUM, PATIENCE, Visitor

expect.set_options(timeout=PATIENCE)

JOB = "proofs"
# Of a line or a word that the console calls uncertain.
UNSURE = 0.8
KEY, CLICK, HAND, THOUGHT = 0.28, 1.1, 0.4, 1.35
# A letter with the signs around it: between them there is no caret.
CLUSTER = re.compile(r"[^\u0f71-\u0f87\u0f90-\u0fbc][\u0f18\u0f19\u0f35\u0f37\u0f39\u0f71-\u0f84\u0f86\u0f87\u0f90-\u0fbc]*|.")
# Keys are pressed, and buttons of the mouse.
COUNTER = """
  window.done = { keys: 0, clicks: 0 };
  addEventListener("keydown", (event) => { window.done.keys += !["Control", "Shift", "Alt"].includes(event.key); }, true);
  addEventListener("pointerdown", () => { window.done.clicks += 1; }, true);
"""
# The keys that make `before + text + behind` of `before + behind` in a box that converts Wylie; nothing where none do.
KEYS = r"""async ([before, text, behind]) => {
  const { converted } = await import("/assets/typing.js");
  const { spelled, toUnicode } = await import("/assets/wylie.js");
  const typed = (keys) => [...keys].reduce((state, key) => converted(state, {
    text: state.text.slice(0, state.caret) + key + state.text.slice(state.caret), caret: state.caret + 1,
  }), { text: before + behind, caret: before.length }).text;
  const isRight = (keys) => typed(keys) === before + text + behind;
  const marks = { "་": " ", " ": "_", ...Object.fromEntries([..."༠༡༢༣༤༥༦༧༨༩"].map((digit, value) => [digit, String(value)])) };
  const parts = text.match(/[\u0f40-\u0f87\u0f90-\u0fbc]+|[!-Z^-~]+|./gsu).map((part) => marks[part] ?? (/[!-~]/.test(part) ? `[${part}]` : spelled(part)));
  if (parts.includes(undefined)) return null;
  let keys = [parts.join(""), `${parts.join("")}a`].find(isRight);
  // As short as somebody types it.
  for (let at = keys?.length - 1; at >= 0; at--) {
    const shorter = keys.slice(0, at) + keys.slice(at + 1);
    if ("a+".includes(keys[at]) && isRight(shorter)) keys = shorter;
  }
  return keys ?? null;
}"""

# Where the text of an element has a place, on the screen: at the left edge of a sign, or the right one of the last.
WHERE = """(span, place) => {
  const texts = document.createTreeWalker(span, NodeFilter.SHOW_TEXT);
  const end = span.textContent.length;
  const { left, top } = span.getBoundingClientRect();
  if (end === 0) return [left + 2, top + 8];
  let at = Math.min(place, end - 1);
  while (texts.nextNode() && at >= texts.currentNode.length) at -= texts.currentNode.length;
  const range = new Range();
  range.setStart(texts.currentNode, at);
  range.setEnd(texts.currentNode, at + 1);
  const sign = [...range.getClientRects()].at(-1);
  return [place < end ? sign.left + 1 : sign.right - 1, (sign.top + sign.bottom) / 2];
}"""


def main(scans, truth, most):
    with (truth / "manifest.tsv").open() as manifest:
        rows = [row for row in csv.DictReader(manifest, delimiter="\t")]
    found = {path.name: path for path in scans.glob("*/*")}
    rows = [row for row in rows if row["file"] in found][:most]
    with Library({found[row["file"]] for row in rows}) as library, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        visitor = Visitor(browser, library, viewport={"width": 1400, "height": 1400})
        visitor.context.add_init_script(COUNTER)
        visitor.sign_in()
        print("| page | lines | wrong | of these uncertain | places | lines made or removed | keys | clicks | minutes | keys of the whole text |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        whole = [0] * 9
        for row in rows:
            path = found[row["file"]]
            texts = [plain(text) for text in (truth / row["truth"]).read_text().splitlines() if text.strip()]
            numbers = Person(visitor, library, path).correct(texts)
            print(f"| {path.parent.name} {path.name} | {shown(numbers)} |", flush=True)
            whole = [sum(pair) for pair in zip(whole, numbers)]
        print(f"| all {len(rows)} | {shown(whole)} |")
        browser.close()


def shown(numbers):
    *counts, seconds, all_keys = numbers
    return " | ".join([*map(str, counts), f"{seconds / 60:.1f}", str(all_keys)])


def plain(text):
    return unicodedata.normalize("NFC", " ".join(text.split()))


class Library(Cluster):
    """A cluster that has read these scans."""

    def __init__(self, paths):
        super().__init__()
        shutil.rmtree(self.scans)
        for path in sorted(paths):
            folder = self.scans / path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder)

    def __enter__(self):
        super().__enter__()
        self.start("cpu,gpu")
        self.ask("/jobs", {"job": JOB, "volume": [folder.name for folder in self.scans.iterdir()]})
        self.run("job", "status", JOB, "--wait", allowed=(0, 1))
        return self


def is_unsure(line):
    return any((part["confidence"] or 1) < UNSURE for part in [line, *line["words"]])


@cache
def distance(one, other):
    """Signs that are to be made, removed or replaced."""
    row = list(range(len(other) + 1))
    for above, sign in enumerate(one):
        last, row[0] = row[0], above + 1
        for column, with_sign in enumerate(other):
            last, row[column + 1] = row[column + 1], min(last + (sign != with_sign), row[column] + 1, row[column + 1] + 1)
    return row[-1]


def aligned(read, truth):
    """What makes the lines that were read those of the truth: [lines read, lines of the truth], at most two of either, in their order."""
    best = {(0, 0): (0, None)}
    for at in range(len(read) + 1):
        for to in range(len(truth) + 1):
            for lines, texts in [(1, 1), (1, 0), (0, 1), (2, 1), (1, 2)]:
                before = (at - lines, to - texts)
                if before in best:
                    cost = best[before][0] + distance("".join(read[before[0]:at]), "".join(truth[before[1]:to])) + (lines != texts)
                    if (at, to) not in best or cost < best[at, to][0]:
                        best[at, to] = (cost, before)
    steps, place = [], (len(read), len(truth))
    while best[place][1] is not None:
        before = best[place][1]
        steps.append((place[0] - before[0], place[1] - before[1]))
        place = before
    return steps[::-1]


@dataclass
class Span:
    """A place of a text, in signs, and what comes there."""

    begin: int
    end: int
    text: str


def differences(before, after):
    """The places of a text that are wrong, the last one first."""
    clusters, wanted = CLUSTER.findall(before), CLUSTER.findall(after)
    changes = difflib.SequenceMatcher(None, clusters, wanted, autojunk=False).get_opcodes()
    length = lambda until: sum(map(len, clusters[:until]))
    return [Span(length(a), length(b), "".join(wanted[c:d])) for kind, a, b, c, d in reversed(changes) if kind != "equal"]


class Person:
    """Somebody who corrects one page, and chooses lines by clicks on their texts."""

    def __init__(self, visitor, library, scan):
        volume = f"/jobs/{JOB}/volumes/{scan.parent.name}"
        self.library = library
        names = library.ask(f"{volume}/pages")["pages"]
        number = names.index(scan.name if scan.name in names else scan.stem) + 1
        self.path = f"{volume}/pages/{number}"
        self.page = visitor.open(f"/read/{JOB}/{scan.parent.name}/{number}", f"page {number} of")
        self.page.get_by_label("correct").check()
        self.page.get_by_label("Wylie").check()
        self.box = self.page.get_by_label("Text of the line")
        self.lines = self.page.locator("ol.lines li")
        # Places that were wrong, lines that were made, joined, cut or removed, and signs that no Wylie makes.
        self.places = self.made = self.others = 0

    def read(self):
        return self.library.ask(self.path)["lines"]

    def correct(self, truth):
        """Makes the page say this, and returns what it took."""
        lines = self.read()
        read = [line["text"] for line in lines]
        steps = aligned([plain(text) for text in read], truth)
        self.page.evaluate("window.done = { keys: 0, clicks: 0 }")
        at = to = wrong = unsure = 0
        for number, texts in steps:
            have, want = read[at:at + number], truth[to:to + texts]
            if [plain(text) for text in have] != want:
                wrong += 1
                unsure += any(is_unsure(line) for line in lines[at:at + number])
                # Those before are as many as in the truth by now.
                self.make(to, have, want)
            at, to = at + number, to + texts
        if wrong:
            self.page.keyboard.press("Enter")
            expect(self.page.locator(".editor").get_by_role("status").first).to_contain_text("saved")
        done = self.page.evaluate("window.done")
        left = [plain(line["text"]) for line in self.read()]
        assert left == truth, [pair for pair in zip(left, truth) if pair[0] != pair[1]]
        keys = done["keys"] + self.others
        seconds = KEY * keys + (CLICK + 2 * HAND) * done["clicks"] + THOUGHT * (self.places + self.made + len(steps))
        whole = sum(len(self.keys("", text, "") or text) for text in truth)
        return len(steps), wrong, unsure, self.places, self.made, keys, done["clicks"], seconds, whole

    def make(self, at, have, want):
        """Makes other lines of those at a place of the page."""
        count = self.lines.count() + len(want) - len(have)
        self.made += len(have) != len(want)
        if len(have) > len(want):
            self.click(at, 0)
            self.press("Merge" if want else "Delete")
            have = ["".join(have)][:len(want)]
        elif len(have) == 0:
            self.add(at)
            have = [""]
        elif len(have) < len(want):
            text = have[0]
            cut = min(range(1, len(text)), key=lambda cut: distance(text[:cut], want[0]) + distance(text[cut:], want[1]))
            self.click(at, cut)
            self.page.keyboard.press("Shift+Enter")
            have = [text[:cut], text[cut:]]
        expect(self.lines).to_have_count(count)
        for index, (before, after) in enumerate(zip(have, want)):
            if plain(before) != after:
                self.retype(at + index, before, after)

    def press(self, name):
        self.page.locator(".editor").get_by_role("button", name=name, exact=True).click()

    def retype(self, index, before, after):
        text = before
        expect(self.lines.nth(index).locator("> span")).to_have_text(before)
        for span in differences(before, after):
            self.places += 1
            if before:
                self.click(index, span.end)
            for _ in range(span.end - span.begin):
                if self.caret() == [span.begin, span.begin]:
                    break
                self.page.keyboard.press("Backspace")
            head, behind = text[:span.begin], text[span.end:]
            keys = self.keys(head, span.text, behind) if span.text else ""
            if keys is None:
                # Another script, for which another keyboard is chosen.
                self.page.keyboard.insert_text(span.text)
                self.others += len(span.text)
            for key in keys or "":
                self.page.keyboard.press("Space" if key == " " else key)
            text = head + span.text + behind
            expect(self.box).to_have_value(text)

    def keys(self, before, text, behind):
        return self.page.evaluate(KEYS, [before, text, behind])

    def caret(self):
        return self.box.evaluate("box => [box.selectionStart, box.selectionEnd]")

    def click(self, index, place):
        """Clicks on a line where its text has the place, and goes on with the keys if that was beside it."""
        span = self.lines.nth(index).locator("> span")
        span.evaluate("span => span.scrollIntoView({ block: 'center' })")
        x, y = span.evaluate(WHERE, place)
        self.page.mouse.click(x, y)
        expect(self.box).to_be_focused()
        while (caret := self.caret()) != [place, place]:
            self.page.keyboard.press("ArrowLeft" if caret[1] > place else "ArrowRight")

    def add(self, at):
        """Draws a line behind the one before this place."""
        lines = self.library.ask(self.path)["lines"]
        columns, rows = zip(*lines[max(0, at - 1)]["polygon"])
        self.press("Add")
        page = self.library.ask(self.path)
        left, right = max(0, min(columns)), min(page["width"], max(columns))
        edge = max(rows) if at else min(rows) - 8
        sheet = self.page.locator(".sheet")
        sheet.evaluate("(sheet, share) => scrollBy(0, sheet.getBoundingClientRect().top + share * sheet.clientHeight - innerHeight / 2)", edge / page["height"])
        box = sheet.bounding_box()
        at_scan = lambda x, y: (box["x"] + x * box["width"] / page["width"], box["y"] + y * box["height"] / page["height"])
        self.page.mouse.move(*at_scan(left, edge))
        self.page.mouse.down()
        self.page.mouse.move(*at_scan(right, edge + 8), steps=3)
        self.page.mouse.up()


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:3]] or [ROOT / "tests/fixtures/sample", ROOT / "tests/fixtures/sample-truth"]
    main(*folders, int(sys.argv[3]) if len(sys.argv) > 3 else 10)
