"""The kit itself: a plugin that breaks one rule fails the test of that rule, with its words."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["pytester"]
# ruff: noqa: E501

HEADER = """
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
import numpy as np
import pytest
from hardneg.indexes.exact import Flat
from hardneg.mining.ranks import TopK
from hardneg.testing import DatasetTests, FilterTests, IndexTests, LossTests, MinerTests, RerankerTests
from hardneg.records.types import Document, Drops, Hits, Judgement, Negatives, Query

def answer(query, chosen, scores=None):
    scores = np.full(len(chosen), np.nan, np.float32) if scores is None else scores
    return Negatives(query.query_id, query.positives, chosen, scores)

def telling(query, ranks, chosen):
    chosen, ranks = np.array(chosen, np.int32), np.array(ranks, np.int32)
    drops = Drops(9, query.ranking.doc_ids[:2], ranks, ["score"] * len(ranks), np.zeros(len(ranks), np.float32), chosen)
    return Negatives(query.query_id, query.positives, [], np.empty(0, np.float32), {}, drops)

def fit(query):
    return [name for name in dict.fromkeys(query.ranking.doc_ids) if name not in query.positives]
"""

MINER = '''
@dataclass(frozen=True)
class Mine:
    """Mines."""
    version: ClassVar[int] = 1
    def mine(self, candidates, *, seed):
        {body}

class TestMine(MinerTests):
    plugin = Mine()
'''

FILTER = '''
@dataclass(frozen=True)
class Filter:
    """Filters."""
    version: ClassVar[int] = 1
    def reasons(self, candidates, texts):
        {body}

class TestFilter(FilterTests):
    plugin = Filter()
'''

LOSS = '''
import torch
from torch.nn.functional import softplus

@dataclass(frozen=True)
class Lose:
    """Loses."""
    version: ClassVar[int] = 1
    def __call__(self, batch):
        negative = batch.valid & ~batch.positive
        scores = batch.scores if batch.scores.dtype == torch.float64 else batch.scores.float()
        scores = scores.masked_fill(~batch.valid, 0.0)
        own = (scores * batch.positive).sum(1, keepdim=True)
        {body}

class TestLose(LossTests):
    plugin = Lose()
'''

INDEX = '''
@dataclass(frozen=True)
class Searches:
    inner: Any
    def search(self, queries, k):
        hits = self.inner.search(queries, k)
        rows, scores = hits.rows.copy(), hits.scores.copy()
        {body}
        return Hits(rows, scores)

@dataclass(frozen=True)
class Index:
    """Indexes."""
    version: ClassVar[int] = 1
    input: ClassVar[str] = "vectors"
    def build(self, source, path, progress):
        return Flat().build(source, path, progress)
    def open(self, path, rows):
        return Searches(Flat().open(path, rows))

class TestIndex(IndexTests):
    plugin = Index()
'''

RERANKER = '''
@dataclass(frozen=True)
class Rerank:
    """Reranks by length."""
    version: ClassVar[int] = 1
    def rerank(self, requests):
        {body}

class TestRerank(RerankerTests):
    plugin = Rerank()
'''

DATASET = '''
@dataclass(frozen=True)
class Data:
    """Data of one file.

    Args:
        source: the folder.
    """
    source: str = ""
    version: ClassVar[int] = 1
    documents_: ClassVar[Any] = [Document("a", "one"), Document("b", "two")]
    def load(self): return self
    def fingerprint(self): return Path(self.source).joinpath("file").read_text()
    def size_hint(self): return 2
    def documents(self): return iter(self.documents_)
    def splits(self): return ["test"]
    def queries(self, split): return iter([Query("q", "one")])
    def qrels(self, split): return iter([Judgement("q", "a", 1)])
    def notes(self): return []
    {body}

class TestData(DatasetTests):
    def write(self, folder): folder.joinpath("file").write_text("1")
    def make(self, folder): return Data(str(folder))
    def change(self, folder): folder.joinpath("file").write_text("2")
'''

SOUND_MINER = "return (answer(query, fit(query)) for query in candidates)"
SOUND_FILTER = "return (dict.fromkeys(query.ranking.doc_ids[:1], 'first') for query in candidates)"
SOUND_LOSS = "return ((softplus(scores - own) * negative).sum() / negative.sum().clamp(min=1))"
SOUND_RERANKER = "return ([float(len(text)) for text in texts] for _, texts in requests)"

BROKEN = [
    (MINER, "return (answer(q, fit(q)) for q in candidates if fit(q))", "test_one_answer_a_query", "one Negatives for each"),
    (MINER, "return iter([answer(q, fit(q)) for q in candidates])", "test_streams", "candidates are read lazily"),
    (MINER, "return (answer(q, list(dict.fromkeys(q.ranking.doc_ids))) for q in candidates)", "test_never_a_positive",
     "a positive is never a negative"),
    (MINER, "return (answer(q, [d for d in q.ranking.doc_ids if d not in q.positives]) for q in candidates)",
     "test_no_document_twice", "a document is a negative of a query at most once"),
    (MINER, "return (answer(q, ['x']) for q in candidates)", "test_negatives_are_documents", "ids from the lists or"),
    (MINER, "return (telling(q, [1], []) for q in candidates)", "test_reported_drops", "has a rank, a reason and a score"),
    (MINER, "return (telling(q, [2, 3], []) for q in candidates)", "test_reported_drops", "ranks of dropped documents among"),
    (MINER, "return (telling(q, [1, 2][:len(q.ranking.doc_ids)], [4]) for q in candidates)", "test_reported_drops",
     "`chosen` has the rank of each negative"),
    (MINER, "return (answer(q, fit(q), q.ranking.scores) for q in candidates)", "test_a_score_a_negative",
     "each negative has one score"),
    (MINER, "draws = random.Random(seed)\n        return (answer(q, draws.sample(fit(q), len(fit(q)) // 2)) for q in candidates)",
     "test_draws_depend", "depend only on the seed, its id and its lists, not on the order of queries"),
    (MINER, "return (answer(q, [max(fit(q))]) for q in candidates)", "test_short_and_empty_lists",
     "short and empty lists are not an error"),
    (MINER, "return (answer(q, [] if q.ranking.scores.sort() else fit(q)) for q in candidates)",
     "test_candidates_stay", "does not change the lists it reads"),
    (FILTER, "return ({'d1': 'no'} for q in candidates if q.ranking.doc_ids)", "test_one_answer_a_query", "one mapping for each"),
    (FILTER, "return ({'d1': ''} for q in candidates)", "test_one_answer_a_query", "a reason is a non-empty string"),
    (FILTER, "return ({f'd{n}': 'no'} for n, q in enumerate(candidates))", "test_reasons", "not on the order of queries"),
    (FILTER, "return iter([{} for q in candidates])", "test_streams", "candidates are read lazily"),
    (FILTER, "return ({} if q.ranking.scores.sort() is None else {} for q in candidates)", "test_candidates_stay",
     "does not change the lists it reads"),
    (LOSS, "return softplus(scores - own).mul(negative).sum(1)", "test_a_scalar_that_learns", "a loss is a scalar"),
    (LOSS, "return torch.log1p(torch.exp(scores - own)).mul(negative).sum()", "test_finite_for_scores", "are finite for scores"),
    (LOSS, "return softplus(batch.scores - own.to(batch.scores.dtype)).mul(negative).sum()", "test_bfloat16", "bfloat16 scores is computed in 32 bits"),
    (LOSS, "return softplus(scores - own).sum()", "test_nothing_to_learn", "the loss is 0 if no row"),
    (LOSS, "return softplus(batch.scores.to(scores.dtype) - own).mul(~batch.positive).sum()", "test_masked_scores",
     "`valid` is false get no gradient"),
    (LOSS, "return (softplus(scores - own) * negative * torch.arange(12)).sum()", "test_the_order_of_rows_and_columns",
     "the order of columns has no effect"),
    (LOSS, "return (softplus(scores - own.detach()) * negative).sum()", "test_the_gradient", "the gradient is the derivative, in 64 bits"),
    (LOSS, f"{SOUND_LOSS}\n    needs = 'ranks'", "test_says_what_it_needs", "`needs` is a tuple of optional parts of a batch"),
    (LOSS, "batch.own.zero_()\n        return (softplus(scores - own) * negative).sum()", "test_is_a_pure_function",
     "a loss does not change its batch"),
    (INDEX, "rows = rows[:, ::-1]", "test_finds_the_best", "an exact index agrees with a full sort"),
    (INDEX, "rows[rows < 0] = 0", "test_more_than_there_is", "-inf if and only if its row is -1"),
    (INDEX, "rows = rows.astype(np.int32)", "test_hits_have_their_form", "rows are int64"),
    (INDEX, "assert len(queries), 'none'", "test_no_queries", "none"),
    (INDEX, "rows[1:] = rows[:1]", "test_reopened", "do not depend on other queries"),
    (RERANKER, "return ([float(len(text)) for text in set(texts)][1:] for _, texts in requests)", "test_a_score_a_document",
     "one score per document"),
    (RERANKER, "return ([float(len(t) / max(map(len, texts))) for t in texts] if max(texts) else [] for _, texts in requests)",
     "test_an_empty_document_list", "an empty list of documents is not an error"),
    (RERANKER, "return ([float(n) for _ in texts] for n, (_, texts) in enumerate(requests))", "test_other_requests", "depend only on the request"),
    (RERANKER, "return iter([[float(len(text)) for text in texts] for _, texts in requests])", "test_streams", "requests are read lazily"),
    (DATASET, "shared = iter(documents_)\n    def documents(self): return self.shared", "test_documents_stream_twice", "starts a new pass"),
    (DATASET, "documents_ = [Document('a', 'one'), Document('a', 'two')]", "test_ids_are_unique", "ids of documents are unique"),
    (DATASET, "documents_ = [Document('a', 'one'), Document('b c', 'two')]", "test_ids_are_unique", "without white space"),
    (DATASET, "def qrels(self, split): return iter([Judgement('q', 'z', 1)])", "test_qrels_name", "refer to documents of the corpus"),
    (DATASET, "def fingerprint(self): return self.source", "test_the_fingerprint", "the fingerprint changes with the content"),
    (DATASET, "def size_hint(self):\n        import time; time.sleep(1.1); return 2", "test_size_hint", "at most 1.0 s"),
    (DATASET, "def query_hint(self): return {'none': 1}", "test_size_hint", "maps splits to whole numbers"),
]  # fmt: skip


def call(source: str, test: str, folder: Path) -> None:
    """Runs one test of the class that `source` ends with."""
    names: dict[str, Any] = {"__name__": "broken"}
    exec(HEADER + source, names)
    tests = next(made for name, made in reversed(names.items()) if name.startswith("Test"))
    (method,) = [name for name in dir(tests) if name.startswith(test)]
    getattr(tests(), method)(folder)


@pytest.mark.parametrize(("kind", "body", "test", "words"), BROKEN, ids=[f"{case[2]}-{case[3]}" for case in BROKEN])
def test_a_broken_rule_is_named(tmp_path, kind, body, test, words):
    with pytest.raises(AssertionError, match=re.escape(words)):
        call(kind.replace("{body}", body), test, tmp_path)


def test_sound_plugins_pass_and_a_failure_reads_well(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of pytest: they take a second to load
    sound = {MINER: SOUND_MINER, FILTER: SOUND_FILTER, LOSS: SOUND_LOSS, RERANKER: SOUND_RERANKER}
    sound |= {INDEX: "pass", DATASET: "pass"}
    sources = {f"test_sound_{i}": HEADER + kind.replace("{body}", body) for i, (kind, body) in enumerate(sound.items())}
    pytester.makepyfile(test_broken=HEADER + MINER.replace("{body}", BROKEN[0][1]), **sources)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    assert re.search(r"FAILED test_broken.py::TestMine::test_one_answer", result.stdout.str())
    result.stdout.no_fnmatch_line("FAILED test_sound*")
    result.stdout.no_fnmatch_line("*in rule*")
    result.stdout.fnmatch_lines(["E*broken rule: one Negatives for each Candidates, in the same order"])
    assert result.parseoutcomes()["passed"] > 50


FROZEN, VERSION = "@dataclass(frozen=True)\nclass Mine:\n", "version: ClassVar[int] = 1"


@pytest.mark.parametrize(
    ("declared", "test", "words"),
    [
        (f"@dataclass\nclass Mine:\n    'Mines.'\n    {VERSION}", "test_is_a_frozen", "is a frozen dataclass"),
        (f"{FROZEN}    'Mines.'\n    version: int = 1", "test_is_a_frozen", "not a field"),
        (f"{FROZEN}    {VERSION}", "test_every_option", "has a docstring"),
        (f"{FROZEN}    'Mines.'\n    depth: int = 3\n    {VERSION}", "test_every_option", "missing depth"),
        (f"{FROZEN}    'Mines.'\n    depth: Any = object()\n    {VERSION}", "test_options_survive", "written as JSON"),
    ],
)
def test_the_class_itself(tmp_path, declared, test, words):
    source = f"{declared}\n\nclass TestMine(MinerTests):\n    plugin = Mine()\n"
    with pytest.raises(AssertionError, match=words):
        call(source, test, tmp_path)
