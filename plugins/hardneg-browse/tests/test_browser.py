"""The page in a real browser: searched, opened, marked; hostile texts, other pages, accessibility."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import quote

import pytest
from chromium import chromium
from hardneg_browse.application import export_pages
from hardneg_browse.browsed import opened
from hardneg_browse.serving import listening
from hardneg_browse.sources import Marks
from material import QUERIES, small_sources

from hardneg.runtime import Silent

pytestmark = pytest.mark.slow

FIRST, SECOND, *_ = QUERIES
PATHS = [
    *("/", "/?words=nothing-like-this", "/suspicious", "/marks", "/query?q=none"),
    *(f"/query?q={quote(query_id, safe='')}" for query_id in (FIRST, SECOND, "שאלה")),
]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Debian's chromium without a window."""
    with chromium(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    sources = small_sources(tmp_path_factory.mktemp("served"))
    with opened(sources, Silent()) as found, listening(found, Marks(sources.marks)) as made, made.beside():
        yield made


@pytest.fixture
def page(driver, server):
    """The browser after it has entered; called with a path it goes there."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(server.address)
    WebDriverWait(driver, 120).until(lambda found: "Queries" in found.title)
    assert "token" not in driver.current_url
    origin = server.address.partition("/?")[0]
    return lambda path="/": driver.get(origin + path) or driver


def found(driver, selector):
    from selenium.webdriver.common.by import By

    return driver.find_elements(By.CSS_SELECTOR, selector)


def wait(driver, seen):
    """Waits until something is so, as a browser may go on before it says so."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 120, ignored_exceptions=(Exception,)).until(lambda _: seen())


def link(driver, text):
    from selenium.webdriver.common.by import By

    return driver.find_element(By.LINK_TEXT, text)


def test_a_reader_searches_opens_and_marks(page, server):
    browser = page()
    found(browser, "input[name=words]")[0].send_keys("folic")
    found(browser, ".search button")[0].click()
    wait(browser, lambda: "folic" in found(browser, "[role=status]")[0].text)
    assert [row.text.split()[:3] for row in found(browser, "tbody tr")] == [[FIRST, "folic", "acid"]]
    link(browser, QUERIES[FIRST]).click()
    wait(browser, lambda: found(browser, ".positive mark"))
    assert found(browser, "h1")[0].text == QUERIES[FIRST]
    assert [mark.text for mark in found(browser, ".positive mark")] == ["folic", "acid", "kidneys"]
    button = found(browser, ".card.negative button")[0]
    assert button.accessible_name == "Mark as relevant: copy"
    button.click()
    wait(browser, lambda: found(browser, ".card.marked"))
    assert server.marks.read_text() == f"{FIRST} 0 copy 1\n"
    assert found(browser, ".card.marked h3")[0].text.endswith("copy")
    assert "marked" in found(browser, "table")[0].text and "score too high" in found(browser, "table")[1].text
    found(browser, ".card.marked button")[0].click()
    wait(browser, lambda: found(browser, "h1") and not found(browser, ".card.marked"))
    assert server.marks.read_text() == "" and not found(browser, ".card.marked")


def test_the_keyboard_alone_is_enough(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser = page(f"/query?q={quote(SECOND, safe='')}")
    press = lambda *keys: ActionChains(browser).send_keys(*keys).perform()  # noqa: E731
    press(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to content"
    assert browser.switch_to.active_element.is_displayed()
    press(Keys.ENTER)
    names = []
    for _ in range(40):
        press(Keys.TAB)
        names.append(browser.switch_to.active_element.accessible_name)
    assert "Next query" in names and "Mark as relevant: d/1&x=<i>" in names
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize("path", PATHS)
def test_no_script_of_a_text_runs_and_nothing_is_fetched(page, path):
    browser = page(path)
    assert browser.execute_script("return window.harmed") is None
    assert browser.execute_script("return document.scripts.length") == 0
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in fetched if not name.startswith("data:")] == []
    assert [line["message"] for line in browser.get_log("browser") if "status of 404" not in line["message"]] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_serious(page, path, scheme):
    browser = page(path)
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    for summary in found(browser, "summary"):
        summary.click()
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 27)"}[scheme]
    check_accessible(browser)


def check_accessible(browser):
    browser.execute_script((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    told = browser.execute_async_script("axe.run().then(arguments[0], error => arguments[0]({error: String(error)}))")
    assert told.get("error") is None and "color-contrast" in [each["id"] for each in told["passes"]]
    serious = [found for found in told["violations"] if found["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in serious] == []


def test_exported_pages_are_read_from_files(driver, browsed, sources, tmp_path):
    driver.get_log("browser")
    export_pages(browsed, Marks(sources.marks), tmp_path)
    driver.get((tmp_path / "index.html").as_uri())
    check_accessible(driver)
    link(driver, QUERIES[FIRST]).click()
    wait(driver, lambda: found(driver, ".card.negative"))
    assert found(driver, ".card")[0].is_displayed() and not found(driver, "form")
    check_accessible(driver)
    link(driver, "Next query").click()
    wait(driver, lambda: "kidneys" in found(driver, "h1")[0].text)
    assert driver.execute_script("return window.harmed") is None
    link(driver, "Most suspicious").click()
    wait(driver, lambda: "suspicious" in found(driver, "h1")[0].text)
    assert [line["message"] for line in driver.get_log("browser")] == []


class Attack(BaseHTTPRequestHandler):
    """Another page on the same machine, which posts to the server as its script and as its form."""

    target = ""
    body = ""

    def do_GET(self):
        fields = "".join(
            f"<input name={name} value='{value}'>" for name, _, value in (part.partition("=") for part in self.fields())
        )
        text = f"""<!DOCTYPE html><title>attack</title><form method=post action='{self.target}/mark'>{fields}</form>
        <iframe src='{self.target}/'></iframe><script>
        window.tried = fetch('{self.target}/mark', {{method: 'POST', mode: 'no-cors', credentials: 'include',
          headers: {{'Content-Type': 'application/x-www-form-urlencoded'}}, body: '{self.body}'}})
          .then(() => fetch('{self.target}/', {{credentials: 'include'}})).then(r => r.text())
          .catch(e => 'refused');
        </script>"""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(text.encode())

    def fields(self):
        return self.body.split("&")

    def log_message(self, *told):
        pass


def test_another_page_can_neither_write_nor_read(page, server):
    """The reader has entered, and the other page even knows the form's token; the browser says where it comes from."""
    browser = page()
    body = f"token={server.access.writing}&q={quote(FIRST, safe='')}&d=far&relevant=1&list=mined&back=query"
    other = ThreadingHTTPServer(("127.0.0.1", 0), Attack)
    Attack.target, Attack.body = server.address.partition("/?")[0], body
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        for host, told in (("127.0.0.1", "the form came from another page"), ("localhost", "the token is missing")):
            browser.get(f"http://{host}:{other.server_port}/")
            assert browser.execute_async_script("window.tried.then(arguments[0])") == "refused"
            browser.execute_script("document.forms[0].submit()")
            wait(browser, lambda: browser.title == "Not shown")
            assert told in browser.page_source
            assert not server.marks.exists() or not server.marks.read_text()
    finally:
        other.shutdown()
        browser.get_log("browser")
