"""Several collections in one training: how they are drawn, and what is made of what was drawn."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
import torch
from mixture_toy import STEPS, mixture_in, two_collections, write_two
from processes import codes, launch
from safetensors.torch import load_file
from scipy.stats import chisquare
from toy import BagEncoder, options

from hardneg.losses.pairwise import Star
from hardneg.records import TrainingError
from hardneg.runtime import distributed, progress
from hardneg.training.examples import Examples
from hardneg.training.methods.dual_encoder import DualEncoderTraining, train
from hardneg.training.sources import Mixture, SourceOrder, source_shares

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
    sources = [np.searchsorted(mixture.corpus.starts, batch.documents[:, 0], "right") - 1 for batch in batches]
    assert all((len(set(rows.tolist())) == 1) is one_source for rows in sources[:10])
    for number, data in enumerate(two_collections(folder)):
        own = [(batch, rows == number) for batch, rows in zip(batches, sources, strict=True)]
        drawn = np.concatenate([batch.documents[rows] for batch, rows in own])
        alone = Examples(data, 2, chosen.seed).draw(0, len(drawn))
        assert np.array_equal(drawn - mixture.corpus.starts[number], alone.documents)
        texts = [text for batch, rows in own for text, mine in zip(batch.texts, rows, strict=True) if mine]
        assert texts == alone.texts
    for batch, of in zip(batches, sources, strict=True):  # the known positives of each row are its own collection's
        for row, query_id in enumerate(batch.query_ids):
            corpus = mixture.corpus.corpora[of[row]]
            known = corpus.ids(batch.known[batch.owner == row] - mixture.corpus.starts[of[row]])
            assert sorted(known) == sorted(two_collections(folder)[0].positives[query_id])


def test_joined_corpora_have_the_texts_and_hashes_of_each(folder):
    one, two = (data.corpus for data in two_collections(folder))
    joined, rows = mixture_in(folder).corpus, np.array([len(one) + 3, 0, len(one), len(one) - 1, 0])
    of = [(two, 3), (one, 0), (two, 0), (one, len(one) - 1), (one, 0)]
    assert joined.contents(rows) == [text for corpus, row in of for text in corpus.contents([row])]
    assert joined.content_hash[rows].tolist() == [corpus.content_hash[row] for corpus, row in of]


def test_what_changes_the_draws_changes_the_digest(folder):
    one, two = two_collections(folder)
    plain = {"one": one, "two": two}
    mixtures = [Mixture(plain), Mixture(plain, 2.0), Mixture(plain, one_source=True), Mixture({"one": one, "b": two})]
    digests = {mixture.examples(options()).digest() for mixture in mixtures}
    assert len(digests) == len(mixtures)
    assert Mixture(dict(plain)).examples(options()).digest() in digests


def test_a_source_without_anything_to_learn_from_is_named(folder):
    one, two = two_collections(folder)
    mixture = Mixture({"one": one, "two": replace(two, positives={})})
    with pytest.raises(TrainingError, match=r"two: no query can be used for training \(4 queries without positives"):
        mixture.examples(options())


def weights_after(data: Any, loss: Any, out: Path, **more: Any) -> list[np.ndarray]:
    encoder: Any = BagEncoder()
    train(encoder, data, loss, options(**{**STEPS, **more}), out, progress=progress.Silent())
    return [tensor.detach().numpy().copy() for tensor in encoder.module.state_dict().values()]


def test_one_source_alone_gives_the_weights_of_a_training_without_sources(folder, tmp_path):
    one, _ = two_collections(folder)
    plain = weights_after(one, Star(), tmp_path / "plain")
    for name, more in {"mixed": {}, "apart": {"one_source": True, "temperature": 5.0}}.items():
        mixed = weights_after(Mixture({"x": one}, **more), Star(), tmp_path / name)
        assert all(np.array_equal(a, b) for a, b in zip(plain, mixed, strict=True)), name


@pytest.mark.parametrize("one_source", [True, False])
def test_two_processes_have_together_what_one_draws(folder, one_source, monkeypatch):
    """Shares lie in a row: put together they are the batch of one process, texts and all."""
    mixture, bag = mixture_in(folder, temperature=2.0, one_source=one_source), BagEncoder()
    chosen = options(batch_size=5)
    whole = list(DualEncoderTraining(bag, mixture, chosen).batches(range(0, 60, 5), 5))
    shares = []
    for rank in range(2):
        monkeypatch.setattr("hardneg.training.batches.world", lambda rank=rank: distributed.World(rank, 2))
        shares.append(list(DualEncoderTraining(BagEncoder(), mixture, chosen).batches(range(0, 60, 5), 5)))
    for one, first, second in zip(whole, *shares, strict=True):
        assert one.query_ids == first.query_ids == second.query_ids
        assert torch.equal(one.column, first.column) and torch.equal(one.column, second.column)
        for side in ("queries", "documents"):
            parts = [getattr(batch, side)["words"] for batch in (first, second)]
            assert torch.equal(getattr(one, side)["words"], torch.cat(parts))


@pytest.mark.slow
@pytest.mark.parametrize("one_source", [True, False])
def test_two_processes_come_to_the_weights_of_one(folder, tmp_path, one_source):
    still: Any = BagEncoder()
    still.module.dropout.p = 0.0
    mixture = mixture_in(folder, temperature=2.0, one_source=one_source)
    train(still, mixture, Star(), options(**STEPS), tmp_path / "one", progress=progress.Silent())
    program = [HERE / "mixture_toy.py", folder, tmp_path / "both", one_source, 0]
    assert codes(launch(program, 2)) == [0, 0]
    for rank in range(2):
        found = load_file(tmp_path / "both" / f"final-{rank}.safetensors")
        for name, expected in still.module.state_dict().items():
            torch.testing.assert_close(found[name], expected, rtol=1e-3, atol=1e-4)


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
