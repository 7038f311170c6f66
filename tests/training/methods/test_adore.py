"""Query-side training, with the index's centroids or without."""

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
import torch
from processes import codes, free_port
from query_toy import DEPTH, TwinBags, approach, joint, open_index, run, write_index
from toy import Interrupted, options, toy_data

from hardneg.formats.arrays import known_to
from hardneg.indexes.product import OpqPq, Pq
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairwise import LambdaLoss, RankNet
from hardneg.records import TrainingError
from hardneg.runtime import Silent
from hardneg.training.checkpoint import weights_digest
from hardneg.training.examples import QueryRows, TrainingData
from hardneg.training.methods.adore import JpqTraining, code_products, label
from hardneg.training.step import make_optimizer

HERE = Path(__file__).parents[1]
SCHEDULES = ["dynamic", "static", "refreshed", "random"]


@pytest.fixture(scope="module")
def data(toy_folder: Path) -> TrainingData:
    return toy_data(toy_folder)


@pytest.fixture(scope="module")
def index(data: TrainingData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    write_index(folder, data, TwinBags())
    return folder


def asked(known: list[list[int]]) -> QueryRows:
    names = [f"q{i}" for i in range(len(known))]
    rows = np.array([row for part in known for row in part], np.int64)
    owner = np.repeat(np.arange(len(known)), [len(part) for part in known])
    return QueryRows(names, names, np.arange(len(known)), rows, owner)


def test_an_entry_is_known_to_its_own_row_only():
    known, owner = np.array([3, 5, 3]), np.array([0, 0, 2])
    found = known_to(np.array([[5, 3, 1], [5, 3, 9], [5, 3, -1]]), known, owner, 3)
    assert found.tolist() == [[True, True, False], [False] * 3, [False, True, False]]
    assert known_to(np.array([3, 4]), known, owner, 3).tolist() == [[True, False], [False] * 2, [True, False]]
    assert not known_to(np.array([[1]]), known[:0], owner[:0], 1).any()


LISTS = np.array([[4, 1, 2], [3, 0, 5], [6, -1, -1]])
KNOWN = [[1, 7], [8, 9], [6]]


@pytest.mark.parametrize(
    ("forced", "added"),
    [
        ("none_retrieved", [[-1, -1], [8, 9], [-1, -1]]),
        ("always", [[7, -1], [8, 9], [-1, -1]]),
        ("never", [[], [], []]),
    ],
)
def test_positives_are_added_behind_the_list(forced, added):
    contents = np.arange(10, dtype=np.uint64)
    contents[2] = contents[7]
    found = label(LISTS, asked(KNOWN), contents, forced)
    assert found.rows.tolist() == [[*line, *more] for line, more in zip(LISTS.tolist(), added, strict=True)]
    assert found.positive.tolist() == [[row in KNOWN[i] for row in line] for i, line in enumerate(found.rows.tolist())]
    assert found.valid[:, :3].tolist() == [[True, True, False], [True, True, True], [True, False, False]]
    assert found.ranks[:, :3].tolist() == [[1, 2, 3], [1, 2, 3], [1, 0, 0]]
    if forced == "none_retrieved":
        assert found.ranks[:, 3:].tolist() == [[0, 0], [4, 5], [0, 0]]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_queries_learn_and_the_documents_stay(data, index, tmp_path, schedule):
    way: Any = approach(schedule, data, open_index(index), tmp_path)
    before = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(index.iterdir())]
    documents, queries = (weights_digest(way.encoder.documents), weights_digest(way.encoder.module))
    result = run(way, tmp_path, max_steps=30, checkpoint_every=None)
    losses = [record["loss"] for record in result.history]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert weights_digest(way.encoder.documents) == documents
    assert weights_digest(way.encoder.module) != queries
    assert before == [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(index.iterdir())]


