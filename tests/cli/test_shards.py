"""`hardneg encode` in shards and `hardneg index merge`, as a user calls them."""

import pytest
from recipe.recipes import small_collection
from tiny import tiny_static
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.encoders.corpus import stream
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.shards import Shards

STORES = ("store", "other")


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "BLOCK", 8)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    data, model = small_collection(tmp_path / "data"), tiny_static(tmp_path / "model")

    def encode(output, *options, store="store"):
        given = ["--dataset", f"beir:{data}", "--model", str(model), "--output", str(output), *map(str, options)]
        result = CliRunner().invoke(app, ["encode", *given, "--store", str(tmp_path / store)])
        assert result.exception is None, result.output
        return result.output

    return encode


def test_an_index_in_shards_is_that_in_one_folder_under_the_same_key(call, tmp_path):
    call(tmp_path / "whole")
    call(tmp_path / "same", "--shards", 3)
    assert not (tmp_path / "same/shards.json").exists()
    call(tmp_path / "shards", "--shards", 3, store="other")
    assert len(Shards.of(tmp_path / "shards").listed) == 3
    keys = [
        {path.name for path in (tmp_path / store).glob("*/") if "." not in path.name} for store in ("store", "other")
    ]
    assert keys[0] == keys[1]
    merging = ["index", "merge", str(tmp_path / "shards"), "--output", str(tmp_path / "one")]
    assert CliRunner().invoke(app, merging).exception is None
    for name in ("index", "docid"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_two_machines_make_shards_at_a_url(call, tmp_path):
    place = ("--shards", 3, "--place", f"file://{tmp_path}/far")
    assert "1 of 3 shards are at" in call(tmp_path / "a", *place, "--take", "2:", store="first")
    assert not (tmp_path / "a").exists()
    call(tmp_path / "b", *place, "--take", ":2", store="second")
    call(tmp_path / "whole")
    found, whole = FlatVectors.open(tmp_path / "b"), FlatVectors.open(tmp_path / "whole")
    assert found.read(0, len(found)).tobytes() == whole.read(0, len(whole)).tobytes()
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["docid", "shards.json"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--shards", 2, "--shard-rows", 5], "shards: goes without shard_rows"),
        (["--shards", 2, "--take", "0:1"], "take: the other machines' shards need a common place"),
        (["--shards", 2, "--place", "ftp://host/x"], "place: ftp://host/x: no URL that can be used"),
        (["--shards", 2, "--place", "file:///tmp/x", "--take", "one"], "take"),
    ],
)
def test_what_cannot_be_is_told(tmp_path, options, told):
    given = ["--dataset", "beir:none", "--model", "none", "--output", str(tmp_path / "out"), *map(str, options)]
    assert told in str(CliRunner().invoke(app, ["encode", *given]).exception)


def test_folders_that_do_not_fit_are_told(tmp_path):
    result = CliRunner().invoke(app, ["index", "merge", str(tmp_path / "none"), "--output", str(tmp_path / "out")])
    assert "none/index: cannot be read" in str(result.exception) and not (tmp_path / "out").exists()


def test_shards_at_urls_are_counted_or_checked(call, tmp_path):
    call(tmp_path / "a", "--shards", 3, "--place", f"file://{tmp_path}/far")
    shown = ["artifacts", "check", "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(app, shown)
    assert result.exit_code == 0 and "3 shards at URLs: not read; --remote reads them" in result.output
    sound = CliRunner().invoke(app, [*shown, "--remote"])
    assert sound.exit_code == 0 and "not read" not in sound.output and "none damaged" in sound.output
    with (tmp_path / "far/shard-00001/index").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert CliRunner().invoke(app, shown).exit_code == 0
    result = CliRunner().invoke(app, [*shown, "--remote", "--repair"])
    told = " ".join(result.output.split())
    assert "the bytes have changed" in told and "remove the shard there, and its artifact with --repair" in told
    assert "1 damaged, removed" in told
    assert CliRunner().invoke(app, [*shown, "--remote"]).exit_code == 0
