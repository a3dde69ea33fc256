"""The console in a browser, against a real cluster: from a token to the text of a page."""

import io
import re

import pytest
from PIL import Image
from playwright.sync_api import Error, expect

from cluster import SAMPLE
from story import JOB, LIBRARY, PATIENCE, TORN, VOLUMES

expect.set_options(timeout=PATIENCE)

PAGES = 6
STAGES = ["line_detection", "line_extraction", "ocr", "reduce"]
# Of all files and answers that a visit of every view takes, without pictures, with what correcting pages needs.
MOST_BYTES = 400 * 1024
VIEWS = [
    ("/", "Overview"),
    (f"/jobs/{JOB}", JOB),
    (f"/jobs/{LIBRARY}", LIBRARY),
    (f"/jobs/{JOB}/{TORN}", TORN),
    (f"/jobs/{JOB}/{SAMPLE}", SAMPLE),
    ("/nodes", "Nodes"),
    ("/actors", "Actors"),
    ("/audit", "Audit"),
    ("/search", "Search"),
    (f"/read/{JOB}/{SAMPLE}/2", "page 2 of 6"),
]


def rows(page, heading):
    """The rows of the table below a heading."""
    return page.locator(f"h2:text-is('{heading}') ~ * tbody").first.locator("tr")


def screenshot(locator, tries=10):
    """Screenshot of an element. A refresh of the view may replace the element meanwhile; then it is taken of its successor."""
    for _ in range(tries - 1):
        try:
            return locator.screenshot()
        except Error as error:
            if not re.search("not attached|not visible", error.message):
                raise
    return locator.screenshot()


def test_a_token_is_asked_for_once(visitor, site):
    someone = visitor()
    page = someone.page
    page.goto("/")
    dialog = page.get_by_role("dialog", name="Token")
    field = dialog.get_by_label("Token")
    inner, outer = field.bounding_box(), dialog.bounding_box()
    assert inner["x"] > outer["x"] and inner["x"] + inner["width"] < outer["x"] + outer["width"]
    field.fill("guessed")
    field.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("the token is not known")
    # The browser itself notes that the guess was refused.
    assert len(someone.wrong) == 1 and "401" in someone.wrong.pop()
    field.fill(site.token)
    dialog.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("#who")).to_contain_text("api-token")
    expect(page.locator("#live")).to_have_text("live")
    assert "HttpOnly" not in page.evaluate("document.cookie") and page.evaluate("document.cookie") == ""

    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.get_by_role("button", name="Sign out").click()
    expect(dialog).to_be_visible()


