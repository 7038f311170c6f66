"""`write-queries`: a command and a function whose result other commands read as a dataset."""

import json
from pathlib import Path

import pytest
from command_line import hardneg

import hardneg as hn
from hardneg.records import UsageError

WORDS = ["river", "harbor", "bridge", "tower", "garden", "market", "castle", "meadow", "valley", "forest", "island"]
WRITING = {"writers": ["heading", "inverse-cloze"], "per_passage": 2, "dev_share": 0.2, "test_share": 0.2}


@pytest.fixture
def documents(session: Path) -> str:
    """Eleven files with three sections each."""
    (session / "docs").mkdir()
    for file, word in enumerate(WORDS):
        sections = [
            f"## The {word} {other}\n\nHere the {other} is beside the {word} {file}. Who walks by the {word} rests.\n"
            for other in WORDS[file : file + 3] + ["well", "hill", "road"][: max(0, file - 8)]
        ]
        (session / "docs" / f"f{file}.md").write_text(f"# {word}\n\n" + "\n".join(sections))
    return "documents:docs"


def test_the_result_is_a_dataset_with_splits_and_groups(documents, session, tiny_model):
    settings = ["dataset.min_words=0"]
    written = hn.write_queries(documents, **WRITING, settings=settings)
    queries = [json.loads(line) for line in (written.path / "queries.jsonl").read_text().splitlines()]
    sizes = {split: counts["queries"] for split, counts in written.facts["splits"].items()}
    assert [*sizes] == ["train", "dev", "test"] and sum(sizes.values()) == len(queries) == 33
    assert {query["_id"].split(":")[0] for query in queries} == {"heading", "inverse-cloze"}
    groups = dict(line.split("\t") for line in (written.path / "query-groups.tsv").read_text().splitlines())
    assert groups[queries[0]["_id"]] == queries[0]["_id"].split(":")[1]
    run = hn.search(written, str(tiny_model), split="test", depth=3, device="cpu")
    assert len(run) == sizes["test"]
    hn.evaluate(run, written.path / "qrels" / "test.tsv")
    options = ["--writer", "heading", "--writer", "inverse-cloze", "--per-passage", "2", "--dev-share", "0.2"]
    options += ["--test-share", "0.2", "--set", *settings, "--output", "w"]
    done = hardneg("write-queries", "--dataset", documents, *options).stdout
    by_heading = written.facts["queries written by heading"]
    assert f"train: {sizes['train']} queries" in done and f"  queries written by heading: {by_heading}" in done
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "document-groups.tsv"):
        assert (session / "w" / name).read_bytes() == (written.path / name).read_bytes()
    assert not (session / "w" / "manifest.json").exists()


def test_the_round_trip_of_a_model_or_a_reranker(documents, tiny_model, tiny_reranker):
    options = {**WRITING, "settings": ["dataset.min_words=0"], "device": "cpu"}
    whole = hn.write_queries(documents, **options)
    found = hn.search(whole, str(tiny_model), split="train", depth=33, device="cpu")
    by_model = hn.write_queries(documents, **options, round_trip=str(tiny_model), first_k=12)
    by_pair = hn.write_queries(
        documents, **options, round_trip=str(tiny_model), first_k=12, reranker=f"cross-encoder:{tiny_reranker}"
    )
    reranked = hn.rerank(whole, found, f"cross-encoder:{tiny_reranker}", split="train", depth=33, device="cpu")
    for written, run in ((by_model, found), (by_pair, reranked)):
        qrels = _judged(whole.path / "qrels" / "train.tsv")
        kept = {query for query, ranked in run if qrels[query] & set(ranked.doc_ids[:12])}
        assert 0 < len(kept) < len(qrels) and _judged(written.path / "qrels" / "train.tsv").keys() == kept
        assert (written.path / "qrels" / "test.tsv").read_bytes() == (whole.path / "qrels" / "test.tsv").read_bytes()
        assert written.facts["queries that stay"] == len(kept)
    assert by_model.path != by_pair.path
    with pytest.raises(UsageError, match="first_k needs round_trip"):
        hn.write_queries(documents, **options, first_k=12)


def _judged(path: Path) -> dict[str, set[str]]:
    judged: dict[str, set[str]] = {}
    for line in path.read_text().splitlines()[1:]:
        query_id, doc_id, _ = line.split("\t")
        judged.setdefault(query_id, set()).add(doc_id)
    return judged
