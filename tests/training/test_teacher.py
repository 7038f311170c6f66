"""A teacher's scores: written, looked up, and laid into the score matrix."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training.toy import BagEncoder, options, toy_data, write_toy

from hardneg.formats.corpus import Corpus
from hardneg.losses.distillation import MarginMSE
from hardneg.runtime.progress import Silent
from hardneg.training.batches import BatchColumns, masked
from hardneg.training.examples import Examples, SampledBatch, Teacher, write_teacher
from hardneg.training.methods.dual_encoder import train
from tests.run_lists import ranked


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_toy(tmp_path_factory.mktemp("toy"))


def opened(folder, corpus: Corpus, lists: list[dict[str, float]]) -> Teacher:
    write_teacher(folder, corpus, [ranked(scores) for scores in lists])
    return Teacher.open(folder, len(corpus))


def test_looked_up_by_query_and_document(toy, tmp_path):
    corpus = Corpus.open(toy / "corpus")
    lists = [{"n3": 0.5, "p0": 0.25}, {}, {"p0": -1.0, "gone": 9.0}]
    teacher = opened(tmp_path, corpus, lists)
    assert len(teacher.keys) == 3
    documents = np.tile(corpus.rows(["p0", "n3", "p11"]), (3, 1))
    found = teacher.scores(np.array([0, 1, 2]), documents)
    expected = [[0.25, 0.5, np.nan], [np.nan] * 3, [-1, np.nan, np.nan]]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    assert np.isnan(opened(tmp_path / "none", corpus, [{}, {}]).scores(np.array([1]), documents[:1])).all()


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.integers(0, 11), st.floats(-9, 9, width=32), max_size=5), min_size=1, max_size=6))
def test_every_score_is_found_and_no_other(tmp_path_factory, toy, lists):
    corpus = Corpus.open(toy / "corpus")
    named = [{f"p{number}": score for number, score in item.items()} for item in lists]
    teacher = opened(tmp_path_factory.mktemp("t"), corpus, named)
    rows = np.tile(corpus.rows([f"p{i}" for i in range(12)]), (len(lists), 1))
    found = teacher.scores(np.arange(len(lists)), rows)
    expected = [[item.get(number, np.nan) for number in range(12)] for item in lists]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_the_matrix_has_them_at_the_rows_own_documents(toy):
    corpus = Corpus.open(toy / "corpus")
    rows = corpus.rows(["p0", "n0", "p1", "n0"]).reshape(2, 2)
    none = np.empty(0, np.int64)
    given_scores = np.array([[0.9, 0.1], [0.8, np.nan]], np.float32)
    draw = SampledBatch(["q0", "q1"], ["", ""], rows, none, none, given_scores)
    batch = masked(torch.eye(2) @ torch.ones(4, 2).T, BatchColumns.of(draw, corpus.content_hash))
    expected = torch.tensor([[0.9, 0.1, torch.nan, torch.nan], [torch.nan, torch.nan, 0.8, torch.nan]])
    assert batch.teacher is not None and torch.equal(batch.teacher.isnan(), expected.isnan())
    assert torch.equal(batch.teacher.nan_to_num(), expected.nan_to_num())
    plain = masked(torch.eye(2) @ torch.ones(4, 2).T, BatchColumns.of(replace(draw, teacher=None), corpus.content_hash))
    assert plain.teacher is None


def taught(toy, folder):
    """Positives are worth 2, a query's first three negatives 1, 0.5 and 0."""
    data = toy_data(toy)
    lists = [{f"p{i}": 2.0} | {f"n{i + j}": 1 - 0.5 * j for j in range(3)} for i in range(12)]
    return replace(data, teacher=opened(folder, data.corpus, lists), positives={f"q{i}": [f"p{i}"] for i in range(12)})


def test_draws_come_with_their_scores(toy, tmp_path):
    data = taught(toy, tmp_path)
    draw = Examples(data, 2, seed=5).draw(0, 12)
    assert draw.teacher is not None and draw.teacher.shape == (12, 3) and (draw.teacher[:, 0] == 2).all()
    for query_id, documents, scores in zip(draw.query_ids, draw.documents, draw.teacher, strict=True):
        number = int(query_id[1:])
        worth = {f"n{number + j}": 1 - 0.5 * j for j in range(3)}
        expected = [worth.get(doc_id, np.nan) for doc_id in data.corpus.ids(documents[1:])]
        np.testing.assert_array_equal(scores[1:], np.array(expected, np.float32))


def test_another_teacher_is_another_run(toy, tmp_path):
    data = taught(toy, tmp_path / "one")
    other = replace(data, teacher=opened(tmp_path / "two", data.corpus, [{"p0": 1.0}]))
    digests = {Examples(item, 2, seed=5).digest() for item in (data, other, replace(data, teacher=None))}
    assert len(digests) == 3


def test_a_student_comes_to_the_teachers_margins(toy, tmp_path):
    encoder = BagEncoder()
    settings = options(max_steps=30, accumulate=1, batch_size=12, learning_rate=3e-2)
    result = train(encoder, taught(toy, tmp_path / "t"), MarginMSE(), settings, tmp_path / "run", progress=Silent())
    losses = [record["loss"] for record in result.history]
    assert losses[-1] < 0.3 * losses[0]
