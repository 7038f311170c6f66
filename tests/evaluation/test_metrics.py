import gzip
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hardneg.evaluation.metrics import (
    Metric,
    answer_coverage,
    answer_cutoffs,
    cut_below,
    evaluate,
    is_metric,
    judgement_notes,
    means,
    parse_metrics,
    ranked_metrics,
    run_notes,
)
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.qrels import Qrels, read_qrels
from hardneg.formats.runs import Run, read_run
from hardneg.formats.texts import PassageAnswers
from hardneg.records import Document, RankedList, UsageError
from hardneg.runtime import Silent
from tests.run_lists import falling

pytrec_eval = pytest.importorskip("pytrec_eval")

TREC_NAMES = {
    "ndcg@10": "ndcg_cut_10",
    "ndcg": "ndcg",
    "mrr": "recip_rank",
    "recall@100": "recall_100",
    "map": "map",
    "map@100": "map_cut_100",
    "precision@10": "P_10",
    "hit_rate@10": "success_10",
}
MEASURES = {"ndcg_cut.10", "ndcg", "recip_rank", "recall.100", "map", "map_cut.100", "P.10", "success.10"}


def run_of(lists: dict[str, list[str]]) -> Run:
    scores = [np.arange(len(docs), 0, -1, dtype=np.float32) for docs in lists.values()]
    return {q: RankedList(lists[q], each) for q, each in zip(lists, scores, strict=True)}


def trec_eval(qrels: Qrels, run: dict[str, dict[str, float]], level: int) -> dict[str, dict[str, float]]:
    return pytrec_eval.RelevanceEvaluator(qrels, MEASURES, relevance_level=level).evaluate(run)


QRELS = {"q1": {"a": 2, "b": 1, "c": 0, "d": -1}, "q2": {"a": 1}, "q3": {"a": 0}}
RUN = run_of({"q1": ["c", "b", "x", "a"], "q9": ["a"], "q3": ["a"]})


def test_by_hand() -> None:
    scores = evaluate(RUN, QRELS, ["ndcg@10", "mrr", "mrr@1", "recall@2", "map", "precision@4", "hit_rate@2"])
    ideal = 2 + 1 / np.log2(3)
    assert scores["ndcg@10"]["q1"] == pytest.approx((1 / np.log2(3) + 2 / np.log2(5)) / ideal)
    assert [values["q1"] for values in scores.values()][1:] == pytest.approx([0.5, 0, 0.5, 0.5, 0.5, 1])
    assert all(list(values) == ["q1", "q2", "q3"] for values in scores.values())
    assert all(values["q2"] == values["q3"] == 0 for values in scores.values())


def test_the_level_changes_binary_measures_only() -> None:
    first, second = (evaluate(RUN, QRELS, ["ndcg@10", "mrr", "recall@2"], level) for level in (1, 2))
    assert first["ndcg@10"] == second["ndcg@10"]
    assert (second["mrr"]["q1"], second["recall@2"]["q1"]) == (0.25, 0)


def test_means_are_over_all_judged_queries() -> None:
    assert means(evaluate(RUN, QRELS, ["mrr"])) == {"mrr": pytest.approx(0.5 / 3)}


def test_names() -> None:
    assert parse_metrics(["ndcg@10", "map", "ndcg@10"]) == [Metric("ndcg", 10), Metric("map")]
    assert [metric.name for metric in parse_metrics(["map@1000", "hit_rate"])] == ["map@1000", "hit_rate"]
    assert is_metric("mrr@10") and not is_metric("loss")


def test_all_bad_names_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_metrics(["nDGC@10", "map", "recall@ten", "mrr@0", "accuracy", "recal_100", "P5@10"])
    message = str(caught.value)
    assert "unknown metric 'nDGC@10'; did you mean ndcg@10?" in message
    assert "metric 'recall@ten': the cutoff must be a whole number above 0, as in recall@10" in message
    assert "metric 'mrr@0'" in message and "unknown metric 'P5@10'; available: " in message
    assert "unknown metric 'recal_100'; did you mean recall@100?" in message
    assert "unknown metric 'accuracy'; did you mean hit_rate@10?" in message
    assert "\n" not in message


