"""`hardneg encode` in shards and `hardneg index merge`, as a user calls them."""

import pytest
from command_line import call, hardneg
from recipe.recipes import small_collection
from tiny import tiny_static

from hardneg.encoders.corpus import stream
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.shards import Shards

STORES = ("store", "other")


@pytest.fixture
def encode(workplace, monkeypatch):
    monkeypatch.setattr(stream, "BLOCK", 8)
    data, model = small_collection(workplace / "data"), tiny_static(workplace / "model")

    def run(output, *options, store="store"):
        given = ["--dataset", f"beir:{data}", "--model", model, "--output", output, *options]
        return hardneg("encode", *given, "--store", workplace / store).output

    return run


def test_an_index_in_shards_is_that_in_one_folder_under_the_same_key(encode, tmp_path):
    encode(tmp_path / "whole")
    encode(tmp_path / "same", "--shards", 3)
    assert not (tmp_path / "same/shards.json").exists()
    encode(tmp_path / "shards", "--shards", 3, store="other")
    assert len(Shards.of(tmp_path / "shards").listed) == 3
    stores = [(tmp_path / store).glob("*/") for store in STORES]
    keys = [{path.name for path in paths if "." not in path.name} for paths in stores]
    assert keys[0] == keys[1]
    hardneg("index", "merge", tmp_path / "shards", "--output", tmp_path / "one")
    for name in ("index", "docid"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_two_machines_make_shards_at_a_url(encode, tmp_path):
    place = ("--shards", 3, "--place", f"file://{tmp_path}/far")
    assert "1 of 3 shards are at" in encode(tmp_path / "a", *place, "--take", "2:", store="first")
    assert not (tmp_path / "a").exists()
    encode(tmp_path / "b", *place, "--take", ":2", store="second")
    encode(tmp_path / "whole")
    found, whole = FlatVectors.open(tmp_path / "b"), FlatVectors.open(tmp_path / "whole")
    assert found.read(0, len(found)).tobytes() == whole.read(0, len(whole)).tobytes()
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["docid", "shards.json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--shards 2 --shard-rows 5", "shards: goes without shard_rows"),
        ("--shards 2 --take 0:1", "take: the other machines' shards need a common place"),
        ("--shards 2 --place ftp://host/x", "place: ftp://host/x: no URL that can be used"),
        ("--shards 2 --place file:///tmp/x --take one", "take"),
    ],
)
def test_what_cannot_be_is_told(tmp_path, words, told):
    given = ["--dataset", "beir:none", "--model", "none", "--output", tmp_path / "out", *words.split()]
    assert told in str(call("encode", *given).exception)


def test_folders_that_do_not_fit_are_told(tmp_path):
    result = call("index", "merge", tmp_path / "none", "--output", tmp_path / "out")
    assert "none/index: cannot be read" in str(result.exception) and not (tmp_path / "out").exists()


def test_shards_at_urls_are_counted_or_checked(encode, tmp_path):
    encode(tmp_path / "a", "--shards", 3, "--place", f"file://{tmp_path}/far")
    shown = ["artifacts", "check", "--store", tmp_path / "store"]
    assert "3 shards at URLs: not read; --remote reads them" in hardneg(*shown).output
    sound = hardneg(*shown, "--remote")
    assert "not read" not in sound.output and "none damaged" in sound.output
    with (tmp_path / "far/shard-00001/index").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert call(*shown).exit_code == 0
    told = " ".join(call(*shown, "--remote", "--repair").output.split())
    assert "the bytes have changed" in told and "remove the shard there, and its artifact with --repair" in told
    assert "1 damaged, removed" in told
    assert call(*shown, "--remote").exit_code == 0
