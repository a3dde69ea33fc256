"""Pictures of the web console and of `node repl` for the documentation: capture.py FOLDER"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect, sync_playwright

from cluster import SAMPLE, Cluster
from story import CHROMIUM, PATIENCE
from terminal import Terminal

expect.set_options(timeout=PATIENCE)

SHELF = 24
COLOURS = 96
DESK = {"viewport": {"width": 1080, "height": 720}, "device_scale_factor": 1.25}
LOW, TALL = (DESK | {"viewport": {"width": 1080, "height": height}} for height in (580, 960))
PHONE = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 1.5, "is_mobile": True, "has_touch": True}
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; display: inline-block; }
pre { margin: 0; padding: 18px 22px; background: #fbfaf7; color: #1d1b16; font: 14px/1.17 "DejaVu Sans Mono", monospace; }
</style><pre>%s</pre>"""


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with Library() as library, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        console = Console(browser, library, folder)
        library.read()
        console.take_of_work()
        take_repl(browser, library, folder / "repl.png")
        library.run("job", "status", "shelf", "--wait", allowed=(0, 1))
        console.take_of_pages()


class Library(Cluster):
    """The sample volume, and a shelf of volumes like it, one of which holds a scan that cannot be read."""

    def __enter__(self):
        for number in range(SHELF):
            shutil.copytree(self.scans / SAMPLE, self.scans / f"W1-I{number:02}")
        torn = self.scans / "W1-I02"
        for scan in torn.iterdir():
            scan.write_bytes(b"no scan")
        return super().__enter__()

    def read(self):
        """Returns once the sample has been read, and some of the shelf."""
        self.start("cpu,gpu")
        self.ask("/jobs", {"job": "sample", "volume": [SAMPLE]})
        self.run("job", "status", "sample", "--wait")
        shelf = [f"W1-I{number:02}" for number in range(SHELF)]
        self.ask("/jobs", {"job": "shelf", "volume": shelf, "priority": 3, "config": ["on_item_error=fail", "max_attempts=1"]})


class Console:
    def __init__(self, browser, library, folder):
        self.browser, self.library, self.folder = browser, library, folder

    def visit(self, path, **options):
        context = self.browser.new_context(base_url=self.library.url, **options)
        context.set_default_timeout(PATIENCE)
        context.request.post("/api/v1/session", data={"token": self.library.token})
        page = context.new_page()
        page.goto(f"/#{path}")
        expect(page.locator("#live")).to_have_text("live")
        page.locator("h1").wait_for()
        return page

    def take(self, page, name):
        page.evaluate("document.fonts.ready")
        save(page.screenshot(), self.folder / f"{name}.png")
        page.context.close()

    def take_of_work(self):
        """While the shelf is read."""
        page = self.visit("/", **LOW)
        expect(page.locator("tr", has_text="shelf").locator("td").nth(3)).to_have_text("6")
        self.take(page, "overview")
        page = self.visit("/jobs/shelf", **TALL)
        expect(page.locator("figure")).to_have_count(4)
        self.take(page, "job")

    def take_of_pages(self):
        for name, options in {"viewer": {}, "dark": {"color_scheme": "dark"}}.items():
            page = self.visit(f"/read/sample/{SAMPLE}/2", **DESK | options)
            page.wait_for_function("() => document.querySelector('.sheet img').complete")
            page.locator("ol.lines li").nth(1).click()
            page.get_by_label("numbers").check()
            self.take(page, name)
        page = self.visit(f"/read/sample/{SAMPLE}/4", **PHONE)
        page.wait_for_function("() => document.querySelector('.sheet img').complete")
        self.take(page, "phone")


def take_repl(browser, library, path):
    command = [library.node, "repl"]
    with Terminal(command, library.environment, library.folder, 120, 50) as terminal:
        prompts = 1
        waits = lambda lines: sum(line.startswith("parkhang ") for line in lines) >= prompts and lines[terminal.screen.cursor.y].endswith(">")
        for line in ["job list", "job status shelf", "job errors shelf", "tasks why shelf W1-I02"]:
            terminal.until(waits)
            terminal.write(f"{line}\r")
            prompts += 1
        terminal.until(waits)
        shown = terminal.html()
    page = browser.new_page(device_scale_factor=1.5)
    page.set_content(TERMINAL % shown)
    save(page.locator("body").screenshot(), path)
    page.close()


def save(png, path):
    """Of so few colours that the pictures stay small."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
