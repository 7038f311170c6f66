"""The server over real sockets: who may read, who may write, and that no text on a page does harm."""

import asyncio
import http.client
import re
import socket
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest
from hardneg_browse.application import FORM_BYTES, export_pages
from hardneg_browse.browsed import opened
from hardneg_browse.serving import listening
from hardneg_browse.sources import BrowseSources, Marks
from material import QUERIES, falling, negatives, small_sources

from hardneg.formats.collection import write_collection
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import Document, Judgement, Query, UsageError
from hardneg.runtime import Silent

FIRST, SECOND, *_ = QUERIES
PAGES = [
    *("/", "/?words=kidneys", "/suspicious", "/marks"),
    *(f"/query?q={quote(query_id, safe='')}" for query_id in QUERIES),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    sources = small_sources(tmp_path_factory.mktemp("served"))
    with opened(sources, Silent()) as found, listening(found, Marks(sources.marks)) as made, made.beside():
        yield made


def ask(server, path, method="GET", cookie=True, body=None, **headers):
    """Status, headers and text of an answer; the host, the cookie and the origin are right unless given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.access.port, timeout=60)
    sent = {"Host": f"127.0.0.1:{server.access.port}"}
    if cookie:
        sent["Cookie"] = f"hardneg-{server.access.port}={server.access.token}"
    if method == "POST":
        sent["Origin"] = f"http://127.0.0.1:{server.access.port}"
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def form(server, query_id=FIRST, doc_id="far", **changed):
    fields = {"token": server.access.writing, "q": quote(query_id, safe=""), "d": quote(doc_id, safe="")}
    return urlencode({**fields, "relevant": "1", "list": "mined", "back": "query", **changed})


def test_the_address_with_its_token_lets_a_reader_in_and_is_kept_in_a_cookie(server):
    path = server.address.partition(str(server.access.port))[2]
    status, headers, text = ask(server, path, cookie=False)
    cookie = headers["set-cookie"]
    assert status == 200 and 'content="0; url=/"' in text and server.access.token not in text
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert ask(server, "/", cookie=False, Cookie=f"other=1; {cookie.partition(';')[0]}")[0] == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"cookie": False}),
        ("/?token=", {"cookie": False}),
        ("/?token=wrong", {"cookie": False}),
        ("/query?q=1", {"cookie": False, "Cookie": "hardneg-1=x; ;;=;"}),
        ("/", {"Host": "evil.example"}),
        ("/", {"Host": "127.0.0.1"}),
        ("/", {"Host": "127.0.0.1.evil.example"}),
        ("/", {"method": "PUT"}),
        ("/", {"method": "OPTIONS", "Origin": "http://evil.example"}),
    ],
)
def test_nobody_else_reads(server, path, headers):
    status, _, text = ask(server, path, **headers)
    assert status in (400, 403) and "kidneys" not in text


def test_it_listens_on_this_machine_alone(server):
    assert server._socket.getsockname()[0] == "127.0.0.1"
    others = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        with pytest.raises(OSError), socket.create_connection((address, server.access.port), timeout=5):
            pass


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example"},
        {"cookie": False},
    ],
)
def test_another_page_cannot_write(server, changed):
    status, _, _ = ask(server, "/mark", "POST", body=form(server), **changed)
    assert status == 403 and not server.marks.exists()


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"token": ""}, 403),
        ({"token": "wrong"}, 403),
        ({"q": "none"}, 404),
        ({"d": "none"}, 404),
        ({"d": ""}, 404),
        ({"more": "x" * FORM_BYTES}, 403),
        ({f"more{n}": "x" for n in range(20)}, 403),
    ],
)
def test_a_form_that_is_not_the_pages_own_writes_nothing(server, changed, status):
    assert ask(server, "/mark", "POST", body=form(server, **changed))[0] == status
    assert ask(server, "/mark", "POST", body=b"\xff\xfe%%%&&=")[0] == 403
    assert ask(server, "/mark?" + form(server))[0] == 405
    assert not server.marks.exists()


@pytest.mark.parametrize(("query_id", "doc_id"), [(FIRST, "far"), (SECOND, "d/1&x=<i>"), ("שאלה", "דג")])
def test_a_mark_is_written_and_taken_away(server, query_id, doc_id):
    status, headers, _ = ask(server, "/mark", "POST", body=form(server, query_id, doc_id))
    assert status == 303 and headers["location"].startswith("/query?q=")
    assert server.marks.read_text() == f"{query_id} 0 {doc_id} 1\n"
    assert "Remove mark" in ask(server, headers["location"].partition("#")[0])[2]
    assert "1 mark." in ask(server, "/marks")[2]
    taken = form(server, query_id, doc_id, relevant="0", back="marks")
    assert ask(server, "/mark", "POST", body=taken)[1]["location"] == "/marks"
    assert server.marks.read_text() == ""
    server.marks.unlink()


class Seen(HTMLParser):
    """What a browser would make of a page: elements, attributes that run, and all text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.handlers, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, value in attrs if name.startswith("on") or name == "style"]
        self.handlers += [value for name, value in attrs if value and value.strip().lower().startswith("javascript:")]

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("path", PAGES)
def test_no_text_on_a_page_does_harm(server, path):
    status, headers, text = ask(server, path)
    assert status == 200
    check_harmless(text)
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"
    assert len(text) < 100_000


