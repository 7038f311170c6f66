"""Files are found by name, and told by what stands in their place; ids are words that print."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from hardneg.formats import text_lines
from hardneg.formats.qrels import read_qrels
from hardneg.formats.runs import read_run
from hardneg.formats.text_lines import checked_id, estimate_lines, find_file, read_chunks, read_lines
from hardneg.records.errors import DataError


def test_the_file_or_its_gzip(tmp_path):
    assert find_file(tmp_path, "a.txt") is None
    (tmp_path / "a.txt.gz").touch()
    assert find_file(tmp_path, "a.txt") == tmp_path / "a.txt.gz"
    (tmp_path / "a.txt").touch()
    assert find_file(tmp_path, "a.txt") == tmp_path / "a.txt"


def test_what_has_the_name_but_is_no_file(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file: a file, where a folder is expected"):
        find_file(tmp_path / "file", "corpus.jsonl")
    (tmp_path / "lost").symlink_to("elsewhere.txt")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "packed.gz").mkdir()
    told = {"folder": "a folder", "pipe": "a pipe", "null": "a device", "packed": "a folder"}
    for name, what in told.items():
        with pytest.raises(DataError, match=rf"{name}(\.gz)?: {what}.*, where a file is expected"):
            find_file(tmp_path, name)
    with pytest.raises(DataError, match=r"lost: a link to elsewhere\.txt, which leads nowhere"):
        find_file(tmp_path, "lost")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\nb\n".encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("query-id\n".encode("utf-16-le"), "UTF-16; save it as UTF-8"),
        ("a\nb\n".encode("utf-32"), "UTF-32; save it as UTF-8"),
        (bz2.compress(b"text"), "packed with bzip2; unpack it"),
        (lzma.compress(b"text"), "packed with xz; unpack it"),
        (b"PK\x03\x04\x14\0", "a zip archive; unpack it"),
        (b"<!DOCTYPE html>\n<html>", "a web page; fetch the file again"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS; fetch the file itself"),
    ],
)
def test_files_of_other_kinds(tmp_path, content, told):
    for packed in (content, gzip.compress(content)):
        (tmp_path / "a").write_bytes(packed)
        for read in (read_lines, read_chunks):
            with pytest.raises(DataError, match=rf"a: not a text file but {told}"):
                list(read(tmp_path / "a"))  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "a", "PAR1\tx\n", "BZh\tx\n", "<top>\n", "\ufeffid\tx\n", "版本\n", "a\0b\n"])
def test_short_and_strange_texts_are_texts(tmp_path, text):
    (tmp_path / "a").write_text(text)
    assert "".join(read_chunks(tmp_path / "a")) == text.removeprefix("\ufeff")


@pytest.mark.parametrize("name", ["d1", "ü-7", "a\xadb", "a\u3000b", "a\u00a0b", "क्‍ष", "文"])
def test_ids(name):
    assert checked_id("f", 1, name) == name


@pytest.mark.parametrize(
    "name", ["", "a b", "a\tb", "a\u2028b", "a\0", "\x1b[31m", "a\x7f", "a\x85", "a\x9b", "\ufeffq1"]
)
def test_no_ids(name):
    with pytest.raises(DataError, match=r"^f:7: id .* is empty or holds white space or control characters$"):
        checked_id("f", 7, name)


def test_a_pipe_is_read_once(tmp_path):
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n")
    os.close(write)
    assert list(read_lines(Path(f"/dev/fd/{read}"))) == [(1, "one"), (2, "two")]
    os.close(read)


@pytest.mark.parametrize("read", [read_lines, read_chunks, estimate_lines, read_run, read_qrels])
def test_a_device_is_no_file(read):
    with pytest.raises(DataError, match=r"^/dev/zero: a device, where a file is expected$"):
        list(read(Path("/dev/zero")))


def test_a_line_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST_LINE", 8)
    (tmp_path / "a").write_text("12345678\n123456789\n")
    with pytest.raises(DataError, match=r"a:2: a line of over 8 bytes"):
        list(read_lines(tmp_path / "a"))
