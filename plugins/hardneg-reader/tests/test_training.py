"""Training of readers: which passages teach what, the loss by hand, and several processes as one."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_reader.answering import Question
from hardneg_reader.reader import Reader
from hardneg_reader.train_reader import ReaderOptions, ReaderSpec
from hardneg_reader.training import ReaderTraining, ReadingData, ReadingLoss, reading_data, reading_validation
from processes import launch
from test_cross_batch import Watched

from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.records import Document, TrainingError
from hardneg.runtime import Silent, world
from hardneg.training import loop

TEXTS = {
    "old": "the old river, the old one",
    "blue": "a blue engine",
    "late": "so many words " * 10 + "and old",
    "none": "a quiet violin",
    "told": "nothing of use",
    "again": "an OLD engine",
    "noise": "no more words",
}
ANSWERS = {"q0": ["old"], "q1": ["blue engine", "azure"], "q2": ["old"], "q3": ["green"]}
OPTIONS = {"batch_size": 3, "negatives_per_query": 2, "max_steps": 1, "warmup_steps": 0, "precision": "fp32"}


def toy_corpus(folder: Path) -> Corpus:
    rows = [Document(doc_id, text, "words" * (doc_id == "old")) for doc_id, text in TEXTS.items()]
    write_corpus(rows, folder, Silent())
    return Corpus.open(folder)


def toy_reader(model: Path) -> Reader:
    reader = Reader.load(ReaderSpec(str(model), length=40), 1, "cpu")
    for part in reader.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return reader


def toy_data(reader: Reader, corpus: Corpus) -> ReadingData:
    lists = {"q0": ["none", "late", "old", "told", "again"], "q1": ["noise", "blue", "none"], "q2": ["again", "noise"]}
    lists |= {"q3": ["noise", "none"], "q4": []}
    asked = [Question(query_id, "what is it", corpus.rows(doc_ids)) for query_id, doc_ids in lists.items()]
    return reading_data(reader, corpus, asked, ANSWERS, {"q0": ["told", "old"]})


@pytest.fixture(scope="module")
def reader(tiny_model: Path) -> Reader:
    return toy_reader(tiny_model)


@pytest.fixture(scope="module")
def data(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> ReadingData:
    return toy_data(reader, toy_corpus(tmp_path_factory.mktemp("corpus")))


def test_passages_are_sorted_by_their_answers(data: ReadingData) -> None:
    examples = data.examples
    assert examples.positives == {"q0": ["old", "again"], "q1": ["blue"], "q2": ["again"], "q3": [], "q4": []}
    lists = examples.negatives
    assert lists is not None and lists.counts.tolist() == [1, 2, 1, 2, 0]
    assert lists.pick(0, np.array([0])) == ["none"]  # neither a known positive, nor one with an answer behind the end
    assert lists.pick(1, np.array([1, 0])) == ["none", "noise"]
    assert data.left_out == {"passages with answers only in the truncated part": 1}


def test_the_loss_of_a_batch_is_that_of_its_passages(reader: Reader, data: ReadingData) -> None:
    way = ReaderTraining(reader, data, ReaderOptions(**OPTIONS))
    assert len(way) == 3
    assert way.skipped == {"passages with answers only in the truncated part": 1, "queries without positives": 2}
    [batch] = way.batches(range(1), 3)
    scores = way.scores(way.forward_module, batch, half=False)
    assert scores.selected.shape == (3, 3) and set(batch.query_ids) == {"q0", "q1", "q2"}
    total = 0.0
    starts, ends, selected = (part.detach().double() for part in reader.module(batch.features))
    for i in range(3):
        own = selected[3 * i : 3 * i + 3].exp()
        spans = [span for span, there in zip(batch.spans[i].tolist(), batch.there[i].tolist(), strict=True) if there]
        marked = sum(float((starts[3 * i, first] + ends[3 * i, last]).exp()) for first, last in spans)
        total -= np.log(float(own[0] / own.sum())) + np.log(marked)
        assert len(spans) == 2 or batch.query_ids[i] != "q0" or batch.there.shape[1] == 1
    assert ReadingLoss()(scores).item() == pytest.approx(total / 3, rel=1e-4)


def test_without_any_answer_there_is_nothing_to_learn(reader: Reader, data: ReadingData) -> None:
    corpus = data.examples.corpus
    asked = [Question("q3", "what is it", corpus.rows(["noise", "none"]))]
    nothing = reading_data(reader, corpus, asked, ANSWERS, {})
    with pytest.raises(TrainingError, match=r"no query can be used for training \(1 queries without positives"):
        ReaderTraining(reader, nothing, ReaderOptions(**OPTIONS))


def test_without_any_answer_there_is_nothing_to_measure(reader: Reader, data: ReadingData) -> None:
    corpus = data.examples.corpus
    asked = [Question(query_id, "what is it", corpus.rows(["noise"])) for query_id in ("q0", "q4")]
    assert reading_validation(reader, corpus, asked, ANSWERS)() == {"exact_match": 0.0, "f1": 0.0}
    with pytest.raises(TrainingError, match="none of the 1 dev questions has an answer; use more questions"):
        reading_validation(reader, corpus, asked[1:], {**ANSWERS, "q4": []})


def one_step(model: str, corpus: str, out: str, number: str) -> None:
    """The gradients of one step go to a file."""
    from safetensors.torch import save_file

    reader, seen = toy_reader(Path(model)), list[dict[str, Any]]()
    loop.steps.make_optimizer = lambda module, options: Watched(module, seen)
    way = ReaderTraining(reader, toy_data(reader, Corpus.open(Path(corpus))), ReaderOptions(**OPTIONS))
    loop.learn(way, ReadingLoss(), ReaderOptions(**OPTIONS), Path(out) / f"run-{number}", progress=Silent())
    save_file(seen[0], str(Path(out) / f"{number}-{world().rank}.safetensors"))


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one(tiny_model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    toy_corpus(tmp_path / "corpus")
    given = [str(tiny_model), str(tmp_path / "corpus"), str(tmp_path)]
    running = launch([__file__, *given, "2"], 2)
    make_optimizer = loop.steps.make_optimizer
    try:
        one_step(*given, "1")
        assert [process.wait() for process in running] == [0, 0]
    finally:
        loop.steps.make_optimizer = make_optimizer
        for process in running:
            process.kill()
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    for found in two:
        assert {name.removeprefix("module.") for name in found} == set(one)
        for name, gradient in found.items():
            assert torch.allclose(gradient, one[name.removeprefix("module.")], rtol=1e-4, atol=1e-6), name


if __name__ == "__main__":
    one_step(*sys.argv[1:])
