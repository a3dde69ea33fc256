"""Stages that a service does, in the console: what it has in hand, how it is doing, and what it costs."""

import json
import re
import shutil
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import expect

from cluster import SAMPLE, Cluster
from story import PATIENCE, Visitor

expect.set_options(timeout=PATIENCE)

JOB = "cleaned"


class Service(BaseHTTPRequestHandler):
    """Takes every job, and never says by itself that it is over. It breaks when told to."""

    broken = False

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if Service.broken:
            return self.answer(503, {"error": "restarting"})
        return self.answer(202, {"jobId": self.headers["Idempotency-Key"]})

    def do_GET(self):
        self.answer(200, {"status": "running"})


@pytest.fixture(scope="module")
def served():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    Thread(target=server.serve_forever, daemon=True).start()
    settings = {
        "PARKHANG_SERVICE__LLM__URL": f"http://127.0.0.1:{server.server_port}",
        "PARKHANG_SERVICE__LLM__COST": "0.25",
        # One submit after the other, so that the second one finds the budget used up.
        "PARKHANG_SERVICE__LLM__RATE": "1",
        "PARKHANG_COSTS__CURRENCY": "EUR",
        "PARKHANG_STAGE__PROOFREAD__SERVICE": "llm",
        "PARKHANG_STAGE__PROOFREAD__POLL_INTERVAL": "500ms",
        "PARKHANG_PIPELINE__CLEANED__STAGES": "proofread",
    }
    with Cluster(settings) as cluster:
        # The budget has no room for the second one.
        shutil.copytree(cluster.scans / SAMPLE, cluster.scans / "W2-I1")
        cluster.run("job", "create", JOB, "--pipeline", "cleaned", "--budget", "0.25")
        yield cluster
    server.shutdown()


@pytest.fixture
def someone(browser, served):
    visitor = Visitor(browser, served)
    visitor.sign_in()
    yield visitor
    visitor.close()
    assert not visitor.wrong, visitor.wrong


@pytest.fixture
def page(someone):
    return someone.page


def rows(page, heading):
    return page.locator(f"h2:text-is('{heading}') ~ * tbody").first.locator("tr")


def test_a_service_is_shown_with_its_work_and_its_cost(page):
    cells = rows(page, "Services").locator("td")
    expect(cells).to_have_text(["llm", "proofread", re.compile("working|^$"), "1 of 100", "1", "0", re.compile("ago"), "0.25 EUR"])


def test_a_volume_tells_how_often_its_service_was_asked(page):
    page.goto(f"/#/jobs/{JOB}/{SAMPLE}")
    expect(page.get_by_text("waiting for llm to do proofread")).to_be_visible()
    cells = rows(page, "At services").locator("td")
    expect(cells.nth(2)).to_have_text("1-proofread-1-g0")
    # It is asked every half a second; the page tells once it is drawn again.
    page.reload()
    expect(cells.nth(4)).to_have_text(re.compile("^[1-9]"))
    expect(cells.nth(5)).to_contain_text("ago")
    expect(cells.nth(6)).to_have_text("none")


def test_a_job_that_has_spent_its_budget_says_so(someone, page):
    page.goto(f"/#/jobs/{JOB}")
    expect(page.locator("h1 .state")).to_have_text("paused")
    expect(page.locator(".tile", has_text="EUR spent")).to_contain_text("0.25 of 0.25")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#trouble")).to_contain_text("has spent its budget")
    # The browser itself notes that this was refused.
    assert len(someone.wrong) == 1 and "409" in someone.wrong.pop()


def test_a_service_that_is_left_alone_is_an_alarm(page, served):
    Service.broken = True
    served.run("job", "limits", JOB, "budget=0")
    served.run("job", "resume", JOB)
    served.run("job", "create", "more", "--pipeline", "cleaned", "--force")
    page.goto("/#/")
    expect(page.get_by_role("alert").first).to_contain_text("service llm is left alone")
    expect(rows(page, "Services").locator("td").nth(2)).to_contain_text("left alone")
    Service.broken = False
