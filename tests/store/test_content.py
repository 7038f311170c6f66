"""What of options is in a key, and how files and folders are written."""

import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from pydantic import BaseModel, Field

from hardneg import store
from hardneg.store import FREE, LATER, digest, legacy_key_names, options_in_key, plugin_identity, tree_digest
from hardneg.training.options import RerankerOptions, TrainOptions


class Verb(BaseModel):
    depth: int = 100
    device: str = Field(default="cpu", json_schema_extra=FREE)
    fill_to: int | None = Field(default=None, json_schema_extra=LATER)
    run: str = "bm25"


@dataclass(frozen=True)
class Plugin:
    depth: int = 100
    url: str = "here"
    sizes: tuple[int, int] = (1, 2)
    weights: dict[str, float] = field(default_factory=dict)
    version: ClassVar[int] = 3
    free: ClassVar[frozenset[str]] = frozenset({"url"})
    later: ClassVar[frozenset[str]] = frozenset({"sizes"})


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (Verb(), {"depth": 100}),
        (Verb(depth=100, device="cuda", fill_to=5), {"depth": 100, "fill_to": 5}),
        (Plugin(), {"depth": 100, "weights": {}}),
        (Plugin(url="there", sizes=(1, 3)), {"depth": 100, "sizes": [1, 3], "weights": {}}),
    ],
)
def test_free_options_never_count_and_later_ones_with_another_value_alone(options, counted):
    assert options_in_key(options, {"run"}) == counted


def test_a_plugin_counts_by_its_name_version_and_options():
    identity = {"name": "chosen", "version": 3, "options": {"depth": 7}}
    assert plugin_identity("chosen", Plugin(7), ["weights"]) == identity


def test_options_of_training_have_other_words_in_keys():
    given = TrainOptions(iterate_negatives=True, false_negative_mask=False)
    plain = TrainOptions().identity()
    assert TrainOptions(chunk=8).identity() == plain | {"chunk": 8}
    assert given.identity() == plain | {"order": "consecutive", "mask": "none"}
    assert legacy_key_names({"seed": 1, "iterate_negatives": True}) == {"seed": 1, "order": "consecutive"}


def test_a_default_is_that_of_the_class():
    assert RerankerOptions().identity()["negatives_per_query"] == 4
    assert not {"chunk", "tf32", "checkpoint_every"} & {*RerankerOptions().identity()}


def test_the_order_of_keys_does_not_matter_and_digests_are_pinned():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])
    assert digest({"stage": "mine", "depth": 200}) == "940b0854ac8692c9f986bd7e978314db"


def test_what_json_cannot_hold_is_an_error():
    with pytest.raises(ValueError):
        digest(float("nan"))
    with pytest.raises(TypeError):
        digest({"a": object()})


def test_a_tree_is_named_by_its_paths_and_bytes(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "sub" / "x").write_text("same")
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "two")
    (tmp_path / "two" / "sub" / "x").write_text("sam!")
    assert tree_digest(tmp_path / "one") != tree_digest(tmp_path / "two")


@pytest.mark.parametrize("name", ["a.txt", "sub/a.txt.gz"])
def test_old_or_new_never_half(tmp_path, name):
    path = tmp_path / name
    with store.replacing(path) as file:
        file.write(b"old")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), store.replacing(path) as file:
        file.write(b"ne")
        raise ZeroDivisionError
    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == b"old"
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_gzip_has_neither_name_nor_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        store.replace_text(tmp_path / name, "é")
    content = (tmp_path / "a.gz").read_bytes()
    assert content == (tmp_path / "b.gz").read_bytes() and content[3:8] == bytes(5)
    assert gzip.decompress(content) == "é".encode()


def test_a_link_that_is_made_again_leaves_nothing_aside(tmp_path):
    source, target = tmp_path / "made", tmp_path / "out" / "shown"
    source.write_text("one")
    for _ in range(2):
        store.link_file(source, target)
        assert [path.name for path in target.parent.iterdir()] == ["shown"]
    other = tmp_path / "other"
    other.write_text("two")
    assert store.link_file(other, target).read_text() == "two" and source.read_text() == "one"


def test_a_folder_is_replaced_whole_or_stays(tmp_path):
    folder = tmp_path / "new" / "model"
    for text in ("old", "new"):
        with store.replacing_folder(folder) as place:
            (place / "deep").mkdir()
            (place / "deep" / text).write_text(text)
            assert folder.exists() == (text == "new")
        assert [path.name for path in (folder / "deep").iterdir()] == [text]
    with pytest.raises(ValueError, match="no more"), store.replacing_folder(folder) as place:
        (place / "half").touch()
        raise ValueError("no more")
    assert [path.name for path in folder.rglob("*")] == ["deep", "new"]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_what_a_dead_process_left_of_a_folder_goes_with_the_next(tmp_path):
    for name in (".model.tmp", ".model.tmp.old", "model"):
        (tmp_path / name / "half").mkdir(parents=True)
    with store.replacing_folder(tmp_path / "model") as place:
        (place / "whole").mkdir()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/whole"]


def test_a_folder_of_links_lacks_what_is_left_out(tmp_path):
    (tmp_path / "made" / "deep").mkdir(parents=True)
    for name in ("manifest.json", "deep/file", "deep/manifest.json"):
        (tmp_path / "made" / name).write_text(name)
    store.link_folder(tmp_path / "made", tmp_path / "out", {"manifest.json"})
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["deep", "file"]
    assert (tmp_path / "out" / "deep" / "file").samefile(tmp_path / "made" / "deep" / "file")


def test_writers_of_one_file_are_in_nobodys_way(tmp_path):
    path = tmp_path / "a"
    with store.replacing(path) as first:
        first.write(b"fir")
        with store.replacing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"st")
    assert path.read_bytes() == b"first" and [item.name for item in tmp_path.iterdir()] == ["a"]


def test_writers_of_one_folder_wait_for_each_other(tmp_path):
    def write(number):
        with store.replacing_folder(tmp_path / "out") as place:
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
        store.link_file(source, tmp_path / "out")
    assert others.read_text() == "two" and not (tmp_path / "out").exists()


def test_a_file_system_without_links_gets_copies(tmp_path, monkeypatch):
    def refused(given, new):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    (tmp_path / "made").write_text("one")
    copy = store.link_file(tmp_path / "made", tmp_path / "out" / "shown")
    assert copy.read_text() == "one" and not copy.samefile(tmp_path / "made")
    assert [path.name for path in copy.parent.iterdir()] == ["shown"]
