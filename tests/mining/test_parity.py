"""The same ids as sentence-transformers' `mine_hard_negatives` on the same scores."""

import numpy as np
import pytest
import torch

from hardneg.mining.thresholds import Denoised, Filtered, MaxScore, PosMargin, PosPercent
from hardneg.records import Candidates, RankedList

QUERIES, DOCUMENTS, NEAREST, MOST_POSITIVES = 20, 60, 30, 3
BELOW = float(np.nextafter(np.float32(0.3), np.float32(-1)))
RULES = {
    "pos-margin": (PosMargin, {"margin": 0.05}, {"absolute_margin": 0.05}),
    "pos-margin of nothing": (PosMargin, {"margin": 0.0}, {"absolute_margin": 0.0}),
    "pos-percent": (PosPercent, {"share": 0.95}, {"relative_margin": 0.05}),
    "pos-percent, far below": (PosPercent, {"share": 0.5}, {"relative_margin": 0.5}),
    "max-score": (MaxScore, {"highest": 0.3}, {"max_score": 0.3}),
    "denoised": (Denoised, {"below": 0.3}, {"max_score": BELOW}),
}


class Vectors:
    """A model that knows every text's vector; a cross-encoder that knows every pair's score."""

    device = torch.device("cpu")

    def __init__(self, seed: int) -> None:
        draws = np.random.default_rng(seed)
        made = draws.normal(size=(QUERIES + DOCUMENTS, 8)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        self.queries = dict(zip((f"q{row}" for row in range(QUERIES)), made, strict=False))
        self.documents = dict(zip((f"d{row}" for row in range(DOCUMENTS)), made[QUERIES:], strict=True))
        self.positives = {
            query: [f"d{row}" for row in draws.choice(DOCUMENTS, draws.integers(1, MOST_POSITIVES + 1), replace=False)]
            for query in self.queries
        }
        scores = draws.permutation(QUERIES * DOCUMENTS).astype(np.float32).reshape(QUERIES, DOCUMENTS)
        self.pairs = scores / scores.max()

    def encode_query(self, texts, **_):  # type: ignore[no-untyped-def]
        return np.stack([self.queries[text] for text in texts])

    def encode_document(self, texts, **_):  # type: ignore[no-untyped-def]
        return np.stack([self.documents[text] for text in texts])

    def similarity(self, queries, documents):  # type: ignore[no-untyped-def]
        return torch.as_tensor(queries) @ torch.as_tensor(documents).T

    def similarity_pairwise(self, queries, documents):  # type: ignore[no-untyped-def]
        return (torch.as_tensor(queries) * torch.as_tensor(documents)).sum(1)

    def predict(self, pairs, **_):  # type: ignore[no-untyped-def]
        return torch.tensor([self.pairs[int(query[1:]), int(document[1:])] for query, document in pairs])

    def candidates(self, rescored: bool) -> list[Candidates]:
        """The nearest documents of each query, with the scores that decide; those of all positives are known."""
        names = list(self.documents)
        products = self.similarity(self.encode_query(self.queries), self.encode_document(names))
        scores, places = torch.topk(products, NEAREST, dim=1)
        found = []
        for row, (query, positives) in enumerate(self.positives.items()):
            doc_ids = [names[place] for place in places[row].tolist()]
            known = dict(zip(doc_ids, scores[row].tolist(), strict=True))
            own = self.similarity_pairwise(self.queries[query], self.encode_document(positives)).tolist()
            known |= dict(zip(positives, own, strict=True))
            if rescored:
                known = dict(zip(known, self.predict([(query, doc_id) for doc_id in known]).tolist(), strict=True))
            deciding = RankedList(list(known), np.array(list(known.values()), np.float32))
            hits = {"dense": RankedList(doc_ids, scores[row].numpy()), "scores": deciding}
            found.append(Candidates(query, positives, hits, names))
        return found


def theirs(vectors: Vectors, count: int, rescored: bool, **options: float) -> dict[str, list[str]]:
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    pairs = [(query, positive) for query, known in vectors.positives.items() for positive in known]
    mined = mine_hard_negatives(
        Dataset.from_dict({"query": [query for query, _ in pairs], "positive": [positive for _, positive in pairs]}),
        vectors,  # type: ignore[arg-type]
        corpus=list(vectors.documents),
        cross_encoder=vectors if rescored else None,  # type: ignore[arg-type]
        range_max=NEAREST - max(map(len, vectors.positives.values())),
        num_negatives=count,
        output_format="labeled-list",
        verbose=False,
        **options,  # type: ignore[arg-type]
    )
    return {row["query"]: row["positive"][1:] for row in mined}


def ours(miner: Filtered, asked: list[Candidates]) -> dict[str, list[str]]:
    found = {item.query_id: list(item.negatives) for item in miner.mine(asked, seed=0)}
    return {query: doc_ids for query, doc_ids in found.items() if doc_ids}


@pytest.mark.parametrize("count", [3, 25])
@pytest.mark.parametrize("rescored", [False, True], ids=["by the list's scores", "by a cross-encoder's"])
@pytest.mark.parametrize("rule", RULES)
def test_the_same_ids_in_the_same_order(rule: str, rescored: bool, count: int) -> None:
    pytest.importorskip("datasets")
    kind, options, their_options = RULES[rule]
    picked = 0
    for seed in range(3):
        vectors = Vectors(seed)
        miner = kind(**options, depth=NEAREST, count=count, order="scored" if rescored else "top")
        expected = theirs(vectors, count, rescored, **their_options)
        assert ours(miner, vectors.candidates(rescored)) == expected
        picked += sum(map(len, expected.values()))
    assert picked > QUERIES


def test_scores_on_the_threshold_are_kept_and_dropped_alike() -> None:
    pytest.importorskip("datasets")
    vectors = Vectors(7)
    vectors.pairs = (vectors.pairs * 20).round().astype(np.float32) / np.float32(20)
    asked = vectors.candidates(rescored=True)
    for rule, (kind, options, their_options) in RULES.items():
        expected = {query: set(doc_ids) for query, doc_ids in theirs(vectors, 25, True, **their_options).items()}
        mined = ours(kind(**options, depth=NEAREST, count=25), asked)
        found = {query: set(doc_ids) for query, doc_ids in mined.items()}
        assert found.keys() == expected.keys()
        whole = [query for query, doc_ids in expected.items() if len(doc_ids) < 25]  # not cut among equal scores
        assert len(whole) > 10
        assert {query: found[query] for query in whole} == {query: expected[query] for query in whole}, rule
