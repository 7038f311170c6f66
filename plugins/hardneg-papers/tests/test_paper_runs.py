"""The paper presets, cut to a few steps, run from downloads to reports with a server that answers like the hub."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_layouts import MTEB_MSMARCO, beir_folder, dpr_folder, mteb
from hub_server import Hub, hub_server
from recipes.recipes import small_collection, with_a_paper_preset
from recipes.test_lookahead import PASSAGES_MODELS, add_models, vectors_of_others
from tiny import tiny_encoder, tiny_static

from hardneg.recipes import expand, find_recipe

pytestmark = [pytest.mark.slow]
ALIKE = "its stages run in recipes for passages, and test_paper_settings compares their options"
DOSES = ["batches", "corpus", "depth", "false-negatives", "metrics", "refresh", "start", "temperature"]
IN_A_TABLE = "its stages are those of star-adore-table2 or ance-table1, by their keys (test_shipped)"
LONG = ("adore-ance", "ance-baselines", "ance-maxp", "ance-rates", "ance-table1")
NOT_IN_SMALL = {
    "adore-pq": "256 centroids take as many passages",
    **dict.fromkeys([f"adore-{name}-passage" for name in ("inbatch-neg", "rand-neg", "bm25-neg", "star")], IN_A_TABLE),
    **dict.fromkeys([f"ance-{name}-neg-passage" for name in ("rand", "nce", "bm25", "bm25-rand")], IN_A_TABLE),
    **dict.fromkeys([f"ance-warm-{name}-neg-passage" for name in ("rand", "nce", "bm25-rand")], IN_A_TABLE),
    **dict.fromkeys([f"dose-{name}" for name in DOSES], "its verbs are those of dose-siblings, in many more stages"),
    "ance-passage": IN_A_TABLE,
    "many-collections": "test_many_collections runs it",
    "from-documents": "of so short passages no query can be written; test_from_documents runs it",
    "gpl-passage": "of so short passages no query can be written; test_gpl runs its preset paper",
    **dict.fromkeys([f"{name}-document" for name in LONG], ALIKE),
    **dict.fromkeys(["cort-dl20", "drift-document"], ALIKE),
    **dict.fromkeys(["cort-electra-dl20", "cort-electra-passage"], "the server's models are all of BERT's kind"),
    **dict.fromkeys(["rocketqa-nq", "rocketqa-nq-table7"], "a random cross-encoder finds no sure negative"),
}
NAMES = sorted(set(with_a_paper_preset()) - set(NOT_IN_SMALL))
LOOP = """
import json, os, sys, traceback
from contextlib import redirect_stderr, redirect_stdout
from hardneg.cli.main import main
os.fsync = lambda _: None  # nothing is killed here
for line in sys.stdin:
    place, words = json.loads(line)
    sys.argv, code = ["hardneg", "recipe", *words], 0
    with open(place, "w") as told, redirect_stdout(told), redirect_stderr(told):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    print(code, flush=True)
