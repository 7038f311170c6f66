"""Refreshes: what they mine, of documents whole and in segments, and how they lie on disk."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from mining_toy import mining
from processes import codes, launch
from toy import toy_data

from hardneg.encoders import protocol, spec
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.formats.segments import Segments
from hardneg.formats.texts import PassageAnswers
from hardneg.indexes.compressed import Hnsw
from hardneg.indexes.exact import Flat
from hardneg.indexes.product import IvfFlat
from hardneg.mining.filters import Filters
from hardneg.records import TrainingError, errors, layout
from hardneg.runtime import Silent, World
from hardneg.training import refresh as mining_module
from hardneg.training.checkpoint import Checkpoints, Refresh, RefreshFolder
from hardneg.training.methods.ance import BackgroundProvider, RefreshProvider, SynchronousProvider, refresh_facts
from hardneg.training.options import Devices, RefreshOptions
from hardneg.training.refresh import Mining, chunk, known_to_be_relevant, mine_refresh

MINING = Path(__file__).parent / "mining_toy.py"


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(spec.ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")


def mine(
    encoder: Encoder, toy: Path, folder: Path, number: int = 0, step: int = 0, seed: int = 1, **more: Any
) -> tuple[Refresh, NegativesFile]:
    data = replace(toy_data(toy), negatives=None)
    options = RefreshOptions("every", 5, **{"depth": 10, "negatives": 4, "precision": "fp32", **more})
    place = RefreshFolder(folder)
    made = mine_refresh([encoder], Mining(data, options, seed), place, number, step)
    assert place.newest() == made
    return made, read_negatives(place.negatives(number))


def top(encoder: Encoder, toy: Path, query: int, depth: int) -> list[str]:
    """The best documents for one query, by the plain product."""
    data = toy_data(toy)
    documents = encoder.encode(data.corpus.contents(np.arange(len(data.corpus))), "document")
    scores = documents @ encoder.encode(data.texts, "query")[query]
    return data.corpus.ids(np.argsort(-scores, kind="stable")[:depth])


def test_the_top_is_kept_in_order_without_positives_and_copies(encoder, toy_folder, tmp_path):
    made, found = mine(encoder, toy_folder, tmp_path, choice="top", depth=40, negatives=5)
    assert (made.queries, made.negatives) == (12, 60)
    assert sorted(made.seconds) == ["encode", "queries", "search", "write"]
    assert found.query_ids == [f"q{i}" for i in range(12)]
    for query in (0, 3):
        known = {0: {"p0", "extra0", "c0"}, 3: {"p3"}}[query]
        best = [doc_id for doc_id in top(encoder, toy_folder, query, 40) if doc_id not in known][:5]
        assert list(found[query].negatives) == best
    assert not list(tmp_path.glob("vectors-*")) and not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("backend", [Flat(), IvfFlat(lists=4, nprobe=4), Hnsw(m=8), IvfFlat(lists=8, nprobe=1)])
def test_an_index_is_built_and_searched(backend, encoder, toy_folder, tmp_path):
    data = replace(toy_data(toy_folder), negatives=None)
    options = RefreshOptions("every", 5, depth=40, negatives=5, choice="top", precision="fp32")
    exact = mine(encoder, toy_folder, tmp_path / "exact", choice="top", depth=40, negatives=5)[1]
    place = RefreshFolder(tmp_path / "made")
    (place.vectors(0) / "searched").mkdir(parents=True)
    (place.vectors(0) / "searched" / "docid").write_text("what a killed process has left")
    made = mine_refresh([encoder], Mining(data, options, 1, backend=backend), place, 0, 0)
    assert sorted(made.seconds) == ["encode", "index", "queries", "search", "write"]
    found, coarse = read_negatives(place.negatives(0)), backend == IvfFlat(lists=8, nprobe=1)
    assert ([list(item.negatives) for item in found] != [list(item.negatives) for item in exact]) is coarse
    assert not list(place.folder.glob("vectors-*"))


def test_documents_with_an_answer_and_excluded_ones_are_left_out(encoder, toy_folder, tmp_path):
    data = replace(toy_data(toy_folder), negatives=None)
    options = RefreshOptions("every", 5, depth=40, negatives=5, choice="top", precision="fp32", without_answers=True)
    best = [doc_id for doc_id in top(encoder, toy_folder, 3, 40) if doc_id != "p3"]
    bad = data.corpus.documents_at(data.corpus.rows(best[:1]))[0].text
    answers = PassageAnswers(data.corpus, {"q3": (bad,)})
    collection = SimpleNamespace(excluded=lambda: {"q3": best[-1:] + best[1:2]})
    apart: Any = {"aside": lambda known: {}, "positives_elsewhere": {}}
    texts: Any = SimpleNamespace(answers=lambda match: answers, collection=collection, **apart)
    place = RefreshFolder(tmp_path)
    made = mine_refresh([encoder], Mining(data, options, 1, Filters.of(texts, [], "string", {})), place, 0, 0)
    assert made.counts["dropped as answer"] >= 1 and made.counts["dropped as excluded"] == 2 and place.newest() == made
    negatives = list(read_negatives(place.negatives(0))[3].negatives)
    texts = data.corpus.contents(data.corpus.rows(negatives))
    assert len(texts) == 5 and bad not in texts and best[1] not in negatives


def test_draws_are_of_the_top_and_depend_on_seed_refresh_and_query(encoder, toy_folder, tmp_path):
    lists = {}
    for name, number, seed in (("a", 0, 1), ("again", 0, 1), ("next", 1, 1), ("other", 0, 2)):
        found = mine(encoder, toy_folder, tmp_path / name, number, seed=seed)[1]
        lists[name] = [list(item.negatives) for item in found]
    assert lists["a"] == lists["again"]
    assert lists["a"] != lists["next"] and lists["a"] != lists["other"]
    for query in range(12):
        known = {f"p{query}", f"extra{query}", *(["c0"] if query == 0 else [])}
        best = set(top(encoder, toy_folder, query, 10)) - known
        for drawn in lists.values():
            assert len(set(drawn[query])) == len(drawn[query]) == min(4, len(best)) and set(drawn[query]) <= best


def test_each_refresh_mines_its_part_of_the_queries(encoder, toy_folder, tmp_path):
    parts = [mine(encoder, toy_folder, tmp_path, number, query_chunks=5)[1].query_ids for number in range(5)]
    assert [len(part) for part in parts] == [2, 2, 2, 2, 4]
    assert [name for part in parts for name in part] == [f"q{i}" for i in range(12)]


def test_nothing_to_train_on_is_not_published(encoder, toy_folder, tmp_path, monkeypatch):
    """The last two of the 12 queries have no positive; then, every document is relevant to all."""
    data = replace(toy_data(toy_folder), negatives=None)
    data = replace(data, positives={key: found for key, found in data.positives.items() if key not in ("q10", "q11")})
    place = RefreshFolder(tmp_path)
    told = r"refresh 5: nothing to train on, as none of its 2 queries \(of 12 in total\) has a pos"
    with pytest.raises(TrainingError, match=told):
        mine_refresh([encoder], Mining(data, RefreshOptions("every", 5, query_chunks=6), 1), place, 5, 0)
    everything = dict.fromkeys(data.query_ids, data.corpus.ids(np.arange(len(data.corpus))))
    mining = Mining(replace(data, positives=everything), RefreshOptions("every", 5, depth=10, negatives=4), 1)
    with pytest.raises(TrainingError, match="refresh 0: no negatives, as the top 10 documents of all 12 queries"):
        mine_refresh([encoder], mining, place, 0, 0)
    assert place.numbers() == [] and place.records() == [] and not list(tmp_path.glob("*.partial"))


def test_vectors_that_a_dead_process_left_are_not_made_again(encoder, toy_folder, tmp_path, monkeypatch):
    whole = [list(item.negatives) for item in mine(encoder, toy_folder, tmp_path / "whole")[1]]

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mining_module.negatives, "write_negatives", die)
        mine(encoder, toy_folder, tmp_path / "broken")
    assert (tmp_path / "broken" / "vectors-000000000" / "index").exists()
    monkeypatch.setattr("hardneg.encoders.stream.encoded_blocks", die)
    assert [list(item.negatives) for item in mine(encoder, toy_folder, tmp_path / "broken")[1]] == whole


def test_a_full_disk_gives_its_room_back(encoder, toy_folder, tmp_path, monkeypatch):
    def full(path: Path, items: Iterator[Any]) -> None:
        next(items)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mining_module.negatives, "write_negatives", full)
    with pytest.raises(OSError, match="No space left"):
        mine(encoder, toy_folder, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """9,000 documents: nine blocks."""
    from recipes.recipes import large_collection

    from hardneg.datasets.beir import Beir
    from hardneg.formats.collection import write_collection

    folder = tmp_path_factory.mktemp("large")
    write_collection(Beir(str(large_collection(folder / "data"))).load(), folder / "stored", Silent())
    return folder / "stored"


def test_two_devices_find_what_one_finds(encoder, stored, tmp_path):
    """One of them has more blocks."""
    found = []
    for count in (1, 2):
        place = RefreshFolder(tmp_path / str(count))
        others = [load_learner(encoder.spec, "cpu") for _ in range(count - 1)]
        mine_refresh([encoder, *others], mining(StoredCollection.open(stored)), place, 0, 0)
        found.append([list(item.negatives) for item in read_negatives(place.negatives(0))])
        assert json.loads((place.folder / "made.jsonl").read_text())["queries"] == 10
    assert found[0] == found[1]


@pytest.mark.slow
def test_processes_share_the_corpus_and_come_to_the_same(tiny_model, stored, tmp_path):
    files = []
    for number in (1, 2):
        out = tmp_path / str(number)
        out.mkdir()
        processes = launch([MINING, tiny_model, stored, out], number)
        assert codes(processes) == [0] * number
        made = [out / "refreshes" / f"{refresh:06d}" / "negatives.arrow" for refresh in (0, 1)]
        files.append([path.read_bytes() for path in made])
        assert sorted(path.name for path in (out / "refreshes").iterdir()) == ["000000", "000001", "lock", "made.jsonl"]
    assert files[0] == files[1]
    assert (tmp_path / "1" / "blocks-0").read_text() == f"{[*range(9)]} 1\n"
    assert [(tmp_path / "2" / f"blocks-{rank}").read_text() for rank in (0, 1)] == [
        f"{[*range(4)]} 1\n",
        f"{[*range(4, 9)]} 0\n",
    ]


def test_negatives_are_documents_by_their_best_segment(tiny_model, toy_folder, tmp_path):
    """Six tokens a segment are four of text, of which most documents have more."""
    encoder, cut = (load_learner(spec.ModelSpec(str(tiny_model), query_length=16), "cpu"), Segments(length=6, count=3))
    data = replace(toy_data(toy_folder), negatives=None, segments=cut)
    options = RefreshOptions("synchronous", every=5, depth=10, negatives=3, choice="top", precision="fp32")
    place = RefreshFolder(tmp_path)
    mine_refresh([encoder], Mining(data, options, 42), place, 0, 0)
    mined = read_negatives(place.negatives(0))
    fp32 = protocol.EncodeOptions(precision="fp32")
    vectors, counts = encoder.encode_segments(data.corpus.contents(np.arange(len(data.corpus))), cut, fp32)
    assert len(vectors) > 1.5 * len(counts)
    products = encoder.encode(data.texts, "query", fp32) @ vectors.T
    best = np.maximum.reduceat(products, np.cumsum(counts) - counts, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    assert len(mined.query_ids) == 12
    for row, query_id in enumerate(mined.query_ids):
        ranked = data.corpus.ids(order[data.query_ids.index(query_id)])
        none = {*data.positives[query_id], *(["c0"] if query_id == "q0" else [])}
        assert mined.pick(row, np.arange(3)) == [doc_id for doc_id in ranked if doc_id not in none][:3]


def test_segments_are_counted_once_for_all_refreshes(tiny_model, toy_folder, tmp_path, monkeypatch):
    encoder, cut = (load_learner(spec.ModelSpec(str(tiny_model), query_length=16), "cpu"), Segments(length=6, count=3))
    data = replace(toy_data(toy_folder), negatives=None, segments=cut)
    mining = Mining(data, RefreshOptions("synchronous", every=5, depth=10, negatives=3, choice="top"), 42)
    place = RefreshFolder(tmp_path)
    mine_refresh([encoder], mining, place, 0, 0)
    assert (tmp_path / "segments-0-of-1.npy").exists()

    def again(*_: object) -> None:
        raise AssertionError("counted again")

    monkeypatch.setattr("hardneg.encoders.stream.replacing", again)
    mine_refresh([encoder], mining, RefreshFolder(tmp_path), 1, 5)
    one, two = (read_negatives(place.negatives(number)) for number in (0, 1))
    assert [each.negatives for each in one] == [each.negatives for each in two]


SECONDS = {"encode": 1.0, "search": 1.0, "write": 1.0}


def publish(place: RefreshFolder, number: int, step: int, text: str = "negatives") -> None:
    (place.partial(number) / "negatives.arrow").write_text(text)
    place.publish(Refresh(number, step, 10, 200, SECONDS))


def test_the_newest_two_of_what_is_published_are_found_and_all_are_remembered(tmp_path):
    """One that was made twice died between the line and the name, or was damaged later: it counts once."""
    place = RefreshFolder(tmp_path / "refreshes")
    assert place.newest() is None and place.records() == []
    for number, step in ((0, 0), (1, 9), (1, 10), (2, 40)):
        publish(place, number, step)
    (place.partial(3) / "negatives.arrow").write_text("neg")  # still being written
    assert place.numbers() == [1, 2] and place.negatives(2).read_text() == "negatives"
    assert place.newest() == Refresh(2, 40, 10, 200, SECONDS) and place.newest(39) == Refresh(1, 10, 10, 200, SECONDS)
    assert json.loads((place.folder / "000002" / "manifest.json").read_text())["files"] == {"negatives.arrow": 9}
    assert [(record["number"], record["step"]) for record in place.records()] == [(0, 0), (1, 10), (2, 40)]
    place.tidy()
    assert sorted(path.name for path in place.folder.iterdir()) == ["000001", "000002", "made.jsonl"]


@pytest.mark.parametrize("name", ["negatives.arrow", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_one_is_told_once_and_removed(tmp_path, name, damage):
    place, told = RefreshFolder(tmp_path), list[str]()
    publish(place, 0, 0)
    publish(place, 1, 10)
    path = tmp_path / "000001" / name
    path.write_text(path.read_text()[:4]) if damage == "cut" else path.unlink()
    for _ in range(2):
        found = place.newest(20, told.append)
        assert found is not None and found.number == 0
    assert len(told) == 1 and "damaged" in told[0] and told[0].endswith("mining it again") and "\n" not in told[0]
    publish(place, 1, 20)
    assert place.newest() == Refresh(1, 20, 10, 200, SECONDS)


def test_what_later_models_mined_is_forgotten(tmp_path):
    place = RefreshFolder(tmp_path)
    publish(place, 4, 40)
    publish(place, 5, 50)
    for step in (40, 50, 60):
        place.vectors(step).mkdir()
    place.forget_after(45)
    assert place.numbers() == [4] and [path.name for path in tmp_path.glob("vectors-*")] == ["vectors-000000040"]
    place.forget_after(39)
    assert place.newest() is None
    for step in (40, 50):
        place.vectors(step).mkdir()
    place.tidy(50)
    assert [path.name for path in tmp_path.glob("vectors-*")] == ["vectors-000000050"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RefreshOptions("every"), ["policy 'every' needs"]),
        (RefreshOptions("synchronous"), ["policy 'synchronous' needs"]),
        (RefreshOptions("every", 0, depth=0), ["every must be at", "depth must be at", "negatives must be at most 0"]),
        (RefreshOptions("every", 10), []),
    ],
)
def test_options_that_make_no_sense(options, told):
    assert [line[: len(start)] for line, start in zip(options.problems(), told, strict=True)] == told


def test_five_parts_of_the_queries_are_all_of_them_and_the_last_has_the_remainder():
    parts = [chunk(103, number, 5) for number in range(5)]
    assert [len(part) for part in parts] == [20, 20, 20, 20, 23]
    assert [query for part in parts for query in part] == list(range(103))
    assert chunk(103, 7, 5) == parts[2]
    assert chunk(103, 9, 1) == range(103)


def test_the_last_positive_alone_is_known_where_the_published_program_is_followed():
    known = {"q1": ["d3", "d1"], "q2": ["d2"]}
    assert known_to_be_relevant(known, RefreshOptions(excluded="last")) == {"q1": ["d1"], "q2": ["d2"]}
    assert known_to_be_relevant(known, RefreshOptions()) == known


def test_threads_by_share():
    alone = World()
    assert Devices().threads(2, alone) == Devices().threads(1, alone) == (1, 1)
    assert Devices(3, 1).threads(16, alone) == (12, 4)
    assert Devices().threads(16, World(0, 2, 0, 2)) == (4, 8)
    assert Devices(0, 1).problems() == ["trainer must be at least 1, not 0"]


def test_gpus_by_share():
    first, two = torch.device("cuda:0"), World(0, 2, 0, 2)
    assert Devices().mining(torch.device("cpu"), World(), 0) == ["cpu"]
    assert Devices().mining(first, World(), 1) == ["cuda:0"]
    assert Devices().mining(first, two, 8) == ["cuda:2", "cuda:3"]
    assert Devices(1, 2).mining(first, two, 8) == ["cuda:2", "cuda:3", "cuda:4", "cuda:5"]


def test_facts_of_a_run():
    made = {"queries": 7, "seconds": {"encode": 2.0, "queries": 0.25, "search": 1.0, "write": 0.5}}
    history = [{"step": 1, "loss": 1.0}, *({"step": 2 + i, "refresh": i // 2, "lag": i} for i in range(4))]
    steps = {"refreshes used": 2, "mean lag": 1.5, "largest lag": 3, "waiting's part of the time": 0.25}
    seconds = {"encode": 6.0, "queries": 0.75, "search": 3.0, "write": 1.5}
    steps |= {"refreshes made": 3, "documents encoded": 300, "queries searched": 21}
    assert refresh_facts(history, [made] * 3, 0.25, 100) == {
        **{f"seconds of inference: {name}": value for name, value in seconds.items()},
        **steps,
    }
    assert "mean lag" not in refresh_facts([{"step": 1}], [], 0.0, 100)


NAMED = "refresh 3, mined with the model of step 15"
ERRORS = (errors.ArtifactError("cannot be read"), errors.TrainingError("no query can be used for training"))


class Woken:
    """The process beside."""

    times = 0

    def wake(self) -> None:
        self.times += 1


def published(folder: Path) -> tuple[RefreshFolder, Refresh]:
    place, refresh = RefreshFolder(folder / "refreshes"), Refresh(3, 15, 1, 1)
    (place.partial(3) / layout.NEGATIVES).write_text("none")
    place.publish(refresh)
    return place, refresh


@pytest.mark.parametrize("error", ERRORS)
def test_a_refused_refresh_ends_a_training_that_waits_and_a_damaged_one_is_made_again(tmp_path, error):
    place, refresh = published(tmp_path / "waiting")
    nothing: Any = None
    supply: RefreshProvider = SynchronousProvider(nothing, nothing, place, Checkpoints(tmp_path, ""), 0, 5, print)
    with pytest.raises(errors.TrainingError, match=f"{NAMED}: {error}$"):
        supply.refuse(refresh, error)
    assert place.numbers() == ([] if error is ERRORS[0] else [3])
    place, refresh = published(tmp_path / "beside")
    told, process = list[str](), Woken()
    beside: Any = process
    supply = BackgroundProvider(beside, place, True, 5, told.append)
    supply.refuse(refresh, error)
    then, left = ("mining it again", ([], 1)) if error is ERRORS[0] else ("not used", ([3], 0))
    assert told == [f"{NAMED}: {error}; {then}"] and (place.numbers(), process.times) == left
