"""Several collections in one training: how they are drawn, and what is made of what was drawn."""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import forked
import numpy as np
import pytest
import torch
from mixture_toy import STEPS, mixture_in, two_collections, write_two
from processes import launch
from safetensors.torch import load_file
from scipy.stats import chisquare
from toy import BagEncoder, options

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.pairwise import RankNet, Star
from hardneg.records.errors import TrainingError
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from hardneg.training.batches import make_batch
from hardneg.training.examples import Examples
from hardneg.training.methods.dual_encoder import DualEncoderTraining, train
from hardneg.training.sources import MixedSource, Mixture, SourceOrder, source_shares

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve queries in `one`, four in `two`; all ids of `two` are also of `one`."""
    return write_two(tmp_path_factory.mktemp("two"))


def test_shares_are_in_proportion_to_the_root_of_the_size():
    """By hand: 900 / 1000; 30 / 40; 900^(1/10) = 1.974, 100^(1/10) = 1.585."""
    assert source_shares([900, 100], 1) == pytest.approx([0.9, 0.1])
    assert source_shares([900, 100], 2) == pytest.approx([0.75, 0.25])
    assert source_shares([900, 100], 10) == pytest.approx([1.974 / 3.559, 1.585 / 3.559], abs=1e-4)
    assert source_shares([10**9, 1], 1e6) == pytest.approx([0.5, 0.5], abs=1e-4)
    assert source_shares([10**9, 10**9 - 1, 1], 0.01)[2] == pytest.approx(0)
    assert source_shares([900, 100], 1e-320).tolist() == [1, 0]


@pytest.mark.parametrize(("temperature", "part"), [(1, 1000 / 1001), (2, 31.6228 / 32.6228), (1e6, 0.5)])
def test_a_collection_a_thousand_times_smaller_is_seen_as_the_temperature_says(temperature, part):
    order = SourceOrder(source_shares([100_000, 100], temperature), seed=42)
    drawn, expected = order.counts(200_000), np.array([part, 1 - part]) * 200_000
    assert chisquare(drawn, expected).pvalue > 0.01
    others = {0.9990, 0.9693, 0.5} - {round(part, 4)}
    assert all(chisquare(drawn, np.array([other, 1 - other]) * 200_000).pvalue < 1e-9 for other in others)


def test_the_order_does_not_depend_on_how_it_is_cut():
    shares = source_shares([50, 30, 5], 2)
    sources, numbers = SourceOrder(shares, seed=3).at(0, 40_000)
    asking = SourceOrder(shares, seed=3)
    for start, count in ((39_990, 10), (16_380, 9), (0, 7), (16_384, 16_384), (5, 30_000)):
        part = asking.at(start, count)
        assert np.array_equal(part[0], sources[start : start + count])
        assert np.array_equal(part[1], numbers[start : start + count])
    for source in range(3):
        assert np.array_equal(numbers[sources == source], np.arange((sources == source).sum()))
        assert asking.counts(20_000)[source] == (sources[:20_000] == source).sum()
    assert not np.array_equal(sources, SourceOrder(shares, seed=4).at(0, 40_000)[0])


@pytest.mark.parametrize("one_source", [True, False])
def test_each_source_is_drawn_as_in_a_training_on_it_alone(folder, one_source):
    chosen, mixture = options(batch_size=5), mixture_in(folder, temperature=3.0, one_source=one_source)
    batches = [mixture.examples(chosen).draw(start, 5) for start in range(0, 300, 5)]
    assert all((len(set(batch.sources.tolist())) == 1) is one_source for batch in batches[:10])
    for number, data in enumerate(two_collections(folder)):
        own = [(batch, batch.sources == number) for batch in batches]
        drawn = np.concatenate([batch.documents[rows] for batch, rows in own])
        alone = Examples(data, 2, chosen.seed).draw(0, len(drawn))
        assert np.array_equal(drawn - mixture.corpus.starts[number], alone.documents)
        texts = [text for batch, rows in own for text, mine in zip(batch.texts, rows, strict=True) if mine]
        assert texts == alone.texts
    for batch in batches:  # the known positives of each row are its own, of its own collection
        for row, query_id in enumerate(batch.query_ids):
            corpus = mixture.corpus.corpora[batch.sources[row]]
            known = corpus.ids(batch.known[batch.owner == row] - mixture.corpus.starts[batch.sources[row]])
            assert sorted(known) == sorted(two_collections(folder)[0].positives[query_id])


def test_joined_corpora_have_the_texts_and_hashes_of_each(folder):
    one, two = (data.corpus for data in two_collections(folder))
    joined, rows = mixture_in(folder).corpus, np.array([len(one) + 3, 0, len(one), len(one) - 1, 0])
    assert joined.contents(rows) == [
        *two.contents([3]),
        *one.contents([0]),
        *two.contents([0]),
        *one.contents([-1 + len(one), 0]),
    ]
    assert joined.content_hash[rows].tolist() == [
        two.content_hash[3],
        one.content_hash[0],
        two.content_hash[0],
        one.content_hash[-1],
        one.content_hash[0],
    ]


def test_a_cap_leaves_so_many_queries_and_counts_for_the_share(folder):
    one, two = two_collections(folder)

    def seen(cap: int | None) -> set[str]:
        mixture = Mixture({"one": MixedSource(one, cap), "two": MixedSource(two)})
        examples = mixture.examples(options())
        assert len(examples) == (12 if cap is None else min(cap, 12)) + 4
        assert examples.skipped == ({"queries of one above its cap": 12 - cap} if cap and cap < 12 else {})
        draws = examples.draw(0, 400)
        of_one = draws.sources == 0
        wanted = (len(examples) - 4) / len(examples)
        assert chisquare([of_one.sum(), (~of_one).sum()], [400 * wanted, 400 * (1 - wanted)]).pvalue > 0.01
        return {query_id for query_id, mine in zip(draws.query_ids, of_one, strict=True) if mine}

    some, more = seen(3), seen(7)
    assert len(some) == 3 and len(more) == 7 and some < more
    assert len(seen(None)) == len(seen(100)) == 12


def test_what_changes_the_draws_changes_the_digest(folder):
    one, two = two_collections(folder)
    plain = {"one": MixedSource(one), "two": MixedSource(two)}
    own = {name: MixedSource(two, **more) for name, more in OWN.items()}
    mixtures = [Mixture(plain), Mixture(plain, 2.0), Mixture(plain, one_source=True)]
    mixtures += [Mixture({**plain, "two": source}) for source in own.values()]
    digests = {mixture.examples(options()).digest() for mixture in mixtures}
    assert len(digests) == len(mixtures) == 6
    assert Mixture(dict(plain)).examples(options()).digest() in digests


OWN: dict[str, dict[str, Any]] = {
    "cap": {"cap": 3},
    "prompt": {"prompts": {"query": "find: "}},
    "loss": {"loss": InfoNCE(0.5)},
}


def test_a_source_without_anything_to_learn_from_is_named(folder):
    one, two = two_collections(folder)
    mixture = Mixture({"one": MixedSource(one), "two": MixedSource(replace(two, positives={}))})
    with pytest.raises(TrainingError, match="two: no query can be trained on: 4 queries without positives"):
        mixture.examples(options())


def weights_after(data: Any, loss: Any, out: Path, **more: Any) -> list[np.ndarray]:
    encoder: Any = BagEncoder()
    train(encoder, data, loss, options(**{**STEPS, **more}), out, progress=Silent())
    return [tensor.detach().numpy().copy() for tensor in encoder.module.state_dict().values()]


def test_one_source_alone_gives_the_weights_of_a_training_without_sources(folder, tmp_path):
    one, _ = two_collections(folder)
    plain = weights_after(one, Star(), tmp_path / "plain")
    for name, more in {"mixed": {}, "apart": {"one_source": True, "temperature": 5.0}}.items():
        mixed = weights_after(Mixture({"x": MixedSource(one)}, **more), Star(), tmp_path / name)
        assert all(np.array_equal(a, b) for a, b in zip(plain, mixed, strict=True)), name


def test_the_loss_of_a_source_is_its_own(folder, tmp_path):
    """With one source, a training by its loss; with two, each batch by the loss of its source."""
    one, two = two_collections(folder)
    own = Mixture({"x": MixedSource(one, loss=RankNet())}, one_source=True)
    found = weights_after(own, Star(), tmp_path / "own")
    plain = weights_after(one, RankNet(), tmp_path / "plain")
    assert all(np.array_equal(a, b) for a, b in zip(plain, found, strict=True))

    both = Mixture({"one": MixedSource(one, loss=Constant(1.0)), "two": MixedSource(two)}, 10.0, one_source=True)
    encoder: Any = BagEncoder()
    result = train(encoder, both, Constant(2.0), options(**STEPS), tmp_path / "both", progress=Silent())
    sources, _ = SourceOrder(source_shares([12, 4], 10.0), seed=options().seed).at(0, 8)
    assert [record["loss"] for record in result.history] == [float(1 + source) for source in sources]
    assert len(set(sources.tolist())) == 2


@dataclass(frozen=True)
class Constant:
    value: float
    version: ClassVar[int] = 1

    def __call__(self, batch: Any) -> torch.Tensor:
        return batch.scores.sum() * 0 + self.value


@pytest.mark.parametrize("prompts", [{"query": "find: ", "document": "read this: "}, {"document": "read this: "}])
def test_prompts_of_a_source_reach_its_texts_alone(folder, tiny_model, prompts):
    one, two = two_collections(folder)
    encoder = load_learner(ModelSpec(str(tiny_model), query_prompt="own: ", query_length=16, document_length=24), "cpu")
    mixture = Mixture({"one": MixedSource(one), "two": MixedSource(two, prompts=prompts)}, 10.0)
    drawn = mixture.examples(options(batch_size=6)).draw(0, 6)
    assert set(drawn.sources.tolist()) == {0, 1}
    batch = make_batch(encoder, mixture.corpus, drawn)
    bare = encoder.prompted("query", "").prompted("document", "")
    before = [{"query": "own: ", "document": ""}, {"query": "own: ", "document": "", **prompts}]
    texts = [before[at]["query"] + text for at, text in zip(drawn.sources.tolist(), drawn.texts, strict=True)]
    rows = np.unique(drawn.documents)
    contents = [
        before[int(row >= mixture.corpus.starts[1])]["document"] + text
        for row, text in zip(rows, mixture.corpus.contents(rows), strict=True)
    ]
    for features, expected in (
        (batch.queries, bare.features(texts, "query")),
        (batch.documents, bare.features(contents, "document")),
    ):
        assert features.keys() == expected.keys()
        assert all(torch.equal(features[name], expected[name]) for name in expected)


@pytest.mark.parametrize("one_source", [True, False])
def test_two_processes_have_together_what_one_draws(folder, one_source, monkeypatch):
    """Shares lie in a row: put together they are the batch of one process, texts and all."""
    mixture, chosen, bag = (
        mixture_in(folder, temperature=2.0, one_source=one_source),
        options(batch_size=5),
        BagEncoder(),
    )
    whole = list(DualEncoderTraining(bag, mixture, chosen).batches(range(0, 60, 5), 5))
    shares = []
    for rank in range(2):
        monkeypatch.setattr("hardneg.training.methods.dual_encoder.world", lambda rank=rank: World(rank, 2))
        shares.append(list(DualEncoderTraining(BagEncoder(), mixture, chosen).batches(range(0, 60, 5), 5)))
    for one, first, second in zip(whole, *shares, strict=True):
        assert one.query_ids == first.query_ids == second.query_ids
        assert torch.equal(one.column, first.column) and torch.equal(one.column, second.column)
        assert one.source == first.source == second.source and (one.source is not None or not one_source)
        for side in ("queries", "documents"):
            parts = [getattr(batch, side)["words"] for batch in (first, second)]
            assert torch.equal(getattr(one, side)["words"], torch.cat(parts))


def started(folder: Path, out: Path, one_source: bool, killed_at: int) -> int:
    command = [str(HERE / "mixture_toy.py"), str(folder), str(out), str(one_source), str(killed_at)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    return forked.run([sys.executable, *command], env=environment).returncode


@pytest.mark.slow
@pytest.mark.parametrize("one_source", [True, False])
def test_a_killed_training_ends_with_the_same_bytes(folder, tmp_path, one_source):
    assert started(folder, tmp_path / "whole", one_source, 0) == 0
    for killed_at in (2, 3):
        assert started(folder, tmp_path / "killed", one_source, killed_at) == -9
    assert started(folder, tmp_path / "killed", one_source, 0) == 0
    whole, killed = ((tmp_path / name / "final-0.safetensors").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


@pytest.mark.slow
@pytest.mark.parametrize("one_source", [True, False])
def test_two_processes_come_to_the_weights_of_one(folder, tmp_path, one_source, monkeypatch):
    monkeypatch.setattr(BagEncoder, "__init__", without_dropout(BagEncoder.__init__))
    alone = weights_after(mixture_in(folder, temperature=2.0, one_source=one_source), Star(), tmp_path / "one")
    program = [HERE / "mixture_toy.py", folder, tmp_path / "both", one_source, 0]
    assert [process.wait() for process in launch(program, 2)] == [0, 0]
    for rank in range(2):
        found = load_file(tmp_path / "both" / f"final-{rank}.safetensors")
        names = list(BagEncoder().module.state_dict())
        for name, expected in zip(names, alone, strict=True):
            torch.testing.assert_close(found[name], torch.from_numpy(expected), rtol=1e-3, atol=1e-4)


def without_dropout(init: Any) -> Any:
    def made_still(self: BagEncoder) -> None:
        init(self)
        self.module.dropout.p = 0.0

    return made_still