"""
REAL = "star-static"
"""The recipe that keeps the packaged models; that the others name them is seen where they are planned."""
SMALL = {"packaged:wordllama": tiny_static, "packaged:all-MiniLM-L6-v2": tiny_encoder}
SEEDED = ("averaged-seeds", "dose-siblings")
"""Recipes that are run with two seeds, where the others have one: what is made of several has tests of its own."""
FEW = {"max_steps": 2, "batch_size": 4, "accumulate": 1, "warmup_steps": 0, "checkpoint_every": 2, "evaluate_every": 2}
FEW |= {"epochs": None, "stop_at": None, "keep_every": None, "gradient_checkpointing": False}


def cut(name: str, place: Path) -> Path:
    """Write the preset `paper` of the recipe `name` to `place`, with its data, models and stages, but few steps."""
    tree = expand(find_recipe(name), "paper", []).tree
    if tree["dataset"]["name"] == "pydocs":  # of a demo alone
        tree["dataset"] = {"name": "beir", "source": str(place / "beir")}
    if tree["dataset"]["name"] == "pycode":
        tree["dataset"] |= {"packages": ["networkx"], "max_passages": 300}
    for length in ("query_length", "document_length"):
        tree["model"][length] = min(48, tree["model"].get(length, 48))
    if "dimension" in (kind := tree["model"].get("encoder") or {}):
        kind["dimension"] = 32
    if "seeds" in tree:
        tree["seeds"] = tree["seeds"][: 2 if name in SEEDED else 1]
    for stage in tree["stages"].values():
        if isinstance(stage.get("options"), dict) and stage["stage"].startswith("train"):
            chunk = {"chunk": 2} if "chunk" in stage["options"] else {}
            stage["options"] = {**stage["options"], **FEW, **chunk}
        if "clusters" in (stage.get("batches") or {}):
            stage["batches"]["clusters"] = 4
        if stage["stage"] == "analyze" and "projection" in stage["analysis"]:
            stage["analysis"]["projection"].pop("query", None)
        if "refresh" in stage:
            stage["refresh"] = {**stage["refresh"], "every": 1}
            stage.pop("devices", None)
    text = yaml.safe_dump({**tree, "presets": {"paper": {}}}, sort_keys=False)
    for packaged in SMALL if name != REAL else ():
        text = text.replace(packaged, str(small_folder(place, packaged)))
    path = place / f"{name}.yaml"
    path.write_text(text)
    return path


def small_folder(place: Path, packaged: str) -> Path:
    """Return the folder in which `hub` puts a model of the same kind as the packaged one."""
    return place / packaged.replace(":", "-")


def catalogued_documents(place: Path, beir: Path) -> None:
    """Write the files of `msmarco-document` as ir_datasets stores them after a download."""
    corpus, queries, qrels = beir_folder(beir)
    page = "<DOC>\n<DOCNO>{}</DOCNO>\n<TEXT>\nhttp://a\na title\n{}\n</TEXT>\n</DOC>\n"
    files = {"collection.tsv.gz": "".join(page.format(row["_id"], row["text"]) for row in corpus)}
    texts = {row["_id"]: row["text"] for row in queries}
    for split in ("train", "dev"):
        named = [row["query-id"] for row in qrels[split]]
        files[f"{split}/queries.tsv.gz"] = "".join(f"{name}\t{texts[name]}\n" for name in named)
        lines = (f"{row['query-id']} 0 {row['corpus-id']} 1\n" for row in qrels[split])
        files[f"{split}/qrels.gz"] = "".join(lines)
    named = [row["query-id"] for row in qrels["test"]]
    files["trec-dl-2019/queries.tsv.gz"] = "".join(f"{name}\t{texts[name]}\n" for name in named)
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(gzip.compress(text.encode()))
    judged = (f"{row['query-id']} 0 {row['corpus-id']} 1\n" for row in qrels["test"])
    (place / "trec-dl-2019" / "qrels").write_text("".join(judged))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    place = tmp_path_factory.mktemp("paper")
    beir = small_collection(place / "beir")
    corpus, queries, qrels = beir_folder(beir)
    qrels["test"] = [{**row, "score": 3.0} for row in qrels["test"]]
    with hub_server() as hub:
        add_models(hub, place)
        vectors_of_others(place, beir)
        hub.dataset("mteb/msmarco", mteb(corpus, queries, qrels), commits={"main": MTEB_MSMARCO})
        dpr_folder(place / "data" / "nq", beir)
        catalogued_documents(place / "ir" / "msmarco-document", beir)
        (place / "unlabelled-queries.tsv").write_text("u1\tblue river\nu2\told engine\n")
        for packaged, write in SMALL.items():
            write(small_folder(place, packaged))
        for name in PASSAGES_MODELS:
            tiny_encoder(place / "runs" / f"{name}-passage-paper" / "model")
        yield hub, place


class Commands:
    """A process that runs commands one after another, so that torch and Java are started only once."""

    def __init__(self, hub: Hub, place: Path) -> None:
        environment = hub.environment(place / "cache") | {"IR_DATASETS_HOME": str(place / "ir")}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", LOOP], cwd=place, env=environment, **pipes)
        self.told = place / "told.txt"

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command; return its exit code, and the text of stdout and stderr."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(self.told), list(words)]) + "\n")
        self.process.stdin.flush()
        code = self.process.stdout.readline()
        return int(code) if code else -1, self.told.read_text()


@pytest.fixture(scope="module")
def commands(hub: tuple[Hub, Path]) -> Iterator[Commands]:
    made = Commands(*hub)
    yield made
    made.process.terminate()
    made.process.communicate()


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_to_its_report(commands: Commands, hub: tuple[Hub, Path], name: str) -> None:
    path, output = cut(name, hub[1]), hub[1] / "out" / name
    code, told = commands.run("run", str(path), "--preset", "paper", "--device", "cpu", "--output", str(output))
    assert code == 0, told[-3000:]
    made = {path.name for path in output.iterdir()}
    outputs = yaml.safe_load(path.read_text()).get("outputs") or {}
    assert {"report.html", "metrics.json", "recipe.lock.yaml", *outputs} <= made
