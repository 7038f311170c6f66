"""A small BEIR folder and recipes over it."""

import importlib.util
import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import write_collection
from hardneg.recipes import Plan, Recipe, find_recipe, load_recipe, make_plan, named_recipes, preset_names
from hardneg.recipes.execution import Options, Watcher, execute
from hardneg.runtime import Progress, Silent
from hardneg.store import Artifact, Store

TOPICS = ["river", "engine", "violin", "tensor", "garden", "planet", "bridge", "copper", "falcon", "harbor"]
WORDS = ["old", "blue", "fast", "quiet", "heavy", "bright"]

PACKAGES = {
    "ance-nq": "hardneg_datasets",
    "ance-nq-reader": "hardneg_reader",
    "cort-electra-": "hardneg_electra",
    "dpr-nq": "hardneg_datasets",
    "rocketqa-nq": "hardneg_reader",
}
PACKAGES |= dict.fromkeys(("ance-splade", "star-splade"), "hardneg_sparse")
"""Of recipes whose names begin so, the package that their preset `paper` needs."""


NEEDS_PAPERS = pytest.mark.skipif(
    importlib.util.find_spec("hardneg_papers") is None, reason="pip install ./plugins/hardneg-papers"
)


NEEDS_DATASETS = pytest.mark.skipif(
    importlib.util.find_spec("hardneg_datasets") is None, reason="pip install ./plugins/hardneg-datasets"
)


@cache
def presets_by_recipe() -> Mapping[str, list[str]]:
    """The presets of every recipe that comes with hardneg or with an installed package."""
    return {name: preset_names(find_recipe(name)) for name in named_recipes()}


def with_a_paper_preset() -> list[str]:
    """The names of the recipes that have one."""
    return [name for name, presets in presets_by_recipe().items() if "paper" in presets]


@cache
def paper_presets() -> Mapping[str, Recipe]:
    """The preset `paper` of every recipe that has one and whose packages are installed; read once."""
    missing = tuple(begin for begin, package in PACKAGES.items() if importlib.util.find_spec(package) is None)
    names = [name for name in with_a_paper_preset() if not name.startswith(missing)]
    return {name: load_recipe(find_recipe(name), "paper") for name in names}


def small_collection(folder: Path) -> Path:
    """60 documents, ten topics by six words; a query names both, one document is relevant to it."""
    (folder / "qrels").mkdir(parents=True)
    pairs = [(topic, word) for topic in TOPICS for word in WORDS]
    corpus = [
        {"_id": f"d{i}", "title": "", "text": f"the {word} {topic} was seen again near {TOPICS[i % 7]}"}
        for i, (topic, word) in enumerate(pairs)
    ]
    queries = [{"_id": f"q{i}", "text": f"{word} {topic}"} for i, (topic, word) in enumerate(pairs)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    for split, rows in {"train": range(36), "dev": range(36, 46), "test": range(46, 60)}.items():
        lines = "".join(f"q{i}\td{i}\t1\n" for i in rows)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def stored_collection(folder: Path) -> Path:
    """The small collection, as BEIR's files in `data` of a folder, and stored in `stored`."""
    write_collection(Beir(str(small_collection(folder / "data"))).load(), folder / "stored", Silent())
    return folder / "stored"


def large_collection(folder: Path) -> Path:
    """9,000 documents and 4,200 training queries: more than one block and one window."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 5))) for _ in range(400)]
    texts = [" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(9000)]
    (folder / "qrels").mkdir(parents=True)
    rows = [json.dumps({"_id": f"d{i}", "title": "", "text": text}) for i, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    queries = [json.dumps({"_id": f"q{i}", "text": " ".join(texts[i].split()[:2])}) for i in range(4300)]
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    for split, part in {"train": range(4200), "dev": range(4200, 4210), "test": range(4210, 4300)}.items():
        lines = "".join(f"q{i}\td{i}\t1\n" for i in part)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def small_tree(collection: Path, model: Path) -> dict[str, Any]:
    """The STAR line without BM25, cut down to seconds."""
    search = {"stage": "search", "index": "start-index", "depth": 20}
    steps = {"max_steps": 4, "batch_size": 8, "learning_rate": 1e-3, "warmup_steps": 1}
    runs = {"start": "start-test", "STAR": "star-test"}
    scores = {"stage": "evaluate", "runs": runs, "baselines": ["start"], "metrics": ["mrr@10", "recall@10"]}
    return {
        "dataset": f"beir:{collection}",
        "model": {"name": str(model), "query_length": 16, "document_length": 24},
        "stages": {
            "start-index": {"stage": "encode"},
            "start-test": {**search, "split": "test"},
            "start-train": {**search, "split": "train"},
            "static": {"stage": "mine", "runs": {"dense": "start-train"}, "miner": {"name": "topk", "depth": 10}},
            "star": {"stage": "train", "negatives": "static", "loss": "star", "options": steps},
            "star-index": {"stage": "encode", "model": "star"},
            "star-test": {**search, "index": "star-index", "split": "test"},
            "scores": scores,
            "report": {"stage": "report", "evaluation": "scores", "training": {"STAR": "star"}},
        },
        "presets": {"demo": {}, "longer": {"stages": {"star": {"options": {"max_steps": 6}}}}},
    }


def small_part(collection: Path, model: Path, *names: str, **stages: Any) -> dict[str, Any]:
    """Of `small_tree` the stages of these names, and others beside them."""
    tree = small_tree(collection, model)
    return {**tree, "stages": {name: tree["stages"][name] for name in names} | stages}


def write_recipe(path: Path, tree: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def recipe_in(folder: Path, tree: dict[str, Any], *settings: str) -> Recipe:
    """The recipe, written into a folder as `r.yaml` and read."""
    return load_recipe(write_recipe(folder / "r.yaml", tree), settings=settings)


def plan_in(folder: Path, tree: dict[str, Any], *settings: str) -> Plan:
    return make_plan(recipe_in(folder, tree, *settings))


def artifacts_of(plan: Plan, store: Path, progress: Progress | None = None, **options: Any) -> dict[str, Artifact]:
    """What a plan makes in a store, on the CPU."""
    watcher = Watcher(progress=progress or Silent())
    return dict(execute(plan, Store(store), Options(device="cpu", **options), watcher).artifacts)


def long_collection(folder: Path) -> Path:
    """The small collection, each document behind as many words about other things as its number."""
    small_collection(folder)
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["text"] = " ".join([*(TOPICS[(number + i) % 7] for i in range(number)), row["text"]])
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