@pytest.mark.parametrize("loss", [RankNet(), InfoNCE(negatives="own"), LambdaLoss(cut=3, weight="exact")], ids=repr)
@pytest.mark.parametrize("dropout", [True, False])
def test_a_batch_is_what_a_search_by_hand_finds(data, index, tmp_path, loss, dropout):
    way: Any = approach("dynamic", data, open_index(index), tmp_path, forced="always", dropout=dropout)
    way.trainable.train()
    batch = next(way.batches(range(0, 4, 4), 4))
    torch.manual_seed(1)
    found = way.scores(way.forward_module, batch, half=False)
    torch.manual_seed(1)
    vectors = way.forward_module(batch.features)[0].detach().numpy()
    searching = vectors if dropout else way.encoder.encode(batch.rows.texts, "query")
    documents = np.array(way.searcher.flat.vectors)
    for row, query_id in enumerate(batch.query_ids):
        order = np.argsort(-(documents @ searching[row]), kind="stable")[:DEPTH]
        known = data.corpus.rows(data.positives[query_id])
        rows = [*order, *(item for item in known if item not in order)]
        assert found.scores[row, : len(rows)].tolist() == pytest.approx(documents[rows] @ vectors[row], abs=1e-5)
        assert found.ranks is not None
        assert found.ranks[row].tolist() == [*range(1, len(rows) + 1), *[0] * (found.scores.shape[1] - len(rows))]
        assert found.positive[row, : len(rows)].tolist() == [item in known for item in rows]
        copy = data.corpus.rows(["c0"])[0] if query_id == "q0" else -1
        assert found.valid[row, : len(rows)].tolist() == [item != copy for item in rows]
        assert not found.valid[row, len(rows) :].any() and not found.own[row, DEPTH:].any()
    loss(found).backward()
    assert all(part.grad is None for part in way.encoder.documents.parameters())
    assert way.encoder.module.head.weight.grad.any()


def test_lists_that_are_not_searched_rank_by_the_scores_of_the_step(data, index, tmp_path):
    way = approach("static", data, open_index(index), tmp_path)
    way.prepare(0)
    found = way.scores(way.forward_module, next(way.batches(range(0, 4, 4), 4)), half=False)
    assert found.ranks is not None
    for scores, ranks in zip(found.scores.tolist(), found.ranks.tolist(), strict=True):
        real = [(score, rank) for score, rank in zip(scores, ranks, strict=True) if rank]
        assert [rank for _, rank in sorted(real, reverse=True)] == list(range(1, len(real) + 1))


def test_a_depth_beyond_the_corpus_is_padded(data, index, tmp_path):
    way: Any = approach("dynamic", data, open_index(index), tmp_path)
    way.source.depth = 100
    result = run(way, tmp_path, max_steps=2, loss=LambdaLoss(cut=100))
    assert np.isfinite([record["loss"] for record in result.history]).all()


def test_the_watch_tells_how_negatives_age(data, index, tmp_path):
    result = run(approach("dynamic", data, open_index(index), tmp_path, every=3), tmp_path, max_steps=6)
    drift = {record["step"]: record["drift"] for record in result.history if "drift" in record}
    assert list(drift) == [0, 3, 6]
    assert set(drift[0]) == {"overlap", "best_rank", "best_rank_median", "mrr@10"}
    assert all(0 <= item["overlap"] <= 1 <= item["best_rank"] and 0 <= item["mrr@10"] <= 1 for item in drift.values())


def test_lists_that_are_gone_are_told(data, index, tmp_path):
    run(approach("refreshed", data, open_index(index), tmp_path), tmp_path, max_steps=6)
    assert [path.name for path in tmp_path.glob("lists-*")] == ["lists-000000004.npy"]
    way = approach("refreshed", data, open_index(index), tmp_path)
    next(tmp_path.glob("lists-*")).unlink()
    with pytest.raises(TrainingError, match="the lists of step 4 are missing; remove"):
        way.prepare(5)


def start(toy: Path, index: Path, folder: Path, schedule: str, killed_at: int) -> int:
    command = [sys.executable, str(HERE / "query_toy.py"), *map(str, (toy, index, folder, schedule, killed_at))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    return forked.run(command, env=environment).returncode


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["dynamic", "refreshed"])
def test_a_killed_run_ends_with_the_same_bytes(toy_folder, index, tmp_path, schedule):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(toy_folder, index, whole, schedule, 0) == 0
    assert start(toy_folder, index, broken, schedule, 7) == -9
    assert start(toy_folder, index, broken, schedule, 0) == 0
    names = ["final.safetensors", "history.jsonl"]
    names += [f"checkpoints/step-000000012/{name}.safetensors" for name in ("model", "optimizer")]
    for name in names:
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name


CASES = ["dynamic", "refreshed"]
JOINT = ["pq:dynamic", "opq-pq:dynamic", "opq-pq:refreshed"]