def test_what_no_node_can_run_is_explained(visitor):
    page = visitor().sign_in()
    expect(page.get_by_role("alert")).to_contain_text("wait for line_detection, and no node runs it")
    page.get_by_role("link", name=JOB, exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("line_detection")
    page.get_by_role("link", name=SAMPLE).click()
    expect(page.get_by_text("no node that is there runs line_detection")).to_be_visible()
    expect(page.get_by_text("`node --role gpu` starts one")).to_be_visible()


def test_what_the_autoscaler_decided_is_told(visitor):
    page = visitor().sign_in()
    fleets = rows(page, "Autoscaler")
    expect(fleets).to_have_count(2)
    # Wanted, running, cap, waiting and in work; then why.
    gpu = fleets.filter(has_text="gpu").locator("td")
    expect(gpu).to_have_text(["gpu", "0", "0", "0", re.compile(r"^[12]$"), "0", "at cap", re.compile("ago|now"), re.compile(".")])


def test_a_list_of_ten_thousand_volumes_is_read_by_the_page(visitor):
    someone = visitor()
    page = someone.sign_in()
    answers = []
    page.on("response", lambda answer: "/api/" in answer.url and answers.append(answer))
    someone.open(f"/jobs/{LIBRARY}", LIBRARY)
    expect(page.get_by_text(f"0 of {VOLUMES:,}")).to_be_visible()
    listed = page.locator("tbody tr", has=page.get_by_role("link", name=re.compile(r"^W1-I\d+$")))
    expect(listed).to_have_count(50)
    first = listed.first.inner_text()
    page.get_by_role("button", name="Next", exact=True).click()
    expect(listed.first).not_to_have_text(first)
    expect(listed).to_have_count(50)
    page.get_by_role("button", name="Previous", exact=True).click()
    expect(listed.first).to_have_text(re.compile(first.split()[0]))
    page.get_by_label("state").select_option("done")
    expect(listed).to_have_count(0)
    largest = max(len(answer.body()) for answer in answers if "events" not in answer.url)
    assert largest < 32 * 1024, largest


def test_a_job_is_watched_to_its_end(visitor, site):
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/jobs/{JOB}", JOB)
    expect(page.locator("h1 .state")).to_have_text("running")
    site.work()
    # It tells of itself from here on: nobody reloads.
    expect(page.locator("h1 .state")).to_have_text("failed")
    expect(page.locator(".tile", has_text="volumes done")).to_contain_text("1 of 2")
    expect(page.locator(".tile", has_text="failed")).to_contain_text("1")
    progress = rows(page, "Progress")
    expect(progress).to_have_count(4)
    expect(progress.first.get_by_role("img")).to_have_attribute("aria-label", "1 done, 1 failed")
    [cause] = rows(page, "Errors").all()
    expect(cause).to_contain_text("line_detection")
    expect(cause.get_by_role("link", name=TORN)).to_be_visible()
    expect(rows(page, "Runs")).to_have_count(4)
    figures = page.locator("figure:has(.histogram)")
    expect(figures).to_have_count(4)
    expect(figures.nth(2)).to_contain_text("ocr 1 run")
    expect(figures.nth(2).get_by_role("img")).to_have_attribute("aria-label", re.compile(r"^ocr: .*1 within"))


def test_what_was_read_worst_is_found(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/jobs/{JOB}", JOB)
    plot = page.locator("figure", has_text="Volumes by perplexity and confidence").get_by_role("img")
    expect(plot).to_have_attribute(
        "aria-label", re.compile(r"^1 volume: perplexity \d+\.\d to \d+\.\d, confidence 9\d % to \d+ %$")
    )
    [worst] = rows(page, "Quality").all()
    expect(worst).to_contain_text(SAMPLE)
    page.get_by_label("worst by").select_option("perplexity")
    [worst] = rows(page, "Quality").all()
    link = worst.locator("td").last.get_by_role("link").first
    number = link.inner_text()
    expect(link).to_have_attribute("title", re.compile(r"^perplexity \d+\.\d, confidence \d"))
    link.click()
    expect(page.locator("h1")).to_have_text(f"{SAMPLE}, page {number} of {PAGES}")


def test_a_volume_shows_its_tries(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/jobs/{JOB}/{SAMPLE}", SAMPLE)
    expect(page.get_by_role("img", name="4 tries in")).to_be_visible()
    expect(page.locator(".timeline rect")).to_have_count(4)
    expect(page.locator(".timeline text")).to_have_text([f"{stage} 1" for stage in STAGES])
    expect(rows(page, "Tries")).to_have_count(4)
    facts = page.locator("dl")
    expect(facts).to_contain_text(re.compile(r"pages\s*6"))
    # What `node tasks show` says of them.
    said = site.run("tasks", "show", JOB, SAMPLE)
    for stage in ("line_detection", "ocr"):
        model = re.search(rf"^{stage} was done with (.+)$", said, re.MULTILINE)[1]
        expect(facts).to_contain_text(f"{stage} with{model}")

    someone.open(f"/jobs/{JOB}/{TORN}", TORN)
    expect(page.locator("h1 .state")).to_have_text("failed")
    tries = rows(page, "Tries").count()
    page.get_by_role("button", name="Try again").click()
    expect(rows(page, "Tries")).to_have_count(tries + 1)
    site.finish()
    expect(page.locator("h1 .state")).to_have_text("failed")
    someone.open("/audit", "Audit")
    expect(page.locator("tbody tr").first).to_contain_text("tasks retry")

    # The same stage once more, in another generation of the volume.
    site.run("job", "rerun", JOB, "--from", "reduce", "--volume", SAMPLE, "--force")
    site.finish()
    someone.open(f"/jobs/{JOB}/{SAMPLE}", SAMPLE)
    again = [f"{stage} 1" for stage in STAGES[:3]] + ["reduce 1 g0", "reduce 1 g1"]
    expect(page.locator(".timeline text")).to_have_text(again)
    expect(rows(page, "Tries").last.locator("td").nth(1)).to_have_text("1 g1")


def test_nodes_and_what_they_do(visitor, site):
    site.work()
    someone = visitor()
    someone.sign_in()
    page = someone.open("/nodes", "Nodes")
    expect(page.locator("h2")).to_have_text([re.compile(r"^cpu-gpu\."), re.compile(r"^orchestrator\.")])
    pools = {worker["stage"]: worker for node in site.ask("/nodes")["nodes"] for worker in node["workers"]}
    for stage in STAGES:
        pool = page.locator("li", has_text=re.compile(rf"^\s*{stage}: "))
        expect(pool).to_contain_text(", ".join(pools[stage]["models"]))
        expect(pool).not_to_contain_text("replaced")
    assert pools["ocr"]["models"] and pools["line_detection"]["models"]


def test_an_actor_is_restarted_from_the_tree(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open("/actors", "Actors")
    node = page.get_by_role("region", name=re.compile(r"^cpu-gpu\."))
    expect(node.get_by_text("supervisor", exact=True).first).to_be_visible()
    pool = node.locator("summary", has_text="pool").filter(has=page.get_by_role("button", name="Restart ocr", exact=True))
    expect(pool).to_contain_text(re.compile(r"0 of 1 slots in use.*generation"))
    network = node.get_by_role("button", name="Restart ocr/recognition", exact=True)
    expect(network).to_be_visible()
    # What is folded stays folded when the tree tells of itself anew.
    pool.press("Enter")
    expect(network).to_be_hidden()
    with page.expect_response(lambda answer: "/api/v1/actors" in answer.url):
        pass
    expect(network).to_be_hidden()
    page.on("dialog", lambda dialog: dialog.accept())
    pool.get_by_role("button", name="Restart ocr", exact=True).click()
    expect(pool).to_contain_text("1 restart")
    someone.open("/nodes", "Nodes")
    expect(page.locator("li", has_text=re.compile(r"^\s*ocr: "))).to_contain_text("replaced 1 time,")
    expect(page.locator("li", has_text=re.compile(r"^\s*reduce: "))).not_to_contain_text("replaced")
    someone.open("/audit", "Audit")
    expect(page.locator("tbody tr").first).to_contain_text("actors restart")


def test_a_page_is_read(visitor, site):
    site.finish()
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/read/{JOB}/{SAMPLE}/1", f"page 1 of {PAGES}")
    lines = page.locator("ol.lines li")
    outlines = page.locator(".sheet polygon")
    number = lines.count()
    assert number > 0
    expect(outlines).to_have_count(number)
    expect(lines.first).to_contain_text(re.compile(r"[\u0f40-\u0f6c].*\d+ %"))
    picture = page.locator(".sheet img")
    page.wait_for_function("image => image.complete && image.naturalWidth > 500", arg=picture.element_handle())
    page.evaluate("document.fonts.ready")
    assert page.evaluate("[...document.fonts].some(font => font.family.includes('Tibetan') && font.status === 'loaded')")

    outlines.nth(number - 1).click()
    expect(lines.nth(number - 1)).to_have_class("on")
    expect(page.locator(".sheet text").first).to_be_hidden()
    page.get_by_label("numbers").check()
    expect(page.locator(".sheet text")).to_have_text([str(line + 1) for line in range(number)])
    page.get_by_label("outlines").uncheck()
    page.keyboard.press("ArrowRight")
    # The keys belong to the box that has been ticked until something else is chosen.
    expect(page.locator("h1")).to_have_text(f"{SAMPLE}, page 1 of {PAGES}")
    page.get_by_label("outlines").blur()
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_have_text(f"{SAMPLE}, page 2 of {PAGES}")
    expect(page.get_by_label("numbers")).to_be_checked()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("h1")).to_have_text(f"{SAMPLE}, page 1 of {PAGES}")
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    page.get_by_label("Page", exact=True).select_option(str(PAGES - 1))
    expect(page.locator("h1")).to_have_text(f"{SAMPLE}, page {PAGES} of {PAGES}")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()


@pytest.mark.parametrize("scope", ["in this volume", "in the whole job"])
def test_a_text_is_found(visitor, site, scope):
    site.finish()
    text = site.ask(f"/jobs/{JOB}/volumes/{SAMPLE}/pages/3")["lines"][1]["text"][:12]
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/read/{JOB}/{SAMPLE}/1", f"page 1 of {PAGES}")
    page.keyboard.press("/")
    field = page.get_by_role("searchbox")
    expect(field).to_be_focused()
    field.fill(text)
    page.get_by_label("Where to look").select_option(label=scope)
    field.press("Enter")
    hit = page.get_by_role("link", name="page 3, line 2")
    marks = page.get_by_role("listitem").filter(has=hit).locator("mark")
    expect(marks.first).to_contain_text(text.rstrip("་། "))
    hit.click()
    expect(page.locator("h1")).to_have_text(f"{SAMPLE}, page 3 of {PAGES}")
    expect(page.locator("ol.lines li.on")).to_contain_text(text)


def test_all_jobs_are_searched_and_lines_are_shown_as_they_look(visitor, site):
    site.finish()
    text = site.ask(f"/jobs/{JOB}/volumes/{SAMPLE}/pages/3")["lines"][1]["text"][:12]
    someone = visitor()
    someone.sign_in()
    page = someone.open("/search", "Search")
    field = page.get_by_role("searchbox")
    expect(field).to_be_focused()
    field.fill(text)
    field.press("Enter")
    hit = page.get_by_role("link", name=f"{JOB}, {SAMPLE}, page 3, line 2")
    expect(hit).to_be_visible()
    line = page.get_by_role("listitem").filter(has=hit).locator("img").first
    line.scroll_into_view_if_needed()
    page.wait_for_function("image => image.complete && image.naturalWidth > 100", arg=line.element_handle())
    assert "q=" in page.url
    # The address is that of the search.
    page.reload()
    expect(hit).to_be_visible()
    field.fill("ཀཀཀཀ་ཁཁཁཁ")
    field.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Not found")).to_be_visible()


def test_what_was_read_is_taken_away(visitor, site):
    site.finish()
    image = site.ask(f"/jobs/{JOB}/volumes/{SAMPLE}/pages")["pages"][1]
    text = site.ask(f"/jobs/{JOB}/volumes/{SAMPLE}/pages/1")["lines"][0]["text"][:12]
    files = {
        "PAGE XML": (f"{image}.page.xml", b"<?xml"), "ALTO": (f"{image}.alto.xml", b"<?xml"), "hOCR": (f"{image}.hocr", b"<?xml"),
        "IIIF annotations": (f"{image}.annotations.json", b"{"), "Picture": (f"{image}.jpg", b"\xff\xd8"),
        "Text": ("txt", text.encode()), "JSON lines": ("jsonl", b"{"), "Parquet": ("ocr_results.parquet", b"PAR1"),
        "IIIF manifest": ("manifest.json", b"{"),
    }
    someone = visitor()
    someone.sign_in()
    page = someone.open(f"/read/{JOB}/{SAMPLE}/2", f"page 2 of {PAGES}")
    page.get_by_text("Download", exact=True).click()
    links = page.locator(".menu a")
    expect(links).to_have_text(list(files))
    for link in links.all():
        with page.expect_download() as download:
            link.click()
        name, begins = files[link.inner_text()]
        # None takes the place of another, of this volume or of the next one.
        assert download.value.suggested_filename == f"{SAMPLE}.{name}"
        content = download.value.path().read_bytes()
        assert content.startswith(begins), (name, content[:80])


def test_it_is_dark_where_all_is_dark(visitor):
    shades = {}
    for scheme in ("light", "dark"):
        page = visitor(color_scheme=scheme).sign_in()
        shades[scheme] = [page.evaluate(SHADE, colour) for colour in ("color", "backgroundColor")]
    (ink, ground), (light, dark) = shades["light"], shades["dark"]
    assert ground - ink > 0.7 and light - dark > 0.7, shades


# How light a colour of the page is, 0 to 1.
SHADE = """name => {
  const [red, green, blue] = getComputedStyle(document.documentElement)[name].match(/\\d+/g).map(Number);
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_bar_of_nothing_is_empty(visitor, site, scheme):
    site.finish()
    someone = visitor(color_scheme=scheme)
    someone.sign_in()
    colours = {}
    for job in (LIBRARY, JOB):
        page = someone.open(f"/jobs/{job}", job)
        bar = rows(page, "Progress").first.get_by_role("img")
        picture = Image.open(io.BytesIO(screenshot(bar))).convert("RGB")
        colours[job] = picture.getpixel((picture.width // 4, picture.height // 2))
    ground = tuple(int(part) for part in re.findall(r"\d+", page.evaluate("getComputedStyle(document.documentElement).backgroundColor")))
    # Nothing of the one has been done, and half of the other.
    assert colours[LIBRARY] == ground
    assert sum(abs(one - other) for one, other in zip(colours[JOB], ground)) > 100, colours


def test_on_a_phone_nothing_lies_beyond_the_edge(visitor, site):
    site.finish()
    someone = visitor(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    someone.sign_in()
    for path, heading in VIEWS:
        page = someone.open(path, heading)
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= 390, (path, wide)
        cut = page.evaluate("""[...document.querySelectorAll("main .scroll, main td")]
          .filter(element => element.scrollWidth > element.clientWidth + 1 || element.getBoundingClientRect().right > 390)
          .map(element => element.innerText)""")
        assert cut == [], (path, cut)
        # No more of a row than its words need, at some three words a line.
        tall = page.evaluate("""[...document.querySelectorAll("main tbody tr")]
          .filter(row => row.clientHeight > 30 * (2 + row.innerText.split(/\\s+/).length / 3 + row.innerText.length / 30))
          .map(row => [row.clientHeight, row.innerText])""")
        assert tall == [], (path, tall)
    page = someone.open(f"/jobs/{JOB}", JOB)
    expect(rows(page, "Volumes").filter(has_text=SAMPLE).get_by_role("link", name="read")).to_be_visible()
    # Found and measured in one go, as news of the job makes the view anew.
    edges = page.evaluate("""sample => {
      const rows = [...document.querySelectorAll("main tr")].filter(row => row.innerText.includes(sample));
      const link = rows.flatMap(row => [...row.querySelectorAll("a")]).find(link => link.innerText === "read");
      const { left, right } = link.getBoundingClientRect();
      return [left, right];
    }""", SAMPLE)
    assert 0 <= edges[0] < edges[1] <= 390, edges


def test_a_visit_of_every_view_is_small(visitor, site):
    site.finish()
    someone = visitor()
    taken = []
    someone.page.on("requestfinished", lambda request: taken.append(request))
    someone.sign_in()
    for path, heading in VIEWS:
        someone.open(path, heading)
    someone.page.evaluate("document.fonts.ready")
    sizes = {}
    for request in taken:
        if request.resource_type != "image":
            found = request.sizes()
            sizes[request.url] = sizes.get(request.url, 0) + found["responseBodySize"] + found["responseHeadersSize"]
    assert any(url.endswith(".woff2") for url in sizes), sizes
    total = sum(sizes.values())
    print(f"{total / 1024:.0f} KiB in {len(sizes)} files")
    assert total < MOST_BYTES, sorted(sizes.items(), key=lambda item: -item[1])[:10]
