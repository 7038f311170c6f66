"""`hardneg encode` in shards and `hardneg index merge`, as a user calls them."""

import pytest
from command_line import call, hardneg
from recipe.recipes import small_collection
from tiny import tiny_static

from hardneg.encoders.corpus import stream
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


def test_shards_of_two_sizes_are_refused(tmp_path):
    words = ["--shards", "2", "--shard-rows", "5"]
    given = ["--dataset", "beir:none", "--model", "none", "--output", tmp_path / "out", *words]
    assert "shards: goes without shard_rows" in str(call("encode", *given).exception)


def test_folders_that_do_not_fit_are_told(tmp_path):
    result = call("index", "merge", tmp_path / "none", "--output", tmp_path / "out")
    assert "none/index: cannot be read" in str(result.exception) and not (tmp_path / "out").exists()
