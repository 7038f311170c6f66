"""What is wrong with shards, with their list, and with what was found in them, is told."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from indexes.shards.parts import COUNT, documents, parts_of
from shard_folders import in_shards

from hardneg.formats.merging import merge_flat, merge_in_shards
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.shard_folder import Closed, far_shards, shard_problem
from hardneg.formats.vectors.shards import Shards
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import SHARDS
from hardneg.runtime.progress import Silent
from hardneg.testing.forms import drawn_queries


def test_a_shard_with_other_bytes_is_told(whole, tmp_path, small_cache):
    shards = in_shards(whole["vectors"], tmp_path / "list", [150], f"file://{tmp_path}/far")
    data = bytearray((tmp_path / "far/shard-00001/index").read_bytes())
    data[100] ^= 1
    (tmp_path / "far/shard-00001/index").write_bytes(data)
    with pytest.raises(ArtifactError, match="shard-00001/index: the bytes have changed"):
        FlatVectors.open(shards).read(0, COUNT)
    (tmp_path / "far/shard-00001/shard.json").write_text('{"rows": 150, "fi')
    with pytest.raises(ArtifactError, match="shard-00001: the shard is not there, or not complete"):
        FlatVectors.open(shards).read(0, COUNT)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[:-9], "damaged"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "upgrade hardneg"),
        (lambda text: text.replace("shard-00001", "../elsewhere"), "is no folder's name"),
        (lambda text: text.replace('"rows": 150', '"rows": 151'), "150 vectors of dimension 8 instead of 151 of 8"),
    ],
)
def test_a_damaged_list_is_told(whole, tmp_path, change, told):
    shards = in_shards(whole["vectors"], tmp_path, [150])
    (shards / SHARDS).write_text(change((shards / SHARDS).read_text()))
    with pytest.raises(ArtifactError, match=told):
        FlatVectors.open(shards).read(0, COUNT)
    assert Shards.of(whole["vectors"]) is None


def put_in_place_of(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


FAULTS = {
    "the whole shard gone": (lambda far: shutil.rmtree(far / "shard-00001"), "is not there, or not complete"),
    "its list gone": (lambda far: (far / "shard-00001/shard.json").unlink(), "is not there, or not complete"),
    "its list cut": (lambda far: cut(far / "shard-00001/shard.json"), "is not there, or not complete"),
    "no list at all": (lambda far: (far / "shard-00001/shard.json").write_text("[1]"), "not there, or not complete"),
    "vectors gone": (lambda far: (far / "shard-00001/index").unlink(), "shard-00001/index: is not there"),
    "vectors cut": (lambda far: cut(far / "shard-00001/index"), "1/index: (the bytes have ch|[0-9]+ bytes in)"),
    "ids cut": (lambda far: cut(far / "shard-00001/docid"), "shard-00001/docid: (the bytes have ch|[0-9]+ bytes in)"),
    "two exchanged": (lambda far: put_in_place_of(far / "shard-00000", far / "shard-00001"), "another one than was li"),
    "their vectors exchanged": (
        lambda far: put_in_place_of(far / "shard-00000/index", far / "shard-00001/index"), "the bytes have changed"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_shards_at_urls_is_told_by_all_that_read_them(whole, tmp_path, small_cache, fault):
    shards = in_shards(whole["vectors"], tmp_path / "list", [100, 200], f"file://{tmp_path}/far")
    harm, told = FAULTS[fault]
    harm(tmp_path / "far")
    opened, queries = FlatVectors.open(shards), drawn_queries("vectors", documents("vectors"), exact=False)
    with pytest.raises(ArtifactError, match=told):
        open_store(shards, ExactOptions(device="cpu")).search(queries, 9)
    with pytest.raises(ArtifactError, match=told):
        merge_flat([opened], tmp_path / "merged", Silent())
    if fault != "their vectors exchanged":  # which only who reads them can know
        with pytest.raises(ArtifactError, match=told):
            merge_in_shards([opened], tmp_path / "listed")
    problems = [told for shard in far_shards(shards) if (told := shard_problem(shard))]
    assert problems and all(len(line.splitlines()) == 1 for line in problems)


def test_an_encoding_that_goes_on_does_not_take_a_shard_that_was_cut_at_its_url(whole, tmp_path):
    in_shards(whole["vectors"], tmp_path / "list", [100], f"file://{tmp_path}/far")
    cut(tmp_path / "far/shard-00001/index")
    found = Closed.find(f"file://{tmp_path}/far/shard-00001")
    with pytest.raises(ArtifactError, match=r"shard-00001/index: .* bytes instead of .*: remove the shard there"):
        found.check_sizes()
    (tmp_path / "far/shard-00001/index").unlink()
    with pytest.raises(ArtifactError, match="shard-00001/index: is not there: remove the shard there"):
        found.check_sizes()


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("fault", ["cut", "exchanged"])
def test_lists_at_a_url_that_are_not_what_their_name_says_are_refused(whole, tmp_path, fault):
    shards = in_shards(whole["vectors"], tmp_path / "shards", [64, 130])
    queries = drawn_queries("vectors", documents("vectors"), exact=False)
    machines = [parts_of(shards, tmp_path / name) for name in "ab"]
    url = f"file://{tmp_path}/found"
    first, second = (replace(one, kept=replace(one.kept, url=url)) for one in machines)
    assert first.search_some(queries, 9, slice(None)) == set()
    lists = sorted((tmp_path / "found").iterdir())
    if fault == "cut":
        cut(lists[0])
    else:
        put_in_place_of(lists[0], lists[1])
    with pytest.raises(ArtifactError, match=r"file://.*npz: (damaged lists|lists of another search or shard)"):
        second.search(queries, 9)
    assert not list((tmp_path / "b").glob("*.npz"))
