"""A collection of MS MARCO's shape through a recipe: encoded, searched and mined, with each stage's time and memory.

    pip install "hardneg[static]"
    python benchmarks/large_corpus.py FOLDER [--passages 8841823] [--train 50000] [--test 6980]

FOLDER gets the collection, the recipe, the store and the run folder: 23 GB for 8.8 million passages, of which vectors
of 384 dimensions are 13.6 GB. Passages are drawn from a vocabulary of 30,000 made-up words, as often as words of a
language come, 56 to a passage on average; a query is six words of the passage that is relevant to it. The model is
static: a random vector for each word. So times and memory are those of a real collection, and metrics mean nothing.
The same command goes on where it was stopped.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSION, WORDS, MEAN_LENGTH, QUERY_LENGTH = 384, 30_000, 56, 6
_BLOCK = 20_000  # passages made at a time

RECIPE = """title: a large collection
dataset: beir:{folder}/collection
sizes: {{documents: {passages}, queries: {{train: {train}, test: {test}}}}}
model: {{name: {folder}/model, encoder: static, query_length: 32, document_length: 128}}
seed: 42
stages:
  index: {{stage: encode}}
  test: {{stage: search, index: index, depth: 1000}}
  train: {{stage: search, index: index, split: train, depth: 200}}
  negatives: {{stage: mine, runs: {{dense: train}}, miner: {{name: topk, depth: 200}}}}
outputs: {{index: index}}
"""


@dataclass(frozen=True)
class Shape:
    """How many passages, and queries of each split."""

    passages: int
    train: int
    test: int


def words() -> NDArray[np.object_]:
    """Made-up words, each of three syllables."""
    syllables = [first + second for first in "bcdfghjklmnprstvz" for second in ("a", "e", "i", "o", "u")]
    draws = np.random.default_rng(0).permutation(len(syllables) ** 3)[:WORDS]
    size = len(syllables)
    return np.array(
        [syllables[n // size**2] + syllables[n // size % size] + syllables[n % size] for n in draws], object
    )


def passages(count: int) -> Iterator[list[str]]:
    """The texts, block by block; the share of the n-th word is in proportion to 1 / (n + 10), as Zipf's law has it."""
    vocabulary, shares = words(), 1 / (np.arange(WORDS) + 10)
    bounds = np.cumsum(shares / shares.sum())
    for number, start in enumerate(range(0, count, _BLOCK)):
        draws = np.random.default_rng([1, number])
        lengths = np.clip(draws.normal(MEAN_LENGTH, 20, min(_BLOCK, count - start)).astype(int), 10, 120)
        places = np.searchsorted(bounds, draws.random(int(lengths.sum())))
        drawn = vocabulary[np.minimum(places, WORDS - 1)]
        yield [" ".join(some) for some in np.split(drawn, np.cumsum(lengths)[:-1])]


def write_collection(folder: Path, shape: Shape) -> None:
    """A folder in BEIR's form; a query for every so-manieth passage."""
    asked, every = shape.train + shape.test, max(1, shape.passages // (shape.train + shape.test))
    (folder / "qrels").mkdir(parents=True)
    number = 0
    with (folder / "corpus.jsonl").open("w") as corpus, (folder / "queries.jsonl").open("w") as queries:
        splits = {name: (folder / "qrels" / f"{name}.tsv").open("w") for name in ("train", "test")}
        for file in splits.values():
            file.write("query-id\tcorpus-id\tscore\n")
        for block in passages(shape.passages):
            for text in block:
                corpus.write(json.dumps({"_id": str(number), "title": "", "text": text}) + "\n")
                if number % every == 0 and (query := number // every) < asked:
                    own = " ".join(text.split()[:QUERY_LENGTH])
                    queries.write(json.dumps({"_id": f"q{query}", "text": own}) + "\n")
                    splits["train" if query < shape.train else "test"].write(f"q{query}\t{number}\t1\n")
                number += 1
        for file in splits.values():
            file.close()


def write_model(folder: Path) -> None:
    """A static model with a random vector of length one for each word."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words()])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = torch.nn.functional.normalize(torch.randn(len(vocabulary), DIMENSION, generator=torch.Generator()))
    modules = [StaticEmbedding(tokenizer, embedding_weights=table), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)


def prepared(folder: Path, shape: Shape) -> Path:
    """The recipe, with the collection and the model that it names; what stands there is kept."""
    recipe = folder / "recipe.yaml"
    if not recipe.exists():
        shutil.rmtree(folder / "collection", ignore_errors=True)
        write_collection(folder / "collection", shape)
        write_model(folder / "model")
        recipe.write_text(RECIPE.format(folder=folder, **vars(shape)))
    return recipe


def hardneg(*arguments: str | Path) -> None:
    """Runs a command of the product, whose output stands where ours does."""
    subprocess.run([sys.executable, "-m", "hardneg", *map(str, arguments)], check=True)


def facts(store: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the facts of each artifact, in the order in which they were made."""
    manifests = sorted(store.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    for manifest in (json.loads(path.read_text()) for path in manifests):
        yield manifest["origin"].get("name", manifest["kind"]), manifest["facts"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=8_841_823)
    parser.add_argument("--train", type=int, default=50_000)
    parser.add_argument("--test", type=int, default=6980)
    parser.add_argument("--until", help="stop after this stage: index, test, train or negatives")
    options = parser.parse_args()
    folder, store = options.folder.resolve(), options.folder.resolve() / "store"
    recipe = prepared(folder, Shape(options.passages, options.train, options.test))
    until = ["--until", options.until] if options.until else []
    hardneg("recipe", "plan", recipe, "--store", store)
    hardneg("recipe", "run", recipe, "--store", store, "--output", folder / "run", "--overwrite", *until)
    for name, found in facts(store):
        peak = found.get("usage", {}).get("peak_memory", 0) / 2**20
        print(f"{name:<12}{found.get('seconds', 0):9.1f} s   peak {peak:7.0f} MiB")


if __name__ == "__main__":
    main()