@pytest.fixture(scope="module")
def learnt(toy_folder: Path, index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process and two come to; the two are stopped and go on."""
    port = str(free_port())
    cases, out = [*CASES], tmp_path_factory.mktemp("several")
    if find_spec("faiss"):
        Pq(subvectors=4, bits=4).build(index, index / "pq", Silent())
        OpqPq(subvectors=4, bits=4).build(index, index / "opq-pq", Silent())
        cases += JOINT
    command = [sys.executable, str(HERE / "query_toy.py"), str(toy_folder), str(index), str(out), *cases]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    several = {**shared, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    places = [{**several, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    running = [forked.Program(command, env=place) for place in (shared, *places)]
    assert codes(running) == [0] * 3
    return out


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *JOINT])
def test_several_processes_learn_what_one_does(learnt, case):
    from safetensors.torch import load_file

    if not (learnt / f"1-{case}").exists():
        pytest.skip("product quantisation needs faiss")
    one = load_file(learnt / f"1-{case}" / "final-0.safetensors")
    assert ("centroids" in one, "rotation" in one) == (":" in case, "opq" in case)
    histories = [(learnt / f"{size}-{case}" / "history.jsonl").read_text().splitlines() for size in (1, 2)]
    assert len(histories[0]) == len(histories[1]) == 1 + 6
    for rank in (0, 1):
        other = load_file(learnt / f"2-{case}" / f"final-{rank}.safetensors")
        assert other.keys() == one.keys()
        for name, tensor in one.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-4, atol=1e-5)


needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="product quantisation needs faiss")


def test_products_of_codes_are_those_of_the_vectors_and_have_gradients() -> None:
    source = torch.Generator().manual_seed(3)
    queries = torch.randn(2, 6, generator=source, dtype=torch.float64, requires_grad=True)
    centroids = torch.randn(3, 4, 2, generator=source, dtype=torch.float64, requires_grad=True)
    codes = torch.randint(0, 4, (2, 5, 3), generator=source)
    vectors = centroids[torch.arange(3), codes].reshape(2, 5, 6)
    expected = (vectors @ queries[:, :, None]).squeeze(2)
    assert torch.allclose(code_products(queries, centroids, codes), expected)
    assert torch.autograd.gradcheck(lambda q, c: code_products(q, c, codes), (queries, centroids))


def made(toy: Path, folder: Path, kind: str) -> JpqTraining:
    data, index = toy_data(toy), folder / kind
    if not index.exists():
        write_index(folder / "flat", data, TwinBags())
        (OpqPq if kind == "opq-pq" else Pq)(subvectors=4, bits=4).build(folder / "flat", index, Silent())
    return joint(index, "dynamic", data, folder, forced="always")


@needs_faiss
@pytest.mark.parametrize("kind", ["pq", "opq-pq"])
def test_the_scores_are_the_index_own_and_follow_the_centroids(toy_folder: Path, tmp_path: Path, kind: str) -> None:
    way = made(toy_folder, tmp_path, kind)
    before, file = way.searcher.centroids(), (tmp_path / kind / "index").read_bytes()
    run(way, tmp_path / "run", max_steps=4, loss=LambdaLoss(cut=DEPTH))
    assert np.abs(way.centroids - before).max() > 1e-3
    assert (tmp_path / kind / "index").read_bytes() == file
    way.trainable.eval()
    batch = next(way.batches(range(0, 4, 4), 4))
    found = way.scores(way.forward_module, batch, half=False)
    assert np.array_equal(way.searcher.centroids(), way.centroids)
    hits = way.searcher.search(way.encoder.encode(batch.rows.texts, "query"), DEPTH)
    assert found.scores[:, :DEPTH].detach().numpy() == pytest.approx(hits.scores, abs=1e-4)


@needs_faiss
def test_centroids_have_a_rate_of_their_own_and_do_not_decay(toy_folder: Path, tmp_path: Path) -> None:
    way = made(toy_folder, tmp_path, "pq")
    *others, own = make_optimizer(way.forward_module, options()).param_groups
    assert (own["factor"], own["weight_decay"], own["params"]) == (3.0, 0.0, [way.forward_module.centroids])
    assert all("factor" not in group for group in others)
    assert sum(len(group["params"]) for group in others) == len(list(way.encoder.module.parameters()))


@needs_faiss
def test_a_stopped_run_goes_on_with_the_same_centroids(toy_folder: Path, tmp_path: Path) -> None:
    whole = made(toy_folder, tmp_path, "pq")
    run(whole, tmp_path / "whole", max_steps=6, checkpoint_every=None)
    broken = made(toy_folder, tmp_path, "pq")
    with pytest.raises(KeyboardInterrupt):
        run(broken, tmp_path / "broken", max_steps=6, progress=Interrupted(5))
    again = made(toy_folder, tmp_path, "pq")
    run(again, tmp_path / "broken", max_steps=6)
    assert np.array_equal(again.centroids, whole.centroids)
