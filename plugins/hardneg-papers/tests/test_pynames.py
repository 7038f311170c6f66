"""Names of objects as answers to their summaries."""

from hardneg_papers.installed_code import PyNames, PyNamesCollection

from hardneg.datasets.pydocs import PyDocs
from hardneg.formats.answer_matching import has_answer
from hardneg.records import Answers, Document, HasAnswers, Query
from hardneg.testing import DatasetTests


class TestPyNames(DatasetTests):
    plugin = PyNames(packages=("yaml", "typer"), max_passages=40)


def test_an_answer_is_a_name_that_its_own_passage_tells() -> None:
    passages = [
        Document("m.mean", "mean(x) gives the average"),
        Document("m.Frame.mean", "the average of a frame"),
        Document("m.Frame._sum_all", "calls self._sum_all()"),
        Document("m.total", "calls self.sum"),
    ]
    queries = [
        (Query("m.mean", "the average"), ["m.mean", "m.Frame.mean"]),
        (Query("m.Frame._sum_all", "the sum"), ["m.Frame._sum_all"]),
        (Query("m.total", "all in all"), ["m.total"]),
    ]
    collection = PyNamesCollection(passages, {"test": queries}, {}, {})
    assert isinstance(collection, HasAnswers)
    assert list(collection.answers("test")) == [
        Answers("m.mean", ("mean",)),
        Answers("m.Frame._sum_all", ("_sum_all",)),
        Answers("m.total", ()),
    ]


def test_it_is_pydocs_with_answers() -> None:
    loader, plain = PyNames(packages=("networkx",)), PyDocs(packages=("networkx",))
    collection, docs = loader.load(), plain.load()
    assert list(collection.documents()) == list(docs.documents()) and collection.splits() == docs.splits()
    assert loader.fingerprint() != plain.fingerprint()
    texts = {document.doc_id: document.text for document in collection.documents()}
    for split in collection.splits():
        told: dict[str, list[str]] = {}
        for judgement in collection.qrels(split):
            told.setdefault(judgement.query_id, []).append(texts[judgement.doc_id])
        answered = [answer for answer in collection.answers(split) if answer.texts]
        assert 0 < len(answered) < len(told)
        assert all(any(has_answer(text, answer.texts) for text in told[answer.query_id]) for answer in answered)
