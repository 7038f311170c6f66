"""The walks of docs/mine-for-sentence-transformers.md and docs/commands.md on a tiny collection."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from command_line import hardneg
from recipes.recipes import small_collection

PAGE = Path(__file__).parents[2] / "docs" / "mine-for-sentence-transformers.md"


@pytest.mark.slow
def test_from_a_beir_folder_to_a_model_of_sentence_transformers(session, tiny_model, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(session / "cache"))
    small_collection(session / "scifact")
    for language, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if language == "yaml":  # stages of a recipe, which test_docs checks
            continue
        block = re.sub(r"(packaged:|sentence-transformers/)all-MiniLM-L6-v2", str(tiny_model), block)
        if language == "python":
            short = block.replace("max_steps=200", "max_steps=2, use_cpu=True").replace('2")', '2", device="cpu")')
            exec(compile(short, str(PAGE), "exec"), {})
            continue
        for line in block.splitlines():
            program, command, *arguments = shlex.split(line)
            assert program == "hardneg"
            if command != "evaluate":
                hardneg(command, *arguments, *["--device", "cpu"] * (command != "export"))
    rows = {name: Path(name).read_bytes() for name in ("start.trec.gz", "trained.trec.gz")}
    assert rows["start.trec.gz"] != rows["trained.trec.gz"]
    assert (session / "mined.json").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize("form", ["triplet", "n-tuple", "labeled-list"])
def test_the_forms_are_those_of_mine_hard_negatives(session, tiny_model, form):
    """The same columns in the same order, the same documents, and the same scores."""
    datasets = pytest.importorskip("datasets")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    small_collection(session / "data")
    model = ["--dataset", "beir:data", "--model", tiny_model, "--set", "stages.index.precision=fp32"]
    what = ["--form", form, "--count", "3", "--scores", "--output", "ours.parquet", "--store", "store"]
    hardneg("mine", *model, *what, "--device", "cpu")
    ours = datasets.Dataset.from_parquet("ours.parquet", cache_dir="cache")
    corpus = [json.loads(line)["text"] for line in Path("data/corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line)["text"] for line in Path("data/queries.jsonl").read_text().splitlines()]
    given = datasets.Dataset.from_dict({"anchor": queries[:36], "positive": corpus[:36]})
    options = {"corpus": corpus, "num_negatives": 3, "sampling_strategy": "top"}
    told = {"output_format": form, "output_scores": True, "verbose": False}
    theirs = mine_hard_negatives(given, SentenceTransformer(str(tiny_model), device="cpu"), **options, **told)
    assert ours.column_names == theirs.column_names
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        assert our.pop("scores") == pytest.approx(their.pop("scores"), abs=1e-5)
        assert our == their


COMMANDS_PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
STAGES = ("encode", "index", "search", "mine", "train", "evaluate", "report")


def test_the_page_from_a_beir_folder_to_a_report(session, tiny_model):
    small_collection(session / "scifact")
    blocks = re.findall(r"```sh\n(.*?)```", COMMANDS_PAGE.read_text(), re.DOTALL)
    commands = [line for block in blocks for line in block.split("\n")]
    lines = [line.replace("packaged:all-MiniLM-L6-v2", str(tiny_model)) for line in commands if line]
    lines = [line.replace("max_steps=100", "max_steps=2") for line in lines]
    assert {shlex.split(line)[1] for line in lines} == set(STAGES)
    for line in lines:
        program, command, *arguments = shlex.split(line)
        assert program == "hardneg"
        if "bm25" in arguments:
            continue
        if command in ("evaluate", "report"):
            shutil.copy("start.trec.gz", "bm25.trec.gz")
        else:
            arguments += ["--device", "cpu"]
        hardneg(command, *arguments)
        for made in re.findall(r"--output (\S+)", line):
            assert Path(made).exists(), line
    page = Path("report/report.md").read_text()
    assert "# SciFact" in page and "trained.trec.gz" in page
    assert "Means over 14 queries." in Path("report/report.html").read_text()