def test_what_cannot_be_evaluated() -> None:
    with pytest.raises(UsageError, match="no metric given"):
        evaluate(RUN, QRELS, [])
    with pytest.raises(UsageError, match="no queries"):
        evaluate(RUN, {}, ["map"])
    with pytest.raises(UsageError, match="relevance level 0"):
        evaluate(RUN, QRELS, ["map"], 0)


DOCS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=8)
GRADES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3), min_size=1)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from("123"), st.tuples(GRADES, DOCS), min_size=1), st.integers(1, 3))
def test_equals_trec_eval(queries: dict[str, tuple[dict[str, int], list[str]]], level: int) -> None:
    qrels = {query_id: grades for query_id, (grades, _) in queries.items()}
    ranked = {query_id: docs for query_id, (_, docs) in queries.items()}
    scored = {query_id: {doc: -float(i) for i, doc in enumerate(docs)} for query_id, docs in ranked.items()}
    expected = trec_eval(qrels, scored, level)
    for name, scores in evaluate(run_of(ranked), qrels, list(TREC_NAMES), level).items():
        for query_id, score in scores.items():
            assert score == pytest.approx(expected.get(query_id, {}).get(TREC_NAMES[name], 0.0), abs=1e-9)


def published(data: Path) -> list[tuple[Path, Path]]:
    """Every published run with its qrels."""
    trec, small = data / "trec-dl", data / "msmarco-dl1920"
    splits = {"19": "dev", "20": "test"}
    full = [(path, trec / f"qrels/qrels.dl{year(path)}-passage.txt") for path in trec.glob("runs/*.gz")]
    return full + [(path, small / f"qrels_all/{splits[year(path)]}.tsv") for path in small.glob("runs/*.gz")]


def year(path: Path) -> str:
    return path.name.partition(".dl")[2][:2]


def plain_read(path: Path) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = defaultdict(dict)
    with gzip.open(path, "rt") as file:
        for line in file:
            query_id, _, doc_id, _, score, _ = line.split()
            run[query_id][doc_id] = float(score)
    return dict(run)


@pytest.mark.slow
def test_published_runs_equal_trec_eval(test_data: Path) -> None:
    seen = 0
    for path, qrels_path in published(test_data):
        run, qrels, plain = read_run(path), read_qrels(qrels_path), plain_read(path)
        for level in (1, 2):
            expected = trec_eval(qrels, plain, level)
            for name, scores in evaluate(run, qrels, list(TREC_NAMES), level).items():
                ours = np.array(list(scores.values()))
                theirs = [expected.get(query_id, {}).get(TREC_NAMES[name], 0.0) for query_id in scores]
                assert np.abs(ours - theirs).max() < 1e-6, (path.name, level, name)
        seen += 1
    assert seen == 37 + 11


COMPILED = """
import json, sys
from pathlib import Path
from hardneg.formats.qrels import read_qrels
from hardneg.formats.runs import read_run
from hardneg.evaluation.metrics import evaluate
run, qrels = map(Path, sys.argv[1:])
print(json.dumps(evaluate(read_run(run), read_qrels(qrels), ["mrr@10", "ndcg@10"])))
"""


