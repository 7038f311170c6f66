"""The commands of docs/datasets.md, run as they stand in the page; those that need the network are left out."""

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import hardneg

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"
ELSEWHERE = ("hf:mteb/", "hf:BeIR/", "ir-datasets:", "data check", "pydocs")
COMMANDS = [
    line.strip()
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("    hardneg data") and not any(word in line for word in ELSEWHERE)
]
FILES = {
    "scifact/corpus.jsonl": '{"_id": "d1", "title": "t", "text": "river"}\n',
    "scifact/queries.jsonl": '{"_id": "1", "text": "where"}\n',
    "scifact/qrels/test.tsv": "1\td1\t1\n",
    "docs/guide/rivers.md": "# Nile\n\nA river that flows north.\n",
}
TABLES = {
    "folder/corpus/train.parquet": {"docid": ["d1"], "url": ["u"], "title": ["t"], "body": ["river"]},
    "folder/queries/test.parquet": {"_id": ["1"], "text": ["where"]},
    "folder/qrels/test.parquet": {"query-id": ["1"], "corpus-id": ["d1"], "score": [1]},
}


@pytest.fixture
def place(workplace: Path) -> Path:
    for name in (*FILES, *TABLES):
        (workplace / name).parent.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (workplace / name).write_text(text)
    for name, columns in TABLES.items():
        pq.write_table(pa.table(columns), workplace / name)
    return workplace


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_it_runs(place: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "hf:" in command:
        pytest.importorskip("datasets")
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(place / "cache"))
    output = hardneg(*shlex.split(command)[1:]).output
    queries = "documents:" in command or "where" in output  # documents come without queries
    assert "data show" not in command or ("river" in output and queries)
