"""An index in shards is the same index: ids and scores to the bit, for each form, however it is cut."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_folders import in_shards

from hardneg.formats.merging import merge_flat, merge_in_shards
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.shard_cache import ShardCache
from hardneg.formats.vectors.shard_folder import Closed, far_shards, shard_problem
from hardneg.formats.vectors.shards import Shards
from hardneg.indexes import shard_search
from hardneg.indexes.backends.flat import Flat
from hardneg.indexes.dense import DenseIndex
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.indexes.kernels.checks import merged_lists
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.kernels.maxsim import exact_maxsim as multi_vector_exact
from hardneg.indexes.open_store import form_in, open_store
from hardneg.indexes.shard_search import KeptLists, ShardedSearcher, shard_by_shard
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import SHARDS
from hardneg.records.types import Hits
from hardneg.runtime.progress import Silent
from hardneg.testing.forms import FORMS, drawn_documents, drawn_queries, write_encoded

COUNT = 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return {form: write_encoded(folder / form, documents(form)) for form in FORMS}


def documents(form: str):
    return drawn_documents(form, COUNT, 8, exact=False)


def found(folder: Path, form: str, k: int = 20):
    queries = drawn_queries(form, documents(form), exact=False)
    searcher = open_store(folder, ExactOptions(device="cpu", corpus_block=64))
    candidates = np.random.default_rng(5).integers(0, COUNT, (len(queries), 30))
    return searcher.search(queries, k), rank_candidates(searcher, queries, candidates, 10)


def check_same(one: Path, other: Path, form: str) -> None:
    for mine, theirs in zip(found(one, form), found(other, form), strict=True):
        assert mine.rows.tobytes() == theirs.rows.tobytes() and mine.scores.tobytes() == theirs.scores.tobytes()
    same = (one / "docid").read_bytes() == (other / "docid").read_bytes()
    assert same and form_in(one) == form_in(other) == form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cuts", [[], [150], [43, 86, 86, 170, 171, 299]])
def test_one_two_and_seven_shards_are_one(whole, tmp_path, form, cuts):
    check_same(whole[form], in_shards(whole[form], tmp_path, cuts), form)


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, COUNT), max_size=9).map(sorted))
@settings(max_examples=4, deadline=None)
def test_any_partition_is_one(whole, tmp_path_factory, form, cuts):
    check_same(whole[form], in_shards(whole[form], tmp_path_factory.mktemp("cut"), cuts), form)


def test_shards_are_indexes_by_themselves_and_rows_go_on_from_one_to_the_next(whole, tmp_path):
    shards = in_shards(whole["vectors"], tmp_path, [100, 250])
    all_, third = FlatVectors.open(whole["vectors"]).vectors, FlatVectors.open(shards / "shard-00002")
    assert third.doc_ids[0] == "d250" and third.vectors.tobytes() == all_[250:].tobytes()
    opened = FlatVectors.open(shards)
    assert opened.read(90, 260).tobytes() == all_[90:260].tobytes()
    assert opened.gather(np.array([299, 0, 100, 99, 0])).tobytes() == all_[[299, 0, 100, 99, 0]].tobytes()
    assert DenseIndex.open(shards).doc_ids[299] == "d299"


@pytest.mark.parametrize("form", FORMS)
def test_a_linked_copy_has_the_shards(whole, tmp_path, form):
    shards = in_shards(whole[form], tmp_path / "a", [7, 200])
    store = open_store(shards)
    if form == "vectors":
        assert Flat().build(shards, tmp_path / "b", Silent()) == COUNT
    else:
        store.store.link(tmp_path / "b")
    check_same(shards, tmp_path / "b", form)


@pytest.fixture
def small_cache(tmp_path, monkeypatch):
    """Room for one shard, but for the two that are always kept."""
    cache = ShardCache(tmp_path / "cache", 1)
    cache.root.mkdir()
    monkeypatch.setattr(ShardCache, "own", lambda: cache)
    return cache


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_shards_at_urls_are_one_on_a_disk_with_room_for_two(whole, tmp_path, small_cache, form, kind):
    url = f"file://{tmp_path}/far" if kind == "file" else f"memory://{tmp_path.name}-{form}"
    check_same(whole[form], in_shards(whole[form], tmp_path / "list", [43, 86, 170, 171], url), form)
    assert len([path for path in small_cache.root.iterdir() if path.is_dir()]) <= 2


@pytest.mark.timeout(60)
def test_a_shard_that_another_holds_is_read_beside_it(whole, tmp_path, small_cache):
    url = f"file://{tmp_path}/far"
    shards = in_shards(whole["vectors"], tmp_path / "list", [150], url)
    first = json.loads((shards / SHARDS).read_text())["shards"][0]
    other = ShardCache(small_cache.root, 1)
    told = (first["place"], first["bytes"], first["digest"])
    with small_cache.folder(*told) as one, other.folder(*told) as two:
        assert one == two


@pytest.mark.parametrize("form", ["vectors", "weights"])
def test_threads_read_more_shards_at_once_than_there_is_room_for(whole, tmp_path, small_cache, form):
    """None is dropped between the moment that it is asked for and the one that its file is open."""
    shards = in_shards(whole[form], tmp_path / "list", list(range(25, COUNT, 25)), f"file://{tmp_path}/far")
    store, one = (open_store(folder) for folder in (shards, whole[form]))

    def read(number):
        rows = np.arange(number, COUNT, 25)
        return all(np.array_equal(*map(_weights, (store.encoded(some), one.encoded(some)))) for some in (rows, rows))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(24)))


def _weights(encoded):
    return encoded if isinstance(encoded, np.ndarray) else encoded.weights


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


def parts_of(folder: Path, kept: Path, options: ExactOptions | None = None):
    return shard_by_shard(open_store(folder, options or ExactOptions(device="cpu", corpus_block=64)), KeptLists(kept))


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, COUNT), min_size=1, max_size=7).map(sorted), k=st.sampled_from([1, 20, 400]))
@settings(max_examples=4, deadline=None)
def test_lists_of_shards_are_merged_to_those_of_the_whole(whole, tmp_path_factory, form, cuts, k):
    folder = tmp_path_factory.mktemp("cut")
    queries = drawn_queries(form, documents(form), exact=False)
    expected = open_store(whole[form], ExactOptions(device="cpu", corpus_block=64)).search(queries, k)
    searcher = parts_of(in_shards(whole[form], folder / "shards", cuts), folder / "kept")
    assert isinstance(searcher, ShardedSearcher)
    for _ in range(2):  # made, then read
        found = searcher.search(queries, k)
        assert found.rows.tobytes() == expected.rows.tobytes()
        assert found.scores.tobytes() == expected.scores.tobytes()
    assert len(list((folder / "kept").iterdir())) == 1


def test_two_lists_are_merged_by_score_then_row():
    one = Hits(np.array([[7, 2, -1]]), np.array([[3.0, 1.0, -np.inf]], np.float32))
    other = Hits(np.array([[1, 0, 9]]), np.array([[3.0, 2.0, 1.0]], np.float32))
    found = merged_lists(one, other)
    assert found.rows.tolist() == [[1, 7, 0]] and found.scores.tolist() == [[3, 3, 2]]
    pads = Hits(np.array([[-1, -1]]), np.full((1, 2), -np.inf, np.float32))
    assert merged_lists(Hits(one.rows[:, 1:], one.scores[:, 1:]), pads).rows.tolist() == [[2, -1]]


@pytest.fixture
def small_cells(monkeypatch):
    """So that each shard has some."""
    monkeypatch.setattr(shard_search, "_CELL", 64)
    monkeypatch.setattr(multi_vector_exact, "_CELL", 256)


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("form", FORMS)
def test_a_search_that_was_stopped_goes_on_with_the_next_shard(whole, tmp_path, monkeypatch, form):
    queries = drawn_queries(form, documents(form), exact=False)
    searcher = parts_of(in_shards(whole[form], tmp_path / "shards", [64, 130]), tmp_path / "kept")
    keep, written = KeptLists.keep, list[str]()

    def stops(kept, name, hits):
        written.append(name)
        if len(written) == 2:
            raise KeyboardInterrupt
        keep(kept, name, hits)

    monkeypatch.setattr(KeptLists, "keep", stops)
    with pytest.raises(KeyboardInterrupt):
        searcher.search(queries, 9)
    found = searcher.search(queries, 9)
    parts = [tuple(map(int, name.split("-")[1:])) for name in written]
    first, second, again, third, all_ = parts
    assert first[0] == 0 and first[1] == second[0] < second[1] and again == second and third == (again[1], COUNT)
    assert all_ == ()
    expected = open_store(whole[form], ExactOptions(device="cpu", corpus_block=64)).search(queries, 9)
    assert found.rows.tobytes() == expected.rows.tobytes() and found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("engine", ["torch", "faiss", "bf16"])
def test_each_engine_finds_the_same_in_shards(tmp_path, engine):
    vectors, queries = (np.random.default_rng(n).standard_normal((n, 32), np.float32) for n in (9000, 300))
    vectors[4000:4100] = vectors[:100]
    options = ExactOptions(device="cpu", engine=engine, corpus_block=1024)
    expected = open_store(write_encoded(tmp_path / "whole", vectors), options).search(queries, 50)
    shards = in_shards(tmp_path / "whole", tmp_path / "shards", [1700, 1800, 4099, 7000])
    found = parts_of(shards, tmp_path / "kept", options).search(queries, 50)
    assert found.rows.tobytes() == expected.rows.tobytes() and found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.usefixtures("small_cells")
def test_machines_share_what_they_find_at_a_url(whole, tmp_path):
    shards, url = in_shards(whole["vectors"], tmp_path / "shards", [64, 130]), f"file://{tmp_path}/found"
    queries = drawn_queries("vectors", documents("vectors"), exact=False)
    options = ExactOptions(device="cpu", corpus_block=64)
    machines = [shard_by_shard(open_store(shards, options), KeptLists(tmp_path / name, url)) for name in "abc"]
    assert machines[0].search_some(queries, 9, slice(2, None)) == {0, 1}
    assert machines[1].search_some(queries, 9, slice(0, 2)) == set()
    (tmp_path / "shards/shard-00000/index").unlink()  # the third needs no shard any more
    found, expected = machines[2].search(queries, 9), open_store(whole["vectors"], options).search(queries, 9)
    assert found.rows.tobytes() == expected.rows.tobytes() and found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_a_machine_reads_no_shard_but_those_that_it_took_however_small_they_are(whole, tmp_path, form):
    """Shards that a cell has room for several of are the parts themselves."""
    shards, url = in_shards(whole[form], tmp_path / "shards", [50, 130]), f"file://{tmp_path}/found"
    queries = drawn_queries(form, documents(form), exact=False)
    options = [ExactOptions(device="cpu", engine="torch", corpus_block=size) for size in (64, 1000, 64)]
    one, two, last = (
        shard_by_shard(open_store(shards, each), KeptLists(tmp_path / f"{number}", url))
        for number, each in enumerate(options)
    )
    aside = tmp_path / "aside"
    for number, machine, taken, missing in ((1, one, slice(0, 1), {1, 2}), (0, two, slice(1, None), set())):
        (shards / f"shard-0000{number}").rename(aside)
        assert machine.search_some(queries, 400, taken) == missing
        aside.rename(shards / f"shard-0000{number}")
    found, expected = last.search(queries, 400), open_store(whole[form], options[0]).search(queries, 400)
    assert sorted(found.rows[0]) == sorted(expected.rows[0])
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def shared_by_two(folder, form, options):
    """What machines that cut blocks in two ways put together: the first has searched shard 0, the second the others."""
    docs = drawn_documents(form, 3000, 8, exact=False)
    queries, whole = drawn_queries(form, docs, exact=False), write_encoded(folder / "whole", docs)
    shards, url = in_shards(whole, folder / "shards", [1000, 2000]), f"file://{folder}/found"
    machines = [
        ShardedSearcher(open_store(shards, each), Shards.of(shards), KeptLists(folder / f"{number}", url))
        for number, each in enumerate(options)
    ]
    machines[0].search_some(queries, 20, slice(0, 1))
    assert machines[1].search_some(queries, 20, slice(1, None)) == set()
    return open_store(whole, options[0]).search(queries, 20), machines[1].search(queries, 20)


@pytest.mark.parametrize("form", ["vectors", "token-vectors"])
@pytest.mark.parametrize("blocks", [(256, 2500), (2500, 256)])
@pytest.mark.parametrize("cell", [None, 512])
def test_machines_that_cut_blocks_in_other_ways_find_all_and_each_once(tmp_path, monkeypatch, form, blocks, cell):
    if cell:
        monkeypatch.setattr(shard_search, "_CELL", cell)
        monkeypatch.setattr(multi_vector_exact, "_CELL", cell * 4)
    options = [ExactOptions(device="cpu", engine="torch", corpus_block=size) for size in blocks]
    expected, found = shared_by_two(tmp_path, form, options)
    assert found.rows.tolist() == expected.rows.tolist()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_a_search_that_goes_on_with_another_engine_finds_all(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_search, "_CELL", 512)
    vectors, queries = (np.random.default_rng(n).standard_normal((n, 32), np.float32) for n in (3000, 40))
    whole = write_encoded(tmp_path / "whole", vectors)
    shards, kept = in_shards(whole, tmp_path / "shards", [1000, 2000]), tmp_path / "kept"
    torch, faiss = (ExactOptions(device="cpu", engine=engine) for engine in ("torch", "faiss"))
    parts_of(shards, kept, torch).search_some(queries, 50, slice(0, 1))
    found, expected = parts_of(shards, kept, faiss).search(queries, 50), open_store(whole, torch).search(queries, 50)
    assert found.rows.tolist() == expected.rows.tolist()


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
