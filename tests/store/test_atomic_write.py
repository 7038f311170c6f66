import gzip
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from hardneg.store import link_file, link_folder, replace_text, replacing, replacing_folder


@pytest.mark.parametrize("name", ["a.txt", "sub/a.txt.gz"])
def test_old_or_new_never_half(tmp_path, name):
    path = tmp_path / name
    with replacing(path) as file:
        file.write(b"old")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"ne")
        raise ZeroDivisionError
    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == b"old"
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_gzip_has_neither_name_nor_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        replace_text(tmp_path / name, "é")
    content = (tmp_path / "a.gz").read_bytes()
    assert content == (tmp_path / "b.gz").read_bytes() and content[3:8] == bytes(5)
    assert gzip.decompress(content) == "é".encode()


def test_a_link_that_is_made_again_leaves_nothing_aside(tmp_path):
    source, target = tmp_path / "made", tmp_path / "out" / "shown"
    source.write_text("one")
    for _ in range(2):
        link_file(source, target)
        assert [path.name for path in target.parent.iterdir()] == ["shown"]
    other = tmp_path / "other"
    other.write_text("two")
    assert link_file(other, target).read_text() == "two" and source.read_text() == "one"


def test_a_folder_is_replaced_whole_or_stays(tmp_path):
    folder = tmp_path / "new" / "model"
    for text in ("old", "new"):
        with replacing_folder(folder) as place:
            (place / "deep").mkdir()
            (place / "deep" / text).write_text(text)
            assert folder.exists() == (text == "new")
        assert [path.name for path in (folder / "deep").iterdir()] == [text]
    with pytest.raises(ValueError, match="no more"), replacing_folder(folder) as place:
        (place / "half").touch()
        raise ValueError("no more")
    assert [path.name for path in folder.rglob("*")] == ["deep", "new"]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_what_a_dead_process_left_of_a_folder_goes_with_the_next(tmp_path):
    for name in (".model.tmp", ".model.tmp.old", "model"):
        (tmp_path / name / "half").mkdir(parents=True)
    with replacing_folder(tmp_path / "model") as place:
        (place / "whole").mkdir()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/whole"]


def test_a_folder_of_links_lacks_what_is_left_out(tmp_path):
    (tmp_path / "made" / "deep").mkdir(parents=True)
    for name in ("manifest.json", "deep/file", "deep/manifest.json"):
        (tmp_path / "made" / name).write_text(name)
    link_folder(tmp_path / "made", tmp_path / "out", {"manifest.json"})
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["deep", "file"]
    assert (tmp_path / "out" / "deep" / "file").samefile(tmp_path / "made" / "deep" / "file")


def test_writers_of_one_file_are_in_nobodys_way(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as first:
        first.write(b"fir")
        with replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"st")
    assert path.read_bytes() == b"first" and [item.name for item in tmp_path.iterdir()] == ["a"]


def test_writers_of_one_folder_wait_for_each_other(tmp_path):
    def write(number):
        with replacing_folder(tmp_path / "out") as place:
            for name in range(40):
                (place / str(name)).write_text(str(number))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(write, range(8))) == [None] * 8
    assert len({path.read_text() for path in (tmp_path / "out").iterdir()}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_is_copied_into_the_file_of_another_link(tmp_path, monkeypatch):
    source, others = tmp_path / "made", tmp_path / "others"
    source.write_text("one")
    others.write_text("two")
    link = os.link

    def late(given, new):
        link(others, new)  # as if another process took the name first
        link(given, new)

    monkeypatch.setattr("os.link", late)
    with pytest.raises(FileExistsError):
        link_file(source, tmp_path / "out")
    assert others.read_text() == "two" and not (tmp_path / "out").exists()


def test_a_file_system_without_links_gets_copies(tmp_path, monkeypatch):
    def refused(given, new):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    (tmp_path / "made").write_text("one")
    copy = link_file(tmp_path / "made", tmp_path / "out" / "shown")
    assert copy.read_text() == "one" and not copy.samefile(tmp_path / "made")
    assert [path.name for path in copy.parent.iterdir()] == ["shown"]
