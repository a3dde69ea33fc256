"""How long views of the console, answers of the interface and commands take with very many tasks: measure.py [TASKS]

Times of views are those from a click to the data on the screen, in a browser on the same machine.
"""

import os
import re
import statistics
import sys
import time

from playwright.sync_api import expect, sync_playwright

from cluster import Cluster
from story import CHROMIUM, PATIENCE, Visitor

expect.set_options(timeout=PATIENCE)

JOB = "crowd"
# Names that one file may have on the usual file systems, and some to spare.
MOST_LINKS = 60_000
TIMES = 9


class Crowd(Cluster):
    """A job over so many volumes of one scan that cannot be read, and a node that begins to read them."""

    def __init__(self, tasks):
        super().__init__()
        self.tasks = tasks

    def __enter__(self):
        for number in range(self.tasks):
            folder = self.scans / name(number)
            folder.mkdir()
            if number % MOST_LINKS == 0:
                scan = folder / "torn.tif"
                scan.write_bytes(b"no scan")
            else:
                os.link(scan, folder / "torn.tif")
        super().__enter__()
        volumes = self.folder / "volumes"
        volumes.write_text("".join(f"{name(number)}\n" for number in range(self.tasks)))
        began = time.perf_counter()
        self.run("job", "create", JOB, "--volumes-from", str(volumes), "--config", "on_item_error=fail", "--config", "max_attempts=1")
        print(f"| a job of {self.tasks:,} volumes | {time.perf_counter() - began:.1f} s | |")
        self.start("cpu,gpu")
        return self


def name(number):
    return f"W{1 + number // 1000}-I{number % 1000}"


def report(what, milliseconds):
    ordered = sorted(milliseconds)
    print(f"| {what} | {statistics.median(ordered):.0f} ms | {ordered[-1]:.0f} ms |", flush=True)


def view(page, what, path, shown):
    """From the click on a link to what the view is for."""
    took = []
    for _ in range(TIMES):
        page.goto("/#/audit")
        page.locator("h1", has_text="Audit").wait_for()
        began = time.perf_counter()
        page.evaluate("path => { location.hash = path }", path)
        shown(page).first.wait_for()
        took.append((time.perf_counter() - began) * 1e3)
    report(f"console: {what}", took)


def command(crowd, *words):
    """A process that starts, asks the database and ends."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        crowd.run(*words)
        took.append((time.perf_counter() - began) * 1e3)
    report(f"`node {' '.join(words)}`", took)


def answer(crowd, path):
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        crowd.ask(path)
        took.append((time.perf_counter() - began) * 1e3)
    report(f"`GET /api/v1{path}`", took)


def main(tasks):
    print("| what | median | slowest |\n|---|---|---|")
    with Crowd(tasks) as crowd, sync_playwright() as playwright:
        failed = name(0)
        while crowd.ask(f"/jobs/{JOB}/tasks?state=failed&limit=1")["tasks"] == []:
            time.sleep(0.1)
        command(crowd, "job", "status", JOB)
        answer(crowd, f"/jobs/{JOB}")
        answer(crowd, f"/jobs/{JOB}/tasks?limit=100")
        answer(crowd, f"/jobs/{JOB}/errors")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = Visitor(browser, crowd).sign_in()
        view(page, "overview", "/", lambda page: page.locator("tr", has_text=JOB))
        view(page, "job", f"/jobs/{JOB}", lambda page: page.locator("tbody tr", has=page.get_by_role("link", name=re.compile(r"^W\d+-I\d+$"))))
        view(page, "volume", f"/jobs/{JOB}/{failed}", lambda page: page.locator("h1 .state"))
        view(page, "nodes", "/nodes", lambda page: page.locator("h2"))
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
