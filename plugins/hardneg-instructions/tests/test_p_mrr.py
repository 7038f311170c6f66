"""p-MRR by hand, and as mteb computes it."""

import random
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hardneg_instructions.p_mrr import PMrr, rank_change

from hardneg.analysis.base import Analysis, Files
from hardneg.formats.runs import write_run
from hardneg.plugin import RankedList, errors
from hardneg.testing import AnalysisTests

QRELS = {
    "1-og": {"a": 1, "b": 1, "c": 0, "e": 0},
    "1-changed": {"a": 0, "b": 1, "c": 0, "e": 1},
    "2-og": {"a": 2, "b": 1, "d": 1},
    "2-changed": {"a": 1, "b": 0, "d": 1},
}
LISTS = {"1-og": "a b c", "1-changed": "b c e a", "2-og": "c b a", "2-changed": "a c b", "3-og": "a"}


def ranked(doc_ids: str) -> RankedList:
    ids = doc_ids.split()
    return RankedList(ids, np.arange(len(ids), 0, -1, dtype=np.float32))


def files(analysis: Analysis, folder: Path, lists: dict[str, str] | None = None) -> Files:
    lists = LISTS if lists is None else lists
    write_run(folder / "both.trec", ((query, ranked(each)) for query, each in lists.items()))
    judged = [f"{query} 0 {doc} {grade}\n" for query, of in QRELS.items() for doc, grade in of.items()]
    (folder / "qrels.txt").write_text("".join(judged))
    named = {path: str(folder / name) for path, name, _ in analysis.references()}
    return Files(named, judged=folder / "qrels.txt")


class TestPMrr(AnalysisTests):
    analysis = PMrr
    mapping = MappingProxyType({"runs": {"model": "both.trec"}})

    def inputs(self, configured: Analysis, folder: Path) -> Files:
        return files(configured, folder)


@pytest.mark.parametrize(
    ("original", "changed", "expected"),
    [(1, 1, 0.0), (1, 4, 0.75), (4, 1, -0.75), (2, 3, 1 / 3), (3, 2, -1 / 3), (1, 1001, 1000 / 1001)],
)
def test_a_document_that_falls_counts_above_zero(original: int, changed: int, expected: float) -> None:
    assert rank_change(original, changed) == pytest.approx(expected)


def test_means_over_documents_then_over_queries(tmp_path: Path) -> None:
    """Of query 1 document a falls from rank 1 to 4: 0.75. Of query 2 a rises from 3 to 1: 1/3 - 1, and b, which falls
    from 2 to 3: 1 - 2/3; their mean is -1/6. Document e became more relevant."""
    analysis = PMrr(runs={"model": "both.trec"})
    results = analysis.measure(files(analysis, tmp_path))
    assert results["runs"]["model"]["by_query"] == pytest.approx({"1": 0.75, "2": -1 / 6})
    assert results["runs"]["model"]["p-MRR"] == pytest.approx((0.75 - 1 / 6) / 2)
    assert results["queries"] == 2 and results["more relevant"] == 1
    assert analysis.table(results).rows == [["model", "+0.2917", "2 of 2", "3"]]
    assert "It ignores 1 documents that became more relevant" in analysis.explain(results)


def test_a_document_that_a_list_lacks_comes_after_its_last(tmp_path: Path) -> None:
    analysis = PMrr(runs={"model": "both.trec"})
    results = analysis.measure(files(analysis, tmp_path, {"1-og": "a b", "1-changed": "b c"}))
    assert results["runs"]["model"]["by_query"] == pytest.approx({"1": 1 - 1 / 3})
    assert analysis.table(results).rows == [["model", "+0.6667", "1 of 2", "1"]]


def test_runs_without_both_instructions_are_refused(tmp_path: Path) -> None:
    analysis = PMrr(runs={"model": "both.trec"})
    with pytest.raises(errors.DataError, match=r"both.trec has no query under both instructions"):
        analysis.measure(files(analysis, tmp_path, {"1-og": "a b"}))


def test_as_mteb_computes_it(tmp_path: Path) -> None:
    """Random lists without ties, documents that lists lack among them."""
    metrics = pytest.importorskip("mteb._evaluators.retrieval_metrics")
    draw, documents = random.Random(7), [f"d{i}" for i in range(30)]
    qrels, lists, lost = {}, {}, {}
    for query in map(str, range(25)):
        relevant = draw.sample(documents, 6)
        lost[query] = relevant[: draw.randint(1, 4)]
        qrels[f"{query}-og"] = dict.fromkeys(relevant, 1)
        qrels[f"{query}-changed"] = {doc_id: int(doc_id not in lost[query]) for doc_id in relevant}
        for end in ("-og", "-changed"):
            lists[query + end] = " ".join(draw.sample(documents, 20))
    scores = {query: dict(zip(each.split(), range(20, 0, -1), strict=True)) for query, each in lists.items()}
    sides = [{query: each for query, each in scores.items() if query.endswith(end)} for end in ("-og", "-changed")]
    analysis = PMrr(runs={"model": "both.trec"})
    inputs = files(analysis, tmp_path, lists)
    judged = [f"{query} 0 {doc} {grade}\n" for query, of in qrels.items() for doc, grade in of.items()]
    (tmp_path / "qrels.txt").write_text("".join(judged))
    measured = analysis.measure(inputs)["runs"]["model"]["p-MRR"]
    assert measured == pytest.approx(metrics.calculate_pmrr(*sides, lost), abs=1e-12) and abs(measured) > 0.01
