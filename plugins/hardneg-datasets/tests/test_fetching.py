"""Tests of downloads with pooch from a local server: complete, resumed, or discarded."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hardneg_datasets.fetching import Download, fetch, find_published, published
from hardneg_datasets.msmarco import MsMarcoPassage
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.formats.text_lines import read_lines
from hardneg.records import DataError, UsageError
from hardneg.registry import list_plugins
from hardneg.runtime import Silent


class Server:
    """A server of files by path. cut: number of bytes after which a response stops. ranges: whether it can resume."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[str] = []
        self.address = ""


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_GET(self) -> None:
            served.asked.append(self.headers.get("Range", "all"))
            data = served.files.get(self.path)
            if data is None:
                self.send_error(404)
                return
            first = int(self.headers["Range"][6:-1]) if served.ranges and "Range" in self.headers else 0
            if first >= len(data) > 0 and first:
                self.send_error(416)
                return
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(data) - first))
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
            self.end_headers()
            self.wfile.write(data[first : served.cut])

    http = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    served.address = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield served
    http.shutdown()
    http.server_close()
    thread.join()


def told(server: Server, name: str, data: bytes, **options: Any) -> Download:
    server.files[f"/{name}"] = data
    md5 = hashlib.md5(data).hexdigest()
    return Download(**{"url": f"{server.address}/{name}", "name": name, "size": len(data), "md5": md5, **options})


def test_a_file_is_brought_once(server, tmp_path):
    file = told(server, "a.tsv", b"1\told water\n" * 100)
    assert fetch(file, tmp_path, Silent())
    assert (tmp_path / "a.tsv").read_bytes() == server.files["/a.tsv"]
    assert not fetch(file, tmp_path, Silent()) and server.asked == ["all"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


@pytest.mark.parametrize("ranges", [True, False])
def test_it_goes_on_where_it_stopped(server, tmp_path, monkeypatch, ranges):
    """Without range requests, the file is downloaded again, because the digest of the joined parts is wrong."""
    file = told(server, "a.tsv", bytes(range(256)) * 1024)
    server.cut = 200_000
    monkeypatch.setattr("hardneg_datasets.fetching._RETRIES", 0)
    with pytest.raises(DataError, match=r"bytes read.*; run the same command to resume"):
        fetch(file, tmp_path, Silent())
    assert not (tmp_path / "a.tsv").exists()
    server.cut, server.ranges = None, ranges
    monkeypatch.setattr("hardneg_datasets.fetching._RETRIES", 1)
    assert fetch(file, tmp_path, Silent())
    assert (tmp_path / "a.tsv").read_bytes() == server.files["/a.tsv"]
    assert server.asked == ["all", "bytes=196608-", "all"][: 3 - ranges]


def test_a_file_that_is_whole_but_was_not_renamed_is_taken(server, tmp_path):
    for name, known in (("a", {}), ("b", {"size": 0})):
        file = told(server, name, b"x" * 10, **known)
        (tmp_path / f"{name}.partial").write_bytes(b"x" * 10)
        assert fetch(file, tmp_path, Silent()) and (tmp_path / name).read_bytes() == b"x" * 10


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"md5": "0" * 32}, "hash of downloaded file .* does not match the known hash: expected md5:0000"),
        ({"md5": "", "lines": 3}, "expected 3 lines, found 2"),
    ],
)
def test_another_file_is_not_taken(server, tmp_path, monkeypatch, options, reason):
    monkeypatch.setattr("hardneg_datasets.fetching._RETRIES", 0)
    file = told(server, "a.tsv", b"1234\n5678\n", **options)
    with pytest.raises(DataError, match=reason):
        fetch(file, tmp_path, Silent())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("url", "reason"), [("{}/none", "404"), ("http://127.0.0.1:9/a", "refused")])
def test_what_cannot_be_reached_is_told_in_a_line(server, tmp_path, monkeypatch, url, reason):
    monkeypatch.setattr("hardneg_datasets.fetching._RETRIES", 0)
    with pytest.raises(DataError, match=reason) as error:
        fetch(Download(url.format(server.address), "a", 5), tmp_path, Silent())
    assert "\n" not in str(error.value) and not (tmp_path / "a").exists()


