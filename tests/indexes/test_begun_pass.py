"""A search that is killed goes on where it was half a minute before, and finds the same to the bit."""

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from encoded_forms import FORMS, drawn_documents, drawn_queries, write_encoded
from waiting import Clock

from hardneg.formats.vectors import begun_blocks
from hardneg.formats.vectors.begun_blocks import SECONDS
from hardneg.indexes.kernels.exact import exact_bf16
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.kernels.exact.top_k import BegunPass
from hardneg.indexes.open_store import open_store, search_kept
from hardneg.runtime.progress import Silent

WAYS = ["torch", "bf16", *FORMS[1:]]
COUNT = 9000


@dataclass
class Told(Silent):
    """Hears of the rows that are done, and stops a search after so many blocks."""

    clock: Clock
    stops: int = -1
    done: list[int] = field(default_factory=list)

    @contextmanager
    def task(self, name, total, unit, done=0):
        yield self

    def advance(self, count=1):
        self.done.append(count)
        self.clock.now += SECONDS
        if len(self.done) == self.stops:
            raise KeyboardInterrupt


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(begun_blocks, "clock", clock)
    if "weights" in FORMS:
        monkeypatch.setattr("hardneg_sparse.exact._ROWS", 1024)
    return clock


def opened(folder: Path, way: str):
    """A folder of an index, and queries; among the vectors are equal ones, which every engine must put in row order."""
    if way in ("weights", "token-vectors"):
        docs = drawn_documents(way, COUNT, 8, exact=False)
        return write_encoded(folder, docs), drawn_queries(way, docs, exact=False)
    vectors, queries = (np.random.default_rng(n).standard_normal((n, 16), np.float32) for n in (COUNT, 70))
    vectors[4000:4100] = vectors[:100]
    return write_encoded(folder, vectors), queries


def searcher(folder: Path, way: str, progress):
    engine = way if way in ("torch", "bf16") else "auto"
    options = ExactOptions(device="cpu", engine=engine, corpus_block=1024, query_block=32)
    found = open_store(folder, options)
    return replace(found, progress=progress)


def same(one, other) -> bool:
    return one.rows.tobytes() == other.rows.tobytes() and one.scores.tobytes() == other.scores.tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_a_search_that_was_stopped_goes_on_behind_the_blocks_that_were_kept(tmp_path, clock, way):
    folder, queries = opened(tmp_path / "index", way)
    expected, kept = searcher(folder, way, Silent()).search(queries, 50), tmp_path / "kept" / "all"
    first = Told(clock, stops=5)
    with pytest.raises(KeyboardInterrupt):
        search_kept(searcher(folder, way, first), queries, 50, kept)
    again = Told(clock)
    found = search_kept(searcher(folder, way, again), queries, 50, kept)
    assert same(found, expected)
    assert again.done[0] == sum(first.done) > 0 and sum(again.done) == COUNT
    assert len(list((tmp_path / "kept").iterdir())) == 1

    read = Told(clock)
    assert same(search_kept(searcher(folder, way, read), queries, 50, kept), expected) and not read.done


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_after_every_block_changes_no_bit(tmp_path, clock, way):
    folder, queries = opened(tmp_path / "index", way)
    expected, kept = searcher(folder, way, Silent()).search(queries, 10), tmp_path / "kept" / "all"
    for _ in range(200):
        try:
            found = search_kept(searcher(folder, way, Told(clock, stops=2)), queries, 10, kept)
        except KeyboardInterrupt:
            continue
        break
    assert same(found, expected)


def test_queries_that_bf16_gives_up_stay_given_up(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(exact_bf16, "_FIRST", 0)
    monkeypatch.setattr(exact_bf16, "_SHARE", 400)
    test_a_stop_after_every_block_changes_no_bit(tmp_path, clock, "bf16")


def test_hits_in_a_damaged_file_are_searched_again(tmp_path, clock, caplog):
    folder, queries = opened(tmp_path / "index", "torch")
    (tmp_path / "all.npz").write_bytes(b"PK\3\4 cut short")
    found = search_kept(searcher(folder, "torch", Silent()), queries, 9, tmp_path / "all")
    assert same(found, searcher(folder, "torch", Silent()).search(queries, 9)) and "cannot be read" in caplog.text


def test_it_is_kept_when_half_a_minute_has_passed_and_no_sooner(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(begun_blocks, "clock", lambda: now[0])
    begun = BegunPass(tmp_path, "torch")
    now[0] = SECONDS - 1
    begun.at(5, lambda: pytest.fail("too soon"))
    now[0] = SECONDS

    def slow():
        now[0] += 3
        return [{"rows": np.arange(2)}]

    begun.at(6, slow)
    now[0] += 20 * 3 - 1
    begun.at(7, lambda: pytest.fail("keeping would take more than a twentieth of the time"))
    again = BegunPass(tmp_path, "torch")
    assert again.done == 6 and again.state(0)["rows"].tolist() == [0, 1] and again.state(1) is None
    assert BegunPass(tmp_path, "bf16").done == BegunPass(None).done == 0


def test_a_damaged_file_is_told_and_the_search_begins_again(tmp_path, caplog):
    begun = BegunPass(tmp_path, "torch", queries := np.ones(3))
    begun._since = -np.inf
    begun.at(5, lambda: [{}])
    assert BegunPass(tmp_path, "torch", queries).done == 5 and not BegunPass(tmp_path, "torch", queries + 1).done
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"PK\3\4 cut short")
    begun = BegunPass(tmp_path, "torch", queries)
    assert begun.done == 0 and begun.state(0) is None and "cannot be read" in caplog.text
