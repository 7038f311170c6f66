"""Files of negatives by other programs' miners."""

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from benchmarks.other_miners import positives, sampled, write
from hardneg.datasets.beir import Beir

WORDS = ["[UNK]", "cats", "dogs", "birds", "fish", "purr", "bark", "sing", "swim"]


@pytest.fixture
def model() -> SentenceTransformer:
    """One axis a word, so that a score counts the words in common."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.eye(len(WORDS), dtype=np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device="cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = {"a": "cats purr", "b": "cats", "c": "dogs bark cats", "d": "birds sing", "e": "fish swim"}
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in corpus.items())
    )
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "cats purr bark"}) + "\n")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq\tc\t1\nq\td\t0\n")
    return tmp_path


def test_the_rule_leaves_out_the_first_two_and_the_positives(model: SentenceTransformer, folder: Path) -> None:
    collection = Beir(str(folder)).load()
    relevant = positives(collection.qrels("train"))
    assert relevant == {"q": ["c"]}
    queries, corpus = (
        dict(collection.queries("train")),
        {document.doc_id: document.contents for document in collection.documents()},
    )
    assert {query: sorted(found) for query, found in sampled(model, queries, corpus, relevant).items()} == {
        "cats purr bark": ["birds sing", "cats", "fish swim"]  # first are "cats purr" and the positive
    }


def test_a_line_has_the_positives_and_the_negatives(tmp_path: Path) -> None:
    write(tmp_path / "mined.jsonl", {"q": ["b", "c"]}, {"q": ["a"]})
    assert json.loads((tmp_path / "mined.jsonl").read_text()) == {"query": "q", "pos": ["a"], "neg": ["b", "c"]}
