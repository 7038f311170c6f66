"""The report in a real browser: narrow and dark screens, paper, accessibility."""

from importlib.resources import files
from typing import Any

import pytest
from chromium import chromium

from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import compare_all
from hardneg.report.content import ReportContent
from hardneg.report.page import HEAD, write_report
from hardneg.report.query_section import Passages

pytestmark = pytest.mark.slow

LONG = "a system whose name goes on and on without " + "end" * 40


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The browser with the page of two systems and thirty queries."""
    folder = tmp_path_factory.mktemp("report")
    scores = {f"q{place}": place / 40 for place in range(HEAD + 10)}
    other = {query_id: value + (0.2 if value > 0.3 else -0.1) for query_id, value in scores.items()}
    results = {"start": {"mrr@10": scores}, LONG: {"mrr@10": other}}
    run = "".join(f"{query_id} Q0 passage-{query_id} 1 1.0 x\n" for query_id in scores)
    (folder / "start.trec").write_text(run)
    measured = Measured(results, compare_all(results, ["start"]))
    page = ReportContent.of("Two", measured)
    path = write_report(folder, page, measured, Passages({"start": folder / "start.trec"}))[1]
    with chromium(tmp_path_factory.mktemp("chromium")) as made:
        made.page = path.as_uri()
        yield made


def shown(driver: Any, width: int, scheme: str) -> Any:
    """The page on a screen so wide, of a colour scheme."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(driver.page)
    return driver


@pytest.mark.parametrize(("width", "scheme"), [(1180, "light"), (1180, "dark"), (320, "light")])
def test_it_has_no_serious_finding_and_is_no_wider_than_the_screen(driver: Any, width: int, scheme: str) -> None:
    page = shown(driver, width, scheme)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    figures = page.execute_script("return [...document.querySelectorAll('svg')].map((one) => one.clientWidth)")
    assert len(figures) == 2 and max(figures) <= width
    wide = "return [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert page.execute_script(wide) == 0 or width < 1000
    page.execute_script((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    told = page.execute_async_script("axe.run(document, {}).then(arguments[0])")
    assert len(told["passes"]) > 10
    assert [(one["id"], one["impact"]) for one in told["violations"]] == []
    assert [line for line in page.get_log("browser") if line["level"] == "SEVERE"] == []


def test_clicks_sort_the_queries(driver: Any) -> None:
    page = shown(driver, 1180, "light")
    first = "return document.querySelector('.sortable tbody th').textContent"
    click = "document.querySelector('.sortable thead button').click()"
    assert page.execute_script(click) or page.execute_script(first) == "q29"
    assert page.execute_script(click) or page.execute_script(first) == "q0"


def test_on_paper_all_that_opens_is_open_and_the_first_queries_are_there(driver: Any) -> None:
    page = shown(driver, 1180, "dark")
    closed = "return [...document.querySelectorAll('details table')].filter((one) => !one.checkVisibility()).length"
    leads = "return [...document.querySelectorAll('h2 + p')].map((one) => getComputedStyle(one).breakAfter)"
    assert page.execute_script(closed) == HEAD + 10
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert page.execute_script(closed) == 10
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.execute_script("return getComputedStyle(document.querySelector('.printed')).display") == "block"
    assert set(page.execute_script(leads)) == {"avoid"}, "no heading stands alone at the foot of a sheet"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
