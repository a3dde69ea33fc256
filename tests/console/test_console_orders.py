"""What somebody may order from the console, and what it says before it is done."""

import re

import pytest
from playwright.sync_api import expect

from cluster import SAMPLE
from story import JOB, LIBRARY, TORN

STANDING = "intake"

ORDERS = re.compile("^(Pause|Resume|Close|Cancel|Try again|Do a stage again|Drain|Restart.*)$")


@pytest.mark.parametrize(
    ("path", "heading", "orders"),
    [
        (f"/jobs/{LIBRARY}", LIBRARY, ["Resume", "Cancel", "Do a stage again"]),
        (f"/jobs/{JOB}/{TORN}", TORN, ["Try again", "Do a stage again"]),
        ("/actors", "Actors", ["Drain", "Restart"]),
    ],
    ids=["job", "volume", "actors"],
)
def test_only_what_a_token_allows_is_offered(visitor, site, path, heading, orders):
    site.finish()
    boss, eva = visitor(), visitor()
    boss.sign_in()
    page = boss.open(path, heading)
    for order in orders:
        expect(page.get_by_role("button", name=order).first).to_be_visible()
    eva.sign_in(site.reader)
    page = eva.open(path, heading)
    expect(page.locator("#who")).to_contain_text("eva (may read only)")
    expect(page.get_by_role("button", name=ORDERS)).to_have_count(0)


def test_a_standing_job_is_told_and_closed(visitor, site):
    site.run("job", "create", STANDING, "--standing")
    someone = visitor()
    page = someone.sign_in()
    row = page.locator("tbody tr", has=page.get_by_role("link", name=STANDING, exact=True))
    expect(row.locator(".badge")).to_have_text("standing")
    row.get_by_role("link").click()
    expect(page.locator("h1 .badge")).to_have_text("standing")
    expect(page.locator("h1 .state")).to_have_text("running")
    said = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.accept()))
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator("h1 .state")).to_have_text("completed")
    expect(page.locator("h1 .badge")).to_have_count(0)
    expect(page.get_by_role("button", name="Close", exact=True)).to_have_count(0)
    assert said == [f"Take no more volumes for job {STANDING}? It ends once those that it has are done."]


def test_queues_of_stages_and_of_standing_jobs_are_in_one_table(visitor):
    someone = visitor()

    def with_queues(route):
        # The cluster has none: the look is one that `cluster status` gives.
        answer = route.fetch()
        look = {"looked_at": "2026-01-01T00:00:00Z", "in_flight": 2, "delayed": 0, "alarms": []}
        body = answer.json() | {"queues": [
            look | {"purpose": "stage", "serves": "ocr", "queue": "ocr-ocr.fifo", "visible": 7, "dead_letters": 0, "oldest": None},
            look | {"purpose": "stage", "serves": "clean", "queue": "ocr-clean.fifo", "visible": 0, "in_flight": 0,
                    "dead_letters": None, "oldest": None, "alarms": ["missing"]},
            look | {"purpose": "stage", "serves": "embed", "queue": "ocr-embed.fifo", "visible": 0, "in_flight": 0, "dead_letters": 0, "oldest": None},
            look | {"purpose": "standing_job", "serves": JOB, "queue": "bec_press_tasks", "visible": 9, "dead_letters": 1, "oldest": None},
        ]}
        route.fulfill(response=answer, json=body)

    someone.context.route("**/api/v1/cluster", with_queues)
    page = someone.sign_in()
    rows = page.locator("h2:text-is('Queues') ~ * tbody").first.locator("tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0).locator("td")).to_contain_text(["ocr-ocr.fifo", "", "stage ocr", "7", "2", "0", "", "0", ""])
    expect(rows.nth(1).locator("td")).to_contain_text(["ocr-clean.fifo", "missing", "stage clean", "0", "0", "0", "", "", ""])
    expect(rows.nth(2).locator("td")).to_contain_text(["bec_press_tasks", "", f"job {JOB}", "9", "2", "0", "", "1", ""])
    expect(page.get_by_text("Empty, and of no open job: ocr-embed.fifo.")).to_be_visible()
    rows.nth(2).get_by_role("link", name=f"job {JOB}").click()
    expect(page.get_by_role("heading", name=JOB)).to_be_visible()
    someone.context.unroute("**/api/v1/cluster")


def test_a_stage_is_done_again(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/jobs/{JOB}/{SAMPLE}", SAMPLE)
    tries = page.locator("tbody tr").filter(has_text=re.compile("^reduce"))
    before = tries.count()
    ask = page.get_by_role("button", name="Do a stage again")
    dialog = page.get_by_role("dialog", name=f"Do a stage of {SAMPLE} again")

    ask.click()
    dialog.get_by_label("from the stage").select_option("ocr")
    expect(dialog).to_contain_text("1 volume goes back to ocr.")
    expect(dialog).to_contain_text("would be kept")
    expect(dialog.locator("tbody tr").first.locator("td")).to_have_text(["ocr", "0 volumes", "", "1 volume", ""])
    dialog.get_by_label("also pages whose results still stand").check()
    computed = dialog.locator("tbody tr").locator("td:nth-child(-n + 4)")
    expect(computed).to_have_text(["ocr", "1 volume", "6", "0 volumes", "reduce", "1 volume", "6", "0 volumes"])
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_have_count(0)
    assert site.ask(f"/jobs/{JOB}/tasks/{SAMPLE}")["state"] == "done"

    ask.click()
    dialog.get_by_label("from the stage").select_option("reduce")
    dialog.get_by_label("also pages whose results still stand").check()
    expect(dialog.locator("tbody tr")).to_have_count(1)
    dialog.get_by_role("button", name="Do it again").click()
    expect(tries).to_have_count(before + 1)
    site.finish()
    expect(tries.last).to_contain_text("done")
    orders = [entry for entry in site.ask("/audit?full=true")["entries"] if not entry["arguments"].get("dry_run")]
    assert orders[0]["command"] == "job rerun"
    assert orders[0]["arguments"] == {"job": JOB, "from": "reduce", "force": True, "dry_run": False, "volume": [SAMPLE]}


def test_a_stage_of_a_whole_job_is_done_again(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/jobs/{JOB}", JOB)
    page.get_by_role("button", name="Do a stage again").click()
    dialog = page.get_by_role("dialog", name=f"Do a stage of {JOB} again")
    dialog.get_by_label("from the stage").select_option("line_extraction")
    expect(dialog).to_contain_text("1 volume goes back to line_extraction. 1 volume has not come that far and will run it anyway.")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_link_that_is_pressed_while_news_comes_is_followed(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/jobs/{JOB}", JOB)
    # That of the list of volumes, below the one of the worst.
    page.get_by_role("link", name=SAMPLE, exact=True).last.hover()
    page.mouse.down()
    # The list of volumes is the last that a view asks for.
    with page.expect_response(lambda answer: f"/jobs/{JOB}/tasks" in answer.url):
        site.run("job", "rerun", JOB, "--from", "reduce", "--volume", SAMPLE)
    page.evaluate("new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
    page.mouse.up()
    expect(page.get_by_role("heading", name=SAMPLE)).to_be_visible()
    site.finish()
