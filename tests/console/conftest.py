"""One cluster and one browser for all tests, which tell one story in the order of the files."""

import pytest
from playwright.sync_api import sync_playwright

from cluster import SAMPLE
from correcting import JOB, Proofs
from story import CHROMIUM, Site, Visitor


@pytest.fixture(scope="session")
def site():
    with Site() as site:
        yield site


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visitor(site, browser):
    """Makes visitors with options of Playwright; in the end nothing may have gone wrong for any of them."""
    visitors = []

    def visit(**options):
        visitors.append(Visitor(browser, site, **options))
        return visitors[-1]

    yield visit
    wrong = [problem for visitor in visitors for problem in visitor.wrong]
    for visitor in visitors:
        visitor.close()
    assert not wrong, wrong


@pytest.fixture(scope="module")
def proofs():
    with Proofs() as proofs:
        yield proofs


@pytest.fixture
def opened(browser, proofs):
    """Opens pages for people. In the end nothing may have gone wrong for any of them but what a test expects, which the browser itself notes."""
    visitors, expected = [], []

    def open_page(name, number, expecting=(), **options):
        someone = Visitor(browser, proofs, **options)
        visitors.append(someone)
        expected.extend(expecting)
        someone.sign_in(proofs.tokens[name])
        return someone.open(f"/read/{JOB}/{SAMPLE}/{number}", f"page {number} of")

    yield open_page
    wrong = [problem for visitor in visitors for problem in visitor.wrong]
    for visitor in visitors:
        visitor.close()
    unexpected = [problem for problem in wrong if not any(sign in problem for sign in expected)]
    assert not unexpected, unexpected
