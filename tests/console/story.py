"""What the tests tell of: a cluster with two jobs, and whoever looks at it with a browser."""

import hashlib
import os
import secrets
import shutil

from cluster import SAMPLE, Cluster

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
# Longest that something may take on a slow and busy machine, in milliseconds.
PATIENCE = 120_000
# A job over the sample, and over a volume whose only scan cannot be read.
JOB, TORN = "press", "W2-I1"
# A job over so many volumes that nobody ever begins.
LIBRARY, VOLUMES = "library", 10_000


class Site(Cluster):
    """The cluster with its two jobs, first without a node that could do their work."""

    worker = None

    def __init__(self):
        # The autoscaler decides, and has no say: a fleet of none.
        super().__init__({
            "PARKHANG_LAUNCHER__KIND": "local",
            "PARKHANG_LAUNCHER__INTERVAL": "1s",
            "PARKHANG_AUTOSCALER__ENABLED": "true",
            "PARKHANG_AUTOSCALER__GPU__CAP": "0",
            "PARKHANG_AUTOSCALER__CPU__CAP": "0",
        })
        # Of somebody who may only read.
        self.reader = secrets.token_urlsafe(32)
        tokens = self.folder / "tokens"
        tokens.write_text(f"eva read {hashlib.sha256(self.reader.encode()).hexdigest()}\n")
        self.environment["PARKHANG_API__TOKENS_FILE"] = str(tokens)

    def __enter__(self):
        scan = self.scans / TORN / "torn.tif"
        scan.parent.mkdir()
        scan.write_bytes(b"no scan")
        for number in range(VOLUMES):
            folder = self.scans / f"W1-I{number}"
            folder.mkdir()
            os.link(scan, folder / scan.name)
        super().__enter__()
        self.ask("/jobs", {"job": LIBRARY, "volume": [f"W1-I{number}" for number in range(VOLUMES)]})
        self.ask(f"/jobs/{LIBRARY}/pause", {})
        self.ask("/jobs", {"job": JOB, "volume": [SAMPLE, TORN], "config": ["on_item_error=fail", "max_attempts=1"]})
        return self

    def work(self):
        """Starts a node that does the work, unless it is there."""
        self.worker = self.worker or self.start("cpu,gpu")

    def finish(self):
        """Returns once the job has ended."""
        self.work()
        self.run("job", "status", JOB, "--wait", allowed=(0, 1))

    def forget_the_library(self):
        """So that what makes jobs over all volumes makes small ones, and nobody begins them."""
        self.worker.stop()
        for folder in self.scans.glob("W1-*"):
            shutil.rmtree(folder)


class Visitor:
    """Somebody with a browser of their own, who notes what goes wrong in it."""

    def __init__(self, browser, site, **options):
        self.site = site
        self.context = browser.new_context(base_url=site.url, **options)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.wrong = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(f"{said.text} ({said.location['url']})"))
        self.page.on("request", self.note)

    def note(self, request):
        if not request.url.startswith((f"{self.site.url}/", "data:")):
            self.wrong.append(f"asked {request.url}")

    def close(self):
        """Leaves. A page asks again by itself, so a handler of its routes may be at work, whose error would reach the next test."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.context.unroute_all(behavior="ignoreErrors")
        self.context.close()

    def sign_in(self, token=None):
        """Shows a token to the interface, not by the form, and opens the console."""
        answer = self.context.request.post("/api/v1/session", data={"token": token or self.site.token})
        assert answer.status == 204, answer.text()
        self.page.goto("/")
        self.page.get_by_role("heading", name="Overview").wait_for()
        return self.page

    def open(self, path, heading):
        """Goes to a view, and returns once it is shown."""
        self.page.goto(f"/#{path}")
        self.page.locator("h1", has_text=heading).wait_for()
        return self.page
