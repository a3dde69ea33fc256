"""The console while its orchestrator is away, and when it is back."""

import socket

import pytest
from playwright.sync_api import expect

from cluster import SAMPLE, Cluster
from story import JOB, Visitor

WAITING = "waiting"
SILENCE = "the orchestrator does not answer"


@pytest.fixture
def lonely():
    """A cluster whose orchestrator is where it was when it is started anew, with a job that waits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Cluster({"PARKHANG_API__LISTEN": address}) as cluster:
        cluster.ask("/jobs", {"job": WAITING, "volume": [SAMPLE]})
        cluster.ask(f"/jobs/{WAITING}/pause", {})
        yield cluster


def test_what_an_outage_stopped_comes_by_itself(browser, lonely):
    someone = Visitor(browser, lonely)
    someone.page.on("dialog", lambda dialog: someone.wrong.append(dialog.message))
    someone.sign_in()
    page = someone.open(f"/jobs/{WAITING}", WAITING)
    expect(page.locator("#live")).to_have_text("live")
    lonely.orchestrator.stop()
    expect(page.locator("#live")).to_have_text("connection lost")

    # What is shown stays, and a button says what became of it.
    page.get_by_role("button", name="Resume").click()
    trouble = page.locator("#trouble")
    expect(trouble.get_by_role("alert")).to_have_text(SILENCE)
    expect(page.locator("h1")).to_contain_text(WAITING)
    trouble.get_by_role("button", name="Put away").click()
    expect(trouble).to_be_hidden()

    page.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("alert")).to_have_text(SILENCE)

    lonely.start("orchestrator", "127.0.0.1:1")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    someone.open(f"/jobs/{WAITING}", WAITING)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .state")).to_have_text("running")
    # The browser itself notes what was not answered; nothing else went wrong.
    assert [wrong for wrong in someone.wrong if "net::ERR_" not in wrong] == []
    assert someone.wrong
    someone.close()


def test_a_console_that_was_loaded_just_before_an_outage_comes_too(browser, site):
    someone = Visitor(browser, site)
    someone.sign_in()
    someone.context.route("**/api/**", lambda route: route.abort())
    page = someone.page
    page.reload()
    expect(page.get_by_role("alert")).to_have_text(SILENCE)
    expect(page.locator("#live")).to_have_text("connection lost")
    someone.context.unroute("**/api/**")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    assert [wrong for wrong in someone.wrong if "net::ERR_" not in wrong] == []
    someone.close()


def test_a_picture_that_did_not_come_is_asked_for_again(browser, site):
    site.finish()
    someone = Visitor(browser, site)
    someone.sign_in()
    someone.context.route("**/image?**", lambda route: route.abort())
    page = someone.open(f"/read/{JOB}/{SAMPLE}/1", "page 1 of")
    expect(page.get_by_text("There is no picture of the scan.")).to_be_visible()
    expect(page.locator("ol.lines li").first).to_be_visible()
    someone.context.unroute("**/image?**")
    # Whoever comes back to the window sees what is there now.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".frame")).to_be_visible()
    expect(page.get_by_text("There is no picture of the scan.")).to_be_hidden()
    assert [wrong for wrong in someone.wrong if "net::ERR_" not in wrong] == []
    someone.close()
