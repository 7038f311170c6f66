"""Files are found by name, and told by what stands in their place; ids are words that print."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from hardneg.formats.text_lines import checked_id, find_file, read_chunks, read_lines
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
    with pytest.raises(DataError, match="file: a file, where a folder is expected"):
        find_file(tmp_path / "file", "corpus.jsonl")
    with pytest.raises(DataError, match=r"folder: is there, but is no file"):
        find_file(tmp_path, "folder")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\nb\n".encode("utf-16"), "UTF-16 or UTF-32; save it as UTF-8"),
        ("query-id\n".encode("utf-16-le"), "UTF-16; save it as UTF-8"),
        ("a\nb\n".encode("utf-32"), "UTF-16 or UTF-32; save it as UTF-8"),
        (bz2.compress(b"text"), "a packed file or archive; unpack it"),
        (lzma.compress(b"text"), "a packed file or archive; unpack it"),
        (b"PK\x03\x04\x14\0", "a packed file or archive; unpack it"),
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
