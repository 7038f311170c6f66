"""Vectors of any origin, on the command line: imported, searched for and mined from, without a model."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import hardneg
from recipes.recipes import small_collection

from hardneg.formats.runs import read_run
from hardneg.records import ArtifactError, UsageError
from tests.run_lists import doc_lists, score_lists

pytestmark = pytest.mark.usefixtures("vectors")
DOCUMENTS = np.random.default_rng(3).standard_normal((60, 4)).astype(np.float32)
QUERIES = DOCUMENTS + np.float32(0.01)


def parquet(path: Path, prefix: str, vectors: np.ndarray) -> None:
    ids = [f"{prefix}{row}" for row in range(len(vectors))]
    pq.write_table(pa.table({"id": ids, "embedding": pa.array(list(vectors))}), path)


@pytest.fixture
def vectors(session: Path) -> None:
    parquet(session / "documents.parquet", "d", DOCUMENTS)
    parquet(session / "queries.parquet", "q", QUERIES)


IMPORT = "index import --vectors documents.parquet --output index"
GIVEN = "--index index --query-vectors queries.parquet --device cpu"


def test_queries_are_searched_for_by_their_vectors() -> None:
    assert "index: 60 vectors of dimension 4" in hardneg(IMPORT).stdout
    assert "run.trec.gz: 60 queries" in hardneg(f"search {GIVEN} --depth 3 --output run.trec.gz").stdout
    run = read_run(Path("run.trec.gz"))
    scores = QUERIES @ DOCUMENTS.T
    assert list(run) == [f"q{row}" for row in range(60)]
    for row, (ids, found) in enumerate(zip(doc_lists(run), score_lists(run), strict=True)):
        best = np.argsort(-scores[row])[:3]
        assert list(ids) == [f"d{place}" for place in best]
        np.testing.assert_allclose(found, scores[row, best], rtol=1e-4)
    np.save("q.npy", QUERIES)
    Path("ids.txt").write_text("".join(f"q{row}\n" for row in range(60)))
    apart = "--index index --query-vectors q.npy --query-ids ids.txt --depth 3"
    hardneg(f"search {apart} --output same.trec.gz")
    assert Path("same.trec.gz").read_bytes() == Path("run.trec.gz").read_bytes()


def test_negatives_are_mined_by_them() -> None:
    small_collection(Path("data"))
    hardneg(IMPORT)
    mine = "mine --dataset beir:data --option miner.depth=5 --form tevatron-v2 --count 4 --corpus-output corpus.jsonl"
    out = hardneg(f"{mine} {GIVEN} --depth 6 --output mined.jsonl").stdout
    assert "36 queries, 180 negatives mined" in out and "run queries that are not in the split: 24" in out
    scores = QUERIES @ DOCUMENTS.T
    for row in map(json.loads, Path("mined.jsonl").read_text().splitlines()):
        place = int(row["query_id"][1:])
        best = [f"d{found}" for found in np.argsort(-scores[place]) if found != place]
        assert row["positive_document_ids"] == [f"d{place}"] and row["negative_document_ids"] == best[:4]
    hardneg(f"search {GIVEN} --depth 6 --output run.trec.gz")
    hardneg(f"{mine} --run run.trec.gz --output other.jsonl")
    assert Path("other.jsonl").read_bytes() == Path("mined.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ("search GIVEN --model x", UsageError, "omit dataset, model, backend and candidates"),
        ("search --index index", UsageError, "search: --index and --query-vectors must be used together; give"),
        ("search", UsageError, "search: give --dataset, and either --model or --backend"),
        ("search --index index --query-vectors wide.parquet", UsageError, "dimension 5, but index has 4"),
        ("search --index none --query-vectors queries.parquet", ArtifactError, "none: not a dense index"),
        ("mine --dataset beir:data GIVEN --run x", UsageError, "exactly one of"),
        ("mine --dataset beir:data --query-vectors x", UsageError, "mine: --index and --query-vectors must be used"),
    ],
)
def test_mistakes(words: str, kind: type[Exception], message: str) -> None:
    hardneg(IMPORT)
    parquet(Path("wide.parquet"), "q", np.ones((2, 5), np.float32))
    output = "mined.jsonl" if words.startswith("mine") else "run.trec.gz"
    with pytest.raises(kind) as caught:
        hardneg(words.replace("GIVEN", GIVEN), "--output", output)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not Path(output).exists()
