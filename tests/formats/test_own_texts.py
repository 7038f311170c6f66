"""What a query's own text excludes: itself as a document, and positives of queries of the same text."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.corpus import Corpus, own_documents, set_aside
from hardneg.mining.choosing import Choosing
from hardneg.mining.filters import Filters, MiningTexts
from hardneg.mining.ranks import Random, TopK
from hardneg.records import Document, Judgement, Query
from hardneg.runtime import Silent
from hardneg.training.batches import BatchColumns
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.methods.adore import label
from tests.run_lists import ranked

DOCUMENTS = [
    Document("q1", "keep  cats"),  # the first query, but for a blank
    Document("a", "more cats"),
    Document("copy", "keep cats"),
    Document("q2", "no cats", "Pets"),  # the second query, under a title
    Document("3", "a numbered text"),
    Document("b", "cats again"),
    Document("c", "dogs"),
]
QUERIES = [Query("q1", "keep cats"), Query("q2", "no cats"), Query("3", "another text"), Query("t1", "  keep cats ")]
POSITIVES = {"q1": ["a"], "q2": ["c"], "3": ["c"], "t1": ["b"]}


class Made:
    """Three queries of train; t1 of test has the text of q1."""

    def documents(self):
        return iter(DOCUMENTS)

    def splits(self):
        return ["train", "test"]

    def queries(self, split):
        return (query for query in QUERIES if query.query_id.startswith("t") == (split == "test"))

    def qrels(self, split):
        own = {query.query_id for query in self.queries(split)}
        return (Judgement(name, doc_id, 1) for name, ids in POSITIVES.items() for doc_id in ids if name in own)

    def notes(self):
        return []


@pytest.fixture
def stored(tmp_path: Path) -> StoredCollection:
    write_collection(Made(), tmp_path / "stored", Silent())
    return StoredCollection.open(tmp_path / "stored")


def named(corpus: Corpus, rows) -> set[str]:
    return set(corpus.ids(np.asarray(rows)))


def test_a_document_is_a_query_by_its_text_or_by_its_id_and_its_text_under_a_title(stored):
    ids, texts = zip(*QUERIES, strict=True)
    rows, owner = own_documents(stored.corpus, ids, texts)
    found = {(ids[at], stored.corpus.ids(np.array([row]))[0]) for row, at in zip(rows, owner.tolist(), strict=True)}
    assert found == {("q1", "q1"), ("q1", "copy"), ("q2", "q2"), ("t1", "q1"), ("t1", "copy")}


def test_queries_of_one_text_share_their_positives(stored):
    ids, texts = zip(*QUERIES, strict=True)
    aside, sharing = set_aside(stored.corpus, ids, texts, POSITIVES)
    by_query = {ids[at]: named(stored.corpus, rows) for at, rows in aside.items()}
    same = {"q1", "copy", "a", "b"}
    assert by_query == {"q1": same, "t1": same, "q2": {"q2"}} and sharing == {"q1", "t1"}


@pytest.mark.parametrize("copies", [True, False])
def test_neither_miners_nor_fillers_take_them(stored, copies):
    hits = {"dense": ranked({name: float(-place) for place, name in enumerate(["q1", "copy", "b", "3", "a", "c"])})}
    texts, facts = MiningTexts(stored, "train"), Counter[str]()
    filters = Filters.of(texts, [], None, POSITIVES)
    top = Choosing(stored.corpus, POSITIVES, TopK(9, exclude_copies=copies), filters, 1)
    (mined,) = top.negatives([("q1", hits)], facts)
    assert mined.negatives == ["3", "c"] and facts["dropped as same text"] == 3
    assert texts.facts == {"queries with the same text as another": 1}
    for drawn in (Random(9, copies), TopK(1, exclude_copies=copies)):
        full = Choosing(stored.corpus, POSITIVES, drawn, filters, 1, fill_to=3)
        (mined,) = full.negatives([("q1", hits)], Counter())
        assert set(mined.negatives) == {"q2", "3", "c"}


def test_batches_and_lists_of_a_step_mask_them(stored):
    queries = [QUERIES[0], QUERIES[3], QUERIES[2]]
    ids, texts = zip(*queries, strict=True)
    examples = Examples(TrainingData(stored.corpus, ids, texts, POSITIVES), 0, 1)
    batch = examples.draw(0, 3)
    blocked = BatchColumns.of(batch, stored.corpus.content_hash).blocked()
    column = [named(stored.corpus, [row]) for row in batch.documents[:, 0]]
    for row, query_id in enumerate(batch.query_ids):
        known = {"3": {"c"}}.get(query_id, {"a", "b"})  # the positives of q1 and t1 are no negatives of each other
        assert blocked[row].tolist() == [bool(each & known) for each in column]
    lists = stored.corpus.rows(["q1", "copy", "b", "3"])[None]
    listed = label(lists, examples.of(np.array([0])), stored.corpus.content_hash, "always")
    assert listed.valid.tolist() == [[False, False, False, True, True]]  # the last one is the positive that was added
    assert listed.positive.tolist() == [[False, False, False, False, True]]


def test_the_document_of_a_query_s_id_does_not_count_where_that_is_said(tmp_path):
    counts = write_collection(Made(), tmp_path, Silent(), exclude_own=True)
    assert counts["excluded"] == 3 and "excluded: 3 query-document pairs" in counts["notes"]
    assert StoredCollection.open(tmp_path).excluded() == {"q1": ["q1"], "q2": ["q2"], "3": ["3"]}
