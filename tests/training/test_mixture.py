"""Labelled and pseudo-labelled queries in one order."""

from dataclasses import replace

import numpy as np
import pytest
from training.toy import toy_data, write_toy

from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import Negatives, TrainingError
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.sources import JoinedLists, mixed


@pytest.fixture
def parts(tmp_path) -> tuple[TrainingData, TrainingData]:
    """12 queries with six negatives each, and three more with one or two."""
    data = toy_data(write_toy(tmp_path))
    rows = [Negatives(f"u{i}", [f"p{i}"], [f"n{j}" for j in range(1 + i % 2)], np.zeros(1 + i % 2)) for i in range(3)]
    write_negatives(tmp_path / "more.arrow", rows)
    more = read_negatives(tmp_path / "more.arrow")
    return data, TrainingData(data.corpus, more.query_ids, ["amber", "birch", "cedar"], more.positives, more)


def test_each_query_once_an_epoch_with_its_own_documents(parts):
    data, more = parts
    both = mixed(data, more)
    examples = Examples(both, 1, seed=3)
    assert len(examples) == 15 and not examples.skipped
    draw = examples.draw(0, 15)
    assert sorted(draw.query_ids) == sorted([*data.query_ids, *more.query_ids])
    assert draw.query_ids != [*data.query_ids, *more.query_ids]
    texts = dict(zip(both.query_ids, both.texts, strict=True))
    assert draw.texts == [texts[query_id] for query_id in draw.query_ids]
    for query_id, (positive, negative) in zip(draw.query_ids, draw.documents.tolist(), strict=True):
        number, own = int(query_id[1:]), data if query_id[0] == "q" else more
        assert data.corpus.ids(np.array([positive]))[0] in own.positives[query_id]
        allowed = range(number, number + 6) if own is data else range(1 + number % 2)
        assert data.corpus.ids(np.array([negative]))[0] in {f"n{j}" for j in allowed}


def test_rows_of_joined_lists(parts):
    data, more = parts
    joined = JoinedLists([data.negatives, more.negatives])
    assert joined.query_ids == [*data.query_ids, *more.query_ids]
    assert joined.counts.tolist() == [6] * 12 + [1, 2, 1]
    assert joined.pick(0, np.array([0, 5])) == ["n0", "n5"] and joined.pick(11, np.array([2])) == ["n13"]
    assert joined.pick(12, np.array([0])) == ["n0"] and joined.pick(13, np.array([1, 0])) == ["n1", "n0"]


def test_positives_alone_where_no_negatives_are_drawn(parts):
    data, more = parts
    both = mixed(replace(data, negatives=None), more)
    assert both.negatives is None and len(Examples(both, 0, seed=3)) == 15


def test_other_examples_give_another_digest(parts):
    data, more = parts
    some = mixed(data, replace(more, query_ids=more.query_ids[:2], texts=more.texts[:2]))
    found = {Examples(item, 1, seed=3).digest() for item in (data, some, mixed(data, more))}
    assert len(found) == 3


def test_a_query_cannot_be_in_both(parts):
    data, more = parts
    with pytest.raises(TrainingError, match="1 query is in both sets of examples, such as 'q3'"):
        mixed(data, replace(more, query_ids=["u0", "q3", "u2"]))
