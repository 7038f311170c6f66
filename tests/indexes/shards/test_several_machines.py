"""Machines that each search some of the shards, and share what they find at a URL."""

import numpy as np
import pytest
from indexes.shards.parts import documents
from shard_folders import in_shards

from hardneg.formats.vectors.shards import Shards
from hardneg.indexes import shard_search
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.kernels.maxsim import exact_maxsim as multi_vector_exact
from hardneg.indexes.open_store import open_store
from hardneg.indexes.shard_search import KeptLists, ShardedSearcher, shard_by_shard
from hardneg.testing.forms import FORMS, drawn_documents, drawn_queries, write_encoded


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
