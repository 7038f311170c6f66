"""What a refresh mines is what `hardneg mine` mines of the same weights, id by id."""

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from trainer_toy import write_toy
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.formats.negatives import read_negatives

PAGE = Path(__file__).parents[3] / "docs" / "inside-sentence-transformers.md"
QUERIES, DOCUMENTS, WORDS = 40, 250, 24


def same(path: Path, other: Path) -> int:
    """How many queries two files of negatives have; all must have the same ids and scores."""
    files = read_negatives(path), read_negatives(other)
    for one, two in zip(*files, strict=True):
        assert (one.query_id, list(one.negatives)) == (two.query_id, list(two.negatives))
        assert one.scores.tolist() == two.scores.tolist()
    return len(files[0])


def test_a_live_model_mines_what_it_mines_from_a_folder(tmp_path: Path, tiny_model: Path) -> None:
    from types import SimpleNamespace

    from sentence_transformers import SentenceTransformer

    from hardneg.integrations.refresher import Refresher
    from hardneg.trainer import RefreshedNegatives

    data = write_toy(tmp_path / "data", documents=30, queries=8)
    arguments = SimpleNamespace(output_dir=tmp_path, device="cpu", seed=7)
    miner = {"name": "sampled", "depth": 8, "count": 3}
    negatives = RefreshedNegatives(data, arguments, negatives=2, depth=12, miner=miner)
    refresher = Refresher(negatives.recipe, negatives.dataset, negatives.session)
    model = SentenceTransformer(str(tiny_model), device="cpu")
    told = refresher.refresh(model, number=0, step=0, oldest=0)
    assert (told["refresh"], told["refresh_filled"]) == (0, 0)
    miner = {"name": "sampled", "depth": 8, "count": 3}
    mined = hn.mine(data, tiny_model, miner=miner, depth=12, store=tmp_path / "store", seed=7)
    assert same(negatives.folder / "000000" / "negatives.arrow", mined.path) == 8


def part_of(source: Path, folder: Path) -> None:
    """The first training queries of a collection with their positives, among other documents."""
    (folder / "qrels").mkdir(parents=True)
    lines = (source / "qrels" / "train.tsv").read_text().splitlines()
    judged = [line for line in lines[1:] if int(line.split("\t")[0].removeprefix("train-")) < QUERIES]
    (folder / "qrels" / "train.tsv").write_text("\n".join([lines[0], *judged]) + "\n")
    asked, relevant = ({line.split("\t")[column] for line in judged} for column in (0, 1))
    with (source / "queries.jsonl").open() as queries:
        (folder / "queries.jsonl").write_text("".join(line for line in queries if json.loads(line)["_id"] in asked))
    with (source / "corpus.jsonl").open() as corpus:
        first = list(islice(corpus, DOCUMENTS))
        first += [line for line in corpus if json.loads(line)["_id"] in relevant]
    rows = [json.loads(line) for line in first]
    cut = [{**row, "text": " ".join(row["text"].split()[:WORDS])} for row in rows]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cut))


def program() -> str:
    """The page's first one, for a few steps, on the packaged model."""
    from hardneg.encoders.open.model_files import locate

    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    lines = found[1].splitlines()
    assert sum("# hardneg" in line for line in lines) <= 10
    folder = locate("packaged:all-MiniLM-L6-v2").path
    changes = {
        '"sentence-transformers/all-MiniLM-L6-v2"': f'"{folder}", device="cpu"',
        "max_steps=200": "max_steps=5, save_steps=2, use_cpu=True, disable_tqdm=True",
        "per_device_train_batch_size=16": "per_device_train_batch_size=8",
        "every=50": "every=2",
        "warmup_steps=20": "warmup_steps=0",
        "learning_rate=2e-5": "learning_rate=2e-4",
        "logging_steps=10": "logging_steps=1",
    }
    text = found[1]
    for written, short in changes.items():
        assert text.count(written) == 1, written
        text = text.replace(written, short)
    return text


@pytest.mark.slow
def test_the_page_on_real_data(tmp_path: Path, test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part_of(test_data / "insuranceqa", tmp_path / "insuranceqa")
    names: dict[str, Any] = {}
    exec(compile(program(), str(PAGE), "exec"), names)
    told = [record for record in names["trainer"].state.log_history if "refresh" in record]
    assert [(record["refresh"], record["step"]) for record in told] == [(0, 0), (1, 2), (2, 4)]
    for number, step in [(1, 2), (2, 4)]:
        what = ["--model", f"trained/checkpoint-{step}", "--form", "hardneg", "--count", "200"]
        what += ["--output", f"{number}.arrow"]
        mined = CliRunner().invoke(app, ["mine", "--dataset", "beir:insuranceqa", *what, "--store", "store"])
        assert mined.exit_code == 0, mined.output
        assert same(Path(f"trained/negatives/{number:06d}/negatives.arrow"), Path(f"{number}.arrow")) == QUERIES
    assert Path("trained/final/model.safetensors").is_file()
