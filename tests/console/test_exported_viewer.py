"""The exported viewer, opened from a disk: with its pictures inside, and with them in a folder beside it."""

import os
import subprocess

import pytest
from playwright.sync_api import expect

from cluster import ROOT, SAMPLE

LOADED = "image => image.complete && image.naturalWidth > 0"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Output folder of the sample."""
    out = tmp_path_factory.mktemp("results")
    node = os.environ["NODE_BINARY"]
    subprocess.run([node, "ocr", ROOT / "tests/fixtures/sample", "--out", out, "--export", "text"], check=True, capture_output=True)
    return out


@pytest.mark.parametrize("largest", ["32MiB", "100KiB"], ids=["inside", "beside"])
def test_every_page_shows_its_scan_and_its_text(results, browser, tmp_path, largest):
    node = os.environ["NODE_BINARY"]
    # A space and a sign of fragments, as folders of people have.
    target = tmp_path / "my export #1"
    subprocess.run([node, "export", results, "--format", "html,text", "--to", target, "--inline-pictures", largest], check=True, capture_output=True)
    beside = target / "html" / SAMPLE
    assert beside.exists() == (largest == "100KiB")
    page = browser.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.goto((target / "html" / f"{SAMPLE}.html").as_uri())
    texts = sorted((target / "text" / SAMPLE).iterdir())
    assert len(texts) == 6
    for number, text in enumerate(texts, 1):
        expect(page.locator("#pages option:checked")).to_contain_text(f"{number} / 6")
        image = page.locator("#scan img")
        page.wait_for_function(LOADED, arg=image.element_handle())
        assert image.get_attribute("src").startswith("data:") != beside.exists()
        assert page.locator("#text .line").all_text_contents() == text.read_text().splitlines()
        page.keyboard.press("ArrowRight")
    page.close()
    assert not wrong, wrong