@pytest.mark.slow
def test_compiled_functions_give_what_the_others_give(test_data: Path) -> None:
    """ranx is not compiled, unless the environment says so."""
    run, qrels = published(test_data)[0]
    place = {**os.environ, "NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run([sys.executable, "-c", COMPILED, run, qrels], env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, scores in evaluate(read_run(run), read_qrels(qrels), ["mrr@10", "ndcg@10"]).items():
        assert found[name] == pytest.approx(scores, abs=1e-12)


TIED = {
    "colbertprf.BM25.dl19.trec.gz": 0.4795,
    "colbertprf.BM25.dl20.trec.gz": 0.4936,
    "colbertprf.BM25_BERT.dl20.trec.gz": 0.6716,
    "colbertprf.BM25_RM3.dl19.trec.gz": 0.5156,
    "colbertprf.BM25_RM3.dl20.trec.gz": 0.5043,
    "rankllm.rep_llama.dl19.top100.trec.gz": 0.7384,
    "rankllm.rep_llama.dl20.top100.trec.gz": 0.7195,
    "rankllm.splade_p_p_ensemble_distil.dl21.top100.trec.gz": 0.6846,
}
"""trec_eval's nDCG@10 of the runs whose published figure counts equal scores in the order of the file."""


@pytest.mark.slow
def test_published_figures(test_data: Path) -> None:
    rows = json.loads((test_data / "trec-dl/runs.json").read_text())
    figures = {}
    for dl, _, figure, queries, _, name in rows:
        path = test_data / "trec-dl/runs" / name
        if not path.exists():
            continue
        qrels = read_qrels(test_data / f"trec-dl/qrels/qrels.dl{dl}-passage.txt")
        scores = evaluate(read_run(path), qrels, ["ndcg@10"])
        figures[name] = round(means(scores)["ndcg@10"], 4)
        assert (figures[name], len(scores["ndcg@10"])) == (TIED.get(name, figure), queries), name
        in_file_order = {q: sorted(docs, key=lambda doc: -docs[doc]) for q, docs in plain_read(path).items()}
        in_file_order = evaluate(run_of(in_file_order), qrels, ["ndcg@10"])
        assert round(means(in_file_order)["ndcg@10"], 4) == figure, name
    assert len(figures) == 37
    assert figures["rankllm.bm25.dl19.top100.trec.gz"] == 0.5058
    assert figures["rankllm.bm25.dl20.top100.trec.gz"] == 0.4796


def test_training_measures_as_evaluations_do() -> None:
    draw = np.random.default_rng(0)
    docs = [f"d{i}" for i in range(150)]
    qrels: Qrels = {}
    run, ranked = {}, np.zeros((8, 120), np.int64)
    for row in range(8):
        grades = {docs[i]: int(draw.integers(1, 4)) for i in draw.choice(150, 1 + 3 * row, replace=False)}
        found = [docs[i] for i in draw.permutation(150)[:120]]
        qrels[f"q{row}"] = grades
        run[f"q{row}"] = RankedList(found, np.arange(120, 0, -1, dtype=np.float32))
        ranked[row] = [grades.get(doc_id, 0) for doc_id in found]
    gains = np.array([grade for grades in qrels.values() for grade in grades.values()])
    query = np.repeat(np.arange(8), [len(grades) for grades in qrels.values()])
    expected = means(evaluate(run, qrels, ["mrr@10", "ndcg@10", "recall@100"]))
    assert ranked_metrics(ranked, gains, query) == pytest.approx(expected, abs=1e-12)


def test_threads_measure_one_after_the_other(monkeypatch):
    """numba ends a process two of whose threads run its parallel loops at once."""
    inside, most = [], []

    def measured(judged, ranked, cutoff, level):
        inside.append(cutoff)
        time.sleep(0.01)
        most.append(len(inside))
        inside.remove(cutoff)
        return [1.0]

    monkeypatch.setattr("ranx.metrics.reciprocal_rank", measured)
    run = {"q": RankedList(["d"], np.ones(1, np.float32))}
    with ThreadPoolExecutor(4) as threads:
        scores = list(threads.map(lambda _: evaluate(run, {"q": {"d": 1}}, ["mrr@10"]), range(8)))
    assert most == [1] * 8 and scores == [{"mrr@10": {"q": 1.0}}] * 8


CHECK = "check that run and judgements use one collection"
JUDGED = {"q1": {"a": 2, "b": 1}, "q2": {"a": 1}, "q3": {"c": 0}}


@pytest.mark.parametrize(
    ("lists", "documents", "notes"),
    [
        ({"q1": "ab", "q2": "ab", "q3": "ab"}, None, ["r: no list has more than 2 documents; recall@3 is cut there"]),
        ({"q1": "ab", "q2": "ab", "q3": "ab"}, 2, []),
        ({"q1": "ab", "q2": "abc", "q3": "a"}, None, []),
        ({"q1": "abc"}, None, ["r: 2 judged queries are not in the run and score 0"]),
        ({"q1": "abc", "q2": "a", "q3": "a", "q9": "abcd"}, None, ["r: 1 query has no judgement and is ignored"]),
        ({"q9": "abcd"}, None, ["r: no query of the run has judgements; check that both use the same queries"]),
        ({"q1": "xyz", "q2": "xyz", "q3": "xyz"}, None, [f"r: no document of the run is judged; {CHECK}"]),
    ],
)
def test_of_a_run(lists: dict[str, str], documents: int | None, notes: list[str]) -> None:
    run = falling({query_id: list(doc_ids) for query_id, doc_ids in lists.items()})
    assert run_notes("r", run, JUDGED, ["mrr@2", "recall@3", "map"], documents) == notes


def test_of_a_level_that_judgements_do_not_reach() -> None:
    asked = ["mrr@10", "ndcg@10", "recall@100"]
    told = "1 query has no document of grade 1 or higher and scores 0 in mrr@10 and recall@100"
    assert [*judgement_notes(JUDGED, asked, 1)] == [told]
    assert [*judgement_notes(JUDGED, asked, 2)] == [
        "2 queries have no document of grade 2 or higher and score 0 in mrr@10 and recall@100"
    ]
    assert [*judgement_notes(JUDGED, asked, 3)] == [
        "relevance level 3: the highest grade is 2, so all queries score 0 in mrr@10 and recall@100"
    ]
    assert [*judgement_notes(JUDGED, ["ndcg@10"], 3)] == []


def test_where_metrics_are_cut() -> None:
    assert cut_below(["recall@1000", "answer@100", "mrr@10", "map"], 99) == ["recall@1000", "answer@100"]
    assert cut_below(["recall@1000"], None) == []


TEXTS = {"a": "the river Rhine", "b": "in 1901", "c": "nothing", "d": "the Danube, a river"}


@pytest.fixture
def answers(tmp_path: Path) -> PassageAnswers:
    write_corpus((Document(doc_id, text) for doc_id, text in TEXTS.items()), tmp_path, Silent())
    known = {"q1": ("1901",), "q2": ("Rhine", "Danube"), "q3": ("river",), "q4": ("sea",)}
    return PassageAnswers(Corpus.open(tmp_path), known)


def test_the_first_passage_with_an_answer_decides(answers: PassageAnswers) -> None:
    found = answer_coverage(
        run_of({"q2": [*"cbd"], "q1": [*"dcb"], "q4": [*"abcd"]}), answers, ["q1", "q2", "q3", "q4"], [3, 1, 2]
    )
    assert found == {
        "answer@3": {"q1": 1.0, "q2": 1.0, "q3": 0.0, "q4": 0.0},
        "answer@1": {"q1": 0.0, "q2": 0.0, "q3": 0.0, "q4": 0.0},
        "answer@2": {"q1": 0.0, "q2": 0.0, "q3": 0.0, "q4": 0.0},
    }
    found = answer_coverage(run_of({"q1": [*"bd"], "q3": [*"cad"]}), answers, ["q1", "q3"], [1, 2, 100])
    assert found == {
        "answer@1": {"q1": 1.0, "q3": 0.0},
        "answer@2": {"q1": 1.0, "q3": 1.0},
        "answer@100": {"q1": 1.0, "q3": 1.0},
    }


def test_a_run_that_has_none_of_the_questions(answers: PassageAnswers) -> None:
    assert answer_coverage(run_of({"other": [*"ab"]}), answers, ["q1"], [5]) == {"answer@5": {"q1": 0.0}}
    assert answer_coverage(run_of({"q1": ["z"]}), answers, ["q1"], [5]) == {"answer@5": {"q1": 0.0}}


def test_names_of_answers() -> None:
    assert answer_cutoffs(["answer@20", "mrr@10", "answer", "answer@0", "answer@5"]) == {"answer@20": 20, "answer@5": 5}
    with pytest.raises(UsageError, match="'answer': only for recipes whose dataset has answers"):
        parse_metrics(["answer"])
