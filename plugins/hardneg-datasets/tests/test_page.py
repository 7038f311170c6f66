"""The commands of README.md, run as they stand there; those that need the network are left out."""

import json
import shlex
from pathlib import Path

import pytest
from command_line import hardneg

PAGE = Path(__file__).parents[1] / "README.md"
COMMANDS = [
    line.strip()
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("    hardneg data") and not any(word in line for word in ("tevatron:", "data fetch"))
]
QUESTION = {"question": "where", "answers": ["there"], "positive_ctxs": [{"passage_id": "d1"}]}
FILES = {
    "msmarco/collection.tsv": "d1\triver\n",
    "msmarco/queries.dev.small.tsv": "1\twhere\n",
    "msmarco/qrels.dev.small.tsv": "1\t0\td1\t1\n",
    "msmarco-doc/msmarco-docs.tsv": "d1\thttp://a\tt\triver\n",
    "msmarco-doc/msmarco-docdev-queries.tsv": "1\twhere\n",
    "msmarco-doc/msmarco-docdev-qrels.tsv": "1 0 d1 1\n",
    "msmarco-doc/topics.dl20.txt": "1\twhere\n",
    "msmarco-doc/qrels.dl20-doc.txt": "1 0 d1 1\n",
    "nq/psgs_w100.tsv": "id\ttext\ttitle\nd1\triver\tt\n",
    "nq/biencoder-nq-train.json": json.dumps([QUESTION]),
    "downloads/psgs_w100.tsv": "id\ttext\ttitle\nd1\triver\tt\n",
    "downloads/biencoder-nq-dev.json": json.dumps([QUESTION]),
    "downloads/biencoder-trivia-dev.json": json.dumps([QUESTION]),
    "collection/corpus/one.jsonl": '{"id": "d1", "contents": "t\\nriver"}\n',
    "collection/docs.jsonl": '{"id": "d1", "contents": "t\\nriver"}\n',
    "collection/topics.test.tsv": "1\twhere\n",
    "collection/qrels.test.txt": "1 0 d1 1\n",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_it_runs(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    output = hardneg(*shlex.split(command)[1:]).output
    assert "river" in output and "where" in output