def check_harmless(text):
    seen = Seen(text)
    assert not {"script", "iframe", "object", "embed", "base"} & set(seen.tags) and "img" not in seen.tags
    assert not seen.handlers
    assert seen.tags.count("style") == seen.tags.count("title") == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_a_query_that_is_not_there_is_told(server):
    status, _, text = ask(server, "/query?q=%00%ff<script>")
    assert status == 404 and "there is no such query" in text
    assert ask(server, "/nothing")[0] == 404


def test_an_odd_number_in_a_form_is_read_as_1(server):
    for number in ("9" * 5000, "²", "-1"):
        asked = form(server, relevant="0", page=number)
        assert ask(server, "/mark", "POST", body=asked)[1]["location"].endswith("#negative-1")
        assert ask(server, f"/?list=none&page={quote(number)}", Host=f"localhost:{server.access.port}")[0] == 200
    server.marks.unlink()


def test_exported_pages_need_no_server_and_link_each_other(browsed, sources, tmp_path):
    """Four of five queries have negatives; two lists: a page of queries, four of them, and a suspicious page each."""
    assert export_pages(browsed, Marks(sources.marks), tmp_path) == 4
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert len(pages) == 2 * (1 + 4 + 1) and "score too high" in pages["query-1-1.html"]
    for text in pages.values():
        check_harmless(text)
        assert "form" not in Seen(text).tags and "default-src 'none'; style-src 'sha256-" in unescape(text)
        links = set(re.findall(r'href="([^"]*)"', text)) - {"#main", "data:,"}
        assert links and links <= set(pages)
    assert export_pages(browsed, Marks(sources.marks), tmp_path, 2) == 2
    assert "2 of 5 queries are shown" in (tmp_path / "index.html").read_text()


def test_a_port_that_is_taken_is_one_line(server, browsed, sources):
    taken = listening(browsed, Marks(sources.marks), server.access.port)
    with pytest.raises(UsageError, match=f"port {server.access.port}: cannot be used"), taken:
        pass


def test_a_reader_who_leaves_within_a_form_is_no_error(server):
    port = server.access.port
    host = f"127.0.0.1:{port}"
    headers = {"host": host, "origin": f"http://{host}", "cookie": f"hardneg-{port}={server.access.token}"}
    headers["content-type"] = "application/x-www-form-urlencoded"
    scope = {"type": "http", "method": "POST", "path": "/mark", "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    events = iter([{"type": "http.request", "body": b"token=", "more_body": True}, {"type": "http.disconnect"}])
    sent = []

    async def receive():
        return next(events)

    async def send(message):
        sent.append(message)

    asyncio.run(server._server.config.app(scope, receive, send))
    assert sent[0]["status"] == 403 and not list(events)


NAMES = [f"pandas.core.number_{i}" for i in range(45)]
SPLITS = {"train": {"q1": "old river"}, "test": {"kwarg_error": "raise a TypeError"}}


class TwoSplits:
    def documents(self):
        texts = {"p1": "the old river was seen again today", **{name: f"passage {name}" for name in NAMES}}
        return (Document(doc_id, text) for doc_id, text in texts.items())

    def splits(self):
        return list(SPLITS)

    def queries(self, split):
        return (Query(*pair) for pair in SPLITS[split].items())

    def qrels(self, split):
        return (Judgement(query_id, "p1", 1) for query_id in SPLITS[split])

    def notes(self):
        return []


@pytest.fixture(scope="module")
def long_lists(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    write_collection(TwoSplits(), folder / "collection", Silent())
    write_negatives(folder / "mined.arrow", recorded(negatives({"q1": NAMES}), {}))
    for label in ("dense", "bm25"):
        write_run(folder / f"{label}.trec", [("q1", falling([*NAMES[:3], "p1"]))])
    runs = {label: folder / f"{label}.trec" for label in ("dense", "bm25")}
    parts = {"negatives": {"mined": folder / "mined.arrow"}, "runs": runs, "dataset": folder / "collection"}
    sources = BrowseSources("views", folder / "marks.qrels", **parts)
    with opened(sources, Silent()) as found, listening(found, Marks(sources.marks)) as made, made.beside():
        yield made


def test_twenty_negatives_are_shown_and_the_others_open_in_twenties(long_lists):
    text = ask(long_lists, "/query?q=q1")[2]
    before, *more = re.split(r'<details class="more"><summary>', text)
    assert before.count('class="card negative') == 20
    assert [part.partition("</summary>")[0] for part in more] == ["Negatives 21 to 40", "Negatives 41 to 45"]
    assert [part.count('class="card negative') for part in more] == [20, 5]
    assert 'id="negative-45"' in more[1] and '<ol class="cards" start="41">' in more[1]


def test_a_suspicious_negative_has_its_positive_beside_it(long_lists):
    for _ in range(200):
        text = ask(long_lists, "/suspicious")[2]
        if "were examined" in text:
            break
    assert "the old river was seen again today" in text and text.index("Positive <bdi>p1") < text.index("ranks it at 1")
