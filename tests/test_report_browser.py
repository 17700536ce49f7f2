"""The page in a browser: it loads without a complaint, asks for nothing, sorts, and fits a phone."""

from datetime import UTC, datetime

import pytest
import report_root
from browser import Browser

from annulus.report.content import gather
from annulus.report.page import html

HOSTILE = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
NOW = datetime(2026, 11, 21, tzinfo=UTC)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    return Browser(tmp_path_factory.mktemp("browser"))


def page_of(root):
    page = root / "index.html"
    page.write_text(html(gather(root, NOW)))
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    report_root.everything(root, ("disc", HOSTILE, "star"), HOSTILE)
    return page_of(root)


def test_this_browser_would_tell_of_an_error_and_of_a_request(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text('<script>console.error("boom")</script><img src="http://127.0.0.1:9/x.png">')
    loaded = browser.load(bad)
    assert "boom" in loaded.console[0]
    assert loaded.requests == ["http://127.0.0.1:9/x.png"]


def test_the_page_full_or_empty_loads_in_silence_and_asks_for_nothing(browser, page, tmp_path):
    for each in (page, page_of(tmp_path)):
        loaded = browser.load(each)
        assert "<title>annulus: papers beside results</title>" in loaded.dom, "a hostile name is text"
        assert loaded.console == []  # a script that the policy stopped would be told here
        assert loaded.requests == []


# What each script says of the page; all of them run in one frame.
SCRIPTS = """
const numbersOf = (row, place) => row.cells[place].textContent.trim();
const sorted = (table, place) => {
  const heading = table.tHead.rows[table.tHead.rows.length - 1].cells[place];
  const now = () => [heading.getAttribute('aria-sort'), [...table.tBodies[0].rows].map((row) => numbersOf(row, place))];
  const click = () => { heading.querySelector('button').click(); return now(); };
  return [now(), click(), click()];
};
const captioned = (words) => [...page.querySelectorAll('table.sorts')].find(
  (table) => table.caption && table.caption.textContent.includes(words));
const notRun = () => {
  const table = page.querySelector('#table-ring\\\\.table1a table'), head = table.tHead;
  const cells = [...head.rows[head.rows.length - 1].cells];
  return sorted(table, cells.findIndex((cell) => cell.textContent.startsWith('here')));
};
const filtered = () => {
  const rows = () => [...page.querySelectorAll('#claims tr[data-verdict]')].filter((row) => row.offsetParent !== null);
  const all = rows().length, button = page.querySelector('#claims .tools button[data-verdict="not run"]');
  button.click();
  const chosen = rows().map((row) => row.dataset.verdict), pressed = button.getAttribute('aria-pressed');
  page.querySelector('#claims .tools button').click();
  const words = page.querySelector('#claims .tools input');
  words.value = 'eqco.table9';
  words.dispatchEvent(new view.Event('input'));
  return [all, chosen, pressed, rows().map((row) => row.textContent.includes('eqco.table9'))];
};
const linked = () => {
  const closed = page.querySelector('#tables details:not([open])'), before = closed.open;
  view.location.hash = '#' + closed.id;
  view.dispatchEvent(new view.Event('hashchange'));
  return [before, closed.open];
};
const reachable = (all) => [...page.querySelectorAll(all)].every((one) => one.tabIndex >= 0);
const width = (pixels) => {
  document.querySelector('iframe').style.width = pixels + 'px';
  for (const each of page.querySelectorAll('details')) each.open = true;
  return [view.innerWidth, page.documentElement.scrollWidth];
};
const overlaps = (pixels) => {
  width(pixels);
  const words = page.querySelector('#claims .tools input');
  words.value = '';
  words.dispatchEvent(new view.Event('input'));
  const cells = [...page.querySelectorAll('th, td, figcaption, .tile')];
  const over = (cell) => {
    const content = page.createRange();
    content.selectNodeContents(cell);
    return content.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
  };
  return cells.filter((cell) => cell.offsetParent && over(cell)).map((cell) => cell.textContent.trim());
};
const first = (all) => page.querySelector(all).getBoundingClientRect();
answer({
  figure: [first('svg').top, first('svg').bottom > 0],
  numbers: sorted(captioned('Headline'), 1), text: sorted(captioned('Confusion'), 0), notRun: notRun(),
  filtered: filtered(), linked: linked(),
  keyboard: [reachable('th button'), page.querySelectorAll('th button').length > 20, reachable('.box'), reachable('a')],
  widths: [390, 768, 1280].map(width), overlaps: [390, 1280].map(overlaps),
});
"""


@pytest.fixture(scope="module")
def said(browser, page):
    return browser.answer(page, SCRIPTS)


def test_a_click_sorts_numbers_by_value_text_as_text_and_what_was_not_run_to_the_end(said):
    (start, unsorted), up, down = said["numbers"]
    assert start == "none"
    assert sorted(unsorted) == sorted(["0.2966", "39.70", "8"])
    assert up == ["ascending", ["0.2966", "8", "39.70"]]
    assert down == ["descending", ["39.70", "8", "0.2966"]]
    _, up, down = said["text"]
    assert up == ["ascending", [HOSTILE, "disc", "star"]]
    assert down == ["descending", ["star", "disc", HOSTILE]]
    _, (_, up), (_, down) = said["notRun"]
    ran = ["22.9 ± 1.2", "23.6 ± 1.2"]
    assert (up, down) == ([*ran, *["not run"] * 5], [*ran[::-1], *["not run"] * 5])


def test_claims_are_filtered_by_verdict_and_by_words(said):
    everything, chosen, pressed, found = said["filtered"]
    assert everything > len(chosen) > 0
    assert set(chosen) == {"not run"}
    assert pressed == "true"
    assert 0 < len(found) < everything
    assert all(found)


def test_links_open_tables_keys_reach_all_that_can_be_clicked_and_all_fits_the_screen(said):
    assert said["linked"] == [False, True]
    assert said["keyboard"] == [True] * 4
    assert said["widths"] == [[width, width] for width in (390, 768, 1280)]
    assert said["overlaps"] == [[], []], "no cell runs into the next"
    top, drawn = said["figure"]
    assert drawn
    assert 0 < top < 700, "the first screen of 900 shows a figure of results"
