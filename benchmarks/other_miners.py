"""Writes the negatives of other programs' miners for a BEIR folder, as files that `hardneg bench` reads.

    python benchmarks/other_miners.py medquad --model FOLDER --output mined
    hardneg bench mined/defaults.jsonl mined/margin.jsonl mined/sampled.jsonl --form flagembedding \\
      --dataset beir:medquad --output judged

`defaults` and `margin` are from sentence-transformers' `mine_hard_negatives`: as it is without options, which mines
among the positives of the pairs alone, and with the corpus and NV-Retriever's margin of 5 % below the positive.
`sampled` follows the rule of FlagEmbedding's `hn_mine` (`--range_for_sampling 2-200 --negative_number 15`), whose
program is not run: of the documents at 3 to 200, the known positives are left out, and 15 are drawn. The model is a
folder that `SentenceTransformer` opens; it reads whole texts.
"""

import argparse
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives, semantic_search

from hardneg.datasets.beir import Beir
from hardneg.records import Judgement

Texts = Mapping[str, str]


def positives(judgements: Iterable[Judgement]) -> dict[str, list[str]]:
    """The relevant documents of each query."""
    found: dict[str, list[str]] = {}
    for judgement in judgements:
        if judgement.relevance > 0:
            found.setdefault(judgement.query_id, []).append(judgement.doc_id)
    return found


def by_pairs(model: SentenceTransformer, pairs: Dataset, **options: Any) -> dict[str, list[str]]:
    """Negatives of sentence-transformers' miner by the query's text, each once."""
    mined = mine_hard_negatives(pairs, model, output_format="triplet", verbose=False, **options)
    found: dict[str, list[str]] = {}
    for query, negative in zip(mined["query"], mined["negative"], strict=True):
        if negative not in found.setdefault(query, []):
            found[query].append(negative)
    return found


def sampled(
    model: SentenceTransformer, queries: Texts, corpus: Texts, relevant: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    """FlagEmbedding's rule with the range of its example, 15 of the ranks 3 to 200; the draw is ours."""
    names, draw = list(corpus), random.Random(42)
    asked = model.encode([queries[query] for query in relevant], convert_to_tensor=True)
    vectors = model.encode(list(corpus.values()), convert_to_tensor=True)
    found: dict[str, list[str]] = {}
    for (query, own), hits in zip(relevant.items(), semantic_search(asked, vectors, top_k=200), strict=True):
        known = {corpus[document] for document in own} | {queries[query]}
        ranked = [text for hit in hits[2:] if (text := corpus[names[int(hit["corpus_id"])]]) not in known]
        found[queries[query]] = draw.sample(ranked, min(15, len(ranked)))
    return found


def write(path: Path, negatives: Mapping[str, list[str]], own: Mapping[str, list[str]]) -> None:
    """Lines of FlagEmbedding's form; its reader wants a positive in each."""
    with path.open("w", encoding="utf-8") as file:
        for query, found in negatives.items():
            file.write(json.dumps({"query": query, "pos": own[query], "neg": found}, ensure_ascii=False) + "\n")
    print(f"{path}: {len(negatives)} queries, {sum(map(len, negatives.values()))} negatives")


def main() -> None:
    parser = argparse.ArgumentParser(description="Files of negatives by other programs' miners.")
    parser.add_argument("collection", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    collection = Beir(str(options.collection)).load()
    corpus = {document.doc_id: document.contents for document in collection.documents()}
    queries, relevant = dict(collection.queries("train")), positives(collection.qrels("train"))
    own = {queries[query]: [corpus[document] for document in documents] for query, documents in relevant.items()}
    rows = [(queries[query], corpus[document]) for query, documents in relevant.items() for document in documents]
    pairs = Dataset.from_dict({"query": [row[0] for row in rows], "answer": [row[1] for row in rows]})
    model = SentenceTransformer(str(options.model), device="cpu")
    write(options.output / "defaults.jsonl", by_pairs(model, pairs), own)
    margin = {"corpus": list(corpus.values()), "relative_margin": 0.05, "range_max": 100, "num_negatives": 4}
    write(options.output / "margin.jsonl", by_pairs(model, pairs, **margin), own)
    write(options.output / "sampled.jsonl", sampled(model, queries, corpus, relevant), own)


if __name__ == "__main__":
    main()