def archive(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


def test_an_archive_is_unpacked_and_stays(server, tmp_path):
    data = archive({"./collection.tsv": b"1\tx\n", "sub/queries.tsv": b"2\ty\n", "not asked for": b""})
    file = told(server, "all.tar.gz", data, members=("collection.tsv", "queries.tsv"))
    assert fetch(file, tmp_path, Silent()) and not fetch(file, tmp_path, Silent())
    there = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert there == {"collection.tsv": b"1\tx\n", "queries.tsv": b"2\ty\n", "all.tar.gz": data}
    (tmp_path / "collection.tsv").write_bytes(b"")
    assert fetch(file, tmp_path, Silent()) and (tmp_path / "collection.tsv").read_bytes() == b"1\tx\n"


def test_nothing_of_an_archive_leaves_the_folder(server, tmp_path):
    inside = tmp_path / "data"
    data = archive({"../../../evil.tsv": b"x", "/evil2.tsv": b"y"}, {"link.tsv": "/etc/passwd"})
    assert fetch(told(server, "a.tar.gz", data, members=("evil.tsv", "evil2.tsv")), inside, Silent())
    assert {path.name for path in tmp_path.rglob("*.tsv")} == {path.name for path in inside.glob("*.tsv")}
    with pytest.raises(DataError, match=r"b\.tar\.gz: does not contain link\.tsv"):
        fetch(told(server, "b.tar.gz", data, members=("link.tsv",)), inside, Silent())
    broken = told(server, "c.tar.gz", b"no archive", members=("x",))
    with pytest.raises(DataError, match="cannot be extracted") as error:
        fetch(broken, inside, Silent())
    assert "\n" not in str(error.value)
    half = archive({"x": bytes(hashlib.shake_256(b"").digest(50_000))})[:25_000]
    with pytest.raises(DataError, match=r"cannot be extracted \(Compressed file ended"):
        fetch(told(server, "d.tar.gz", half, members=("x",)), inside, Silent())


def test_the_command_ends_in_a_dataset_that_opens(server, tmp_path, monkeypatch):
    judged = {"qrels.train.tsv": b"1 0 7 1\n", "queries.train.tsv": b"1\twater\n", "collection.tsv": b"7\told water\n"}
    files = [
        told(server, "all.tar.gz", archive(judged), members=tuple(judged)),
        told(server, "queries.test2019.tsv.gz", gzip.compress(b"2\triver\n")),
        told(server, "qrels.test2019.tsv", b"2 Q0 7 3\n"),
    ]
    rows = [{**vars(file), "members": list(file.members)} for file in files]
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"small": {"loader": "msmarco", "terms": "none", "files": rows}}))
    monkeypatch.setattr("hardneg_datasets.fetching._TABLE", table)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["data", "fetch", "small"])
    assert done.exception is None, done.exception
    assert (done.exit_code, done.stdout) == (0, "--dataset msmarco:data/small\n")
    collection = MsMarcoPassage("data/small").load()
    assert list(collection.splits()) == ["train", "test2019"]
    assert [item.relevance for item in collection.qrels("test2019")] == [3]
    assert [line for _, line in read_lines(tmp_path / "data" / "small" / "collection.tsv")] == ["7\told water"]


def test_the_packaged_table_is_whole():
    loaders = {plugin.name for plugin in list_plugins("datasets")}
    for name, dataset in published().items():
        assert dataset.loader in loaders and dataset.terms, name
        for file in dataset.files:
            assert file.url.startswith("https://") and file.bytes and (file.md5 or file.lines)
            assert len(file.md5) in (0, 32) and "/" not in file.name
            assert not any("/" in member for member in file.members)
    with pytest.raises(UsageError, match="unknown dataset 'msmarco-pasage'; did you mean 'msmarco-passage'"):
        find_published("msmarco-pasage")
