"""Files are found by name, and told by what stands in their place; ids are words that print."""

import gzip
import os
from pathlib import Path

import pytest

from hardneg.datasets.document_files import read_file
from hardneg.formats.text_lines import checked_id, find_file, id_field, read_array, read_bytes, read_lines
from hardneg.records import DataError


def test_the_file_or_its_gzip(tmp_path):
    assert find_file(tmp_path, "a.txt") is None
    (tmp_path / "a.txt.gz").touch()
    assert find_file(tmp_path, "a.txt") == tmp_path / "a.txt.gz"
    (tmp_path / "a.txt").touch()
    assert find_file(tmp_path, "a.txt") == tmp_path / "a.txt"


def test_what_has_the_name_but_is_no_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file: expected a folder, found a file"):
        find_file(tmp_path / "file", "corpus.jsonl")
    with pytest.raises(DataError, match=r"folder: not a file"):
        find_file(tmp_path, "folder")


@pytest.mark.parametrize("text", ["", "a", "PAR1\tx\n", "BZh\tx\n", "<top>\n", "\ufeffid\tx\n", "版本\n", "a\0b\n"])
def test_short_and_strange_texts_are_texts(tmp_path, text):
    (tmp_path / "a").write_text(text)
    assert b"".join(read_bytes(tmp_path / "a")).decode() == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("content", "told"), [(b"PK\x03\x04a\0", "unpack it"), (b"version https://git-lfs", "pull`"), (b"<HTML>", "page")]
)
def test_what_only_looks_like_text(tmp_path, content, told):
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    for read, name in ((read_lines, "a.txt"), (read_bytes, "a.gz"), (read_lines, "a.gz")):
        with pytest.raises(DataError, match=f"{name}: expected a text file, found .*{told}"):
            list(read(tmp_path / name))
    ((_, document),) = read_file(tmp_path / "a.txt")
    assert isinstance(document, DataError) == (told != "page")


def test_what_is_no_text(tmp_path):
    (tmp_path / "a").write_bytes("a\nb\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"a:1: not UTF-8 \(.*\); save it as uncompressed UTF-8 text"):
        list(read_lines(tmp_path / "a"))


@pytest.mark.parametrize("name", ["d1", "ü-7", "a\xadb", "a\u3000b", "a\u00a0b", "क्‍ष", "文"])
def test_ids(name):
    assert checked_id("f", 1, name) == name


@pytest.mark.parametrize(
    "name", ["", "a b", "a\tb", "a\u2028b", "a\0", "\x1b[31m", "a\x7f", "a\x85", "a\x9b", "\ufeffq1"]
)
def test_no_ids(name):
    with pytest.raises(DataError, match=r"^f:7: id .* is empty or contains white space or control characters$"):
        checked_id("f", 7, name)


def test_a_pipe_is_read_once(tmp_path):
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n")
    os.close(write)
    assert list(read_lines(Path(f"/dev/fd/{read}"))) == [(1, "one"), (2, "two")]
    os.close(read)


def test_numbers_of_objects(tmp_path):
    path = tmp_path / "rows.json.gz"
    path.write_bytes(gzip.compress(b'\n[\n {"a": 1.5},\n {"a":\n ["\xc3\xbc"]}\n]\n'))
    assert list(read_array(path)) == [(1, {"a": 1.5}), (2, {"a": ["ü"]})]
    path.write_bytes(b"\xef\xbb\xbf [ ] ")
    assert list(read_array(path)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "rows.json: not a JSON array"),
        (b'{"a": 1}', "rows.json: not a JSON array"),
        (b'[\n{"a": 1},\n{"a": "b', "rows.json: not JSON after object 1 (parse error: premature EOF); download"),
        (b'[{"a": 1}\n{"a": 2}]', "rows.json: not JSON after object 1 (parse error: after array element"),
        (b'[{"a": 1}, 2]', "rows.json:2: expected a JSON object"),
        (b'[{"a": 1}]\n[]', "rows.json: not JSON after object 1 (parse error: trailing garbage"),
        (gzip.compress(b'[{"a": 1}]' * 99, mtime=0)[:-9], "rows.json: cannot be read after object 0 (Compressed file"),
    ],
)
def test_mistakes(tmp_path, text, message):
    (tmp_path / "rows.json").write_bytes(text)
    with pytest.raises(DataError) as raised:
        list(read_array(tmp_path / "rows.json"))
    assert message in str(raised.value)


def test_whole_numbers_are_ids(tmp_path):
    assert id_field(tmp_path, 1, {"id": 7}, "docid", "id") == "7"
    with pytest.raises(DataError, match="id 'a b' is empty or contains white space"):
        id_field(tmp_path, 1, {"id": "a b"}, "docid", "id")
    with pytest.raises(DataError, match="missing field 'docid'"):
        id_field(tmp_path, 1, {}, "docid", "id")
