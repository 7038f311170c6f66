"""Stage `write-queries` with the writer `chat`: its facts, and resuming after a kill."""

import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml
from chat_server import Served
from hardneg_judge.server import AnswerJournal, request_key
from test_writer import numbered

from hardneg.formats.collection import StoredCollection
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.store import Artifact, Store

KILLED = Path(__file__).parent / "killed.py"
KILLS, IN_FLIGHT = 12, 2
SECTION = "## The {word} {part}\n\nHere the {word} number {part} is beside the tower of file {file}.\n"


def recipe(folder: Path, served: Served, files: int, **options: Any) -> Path:
    """Write Markdown files of four sections each, and a recipe in which `chat` writes queries for them."""
    (folder / "docs").mkdir()
    for file in range(files):
        text = "\n".join(SECTION.format(word=f"river{file}", part=part, file=file) for part in range(4))
        (folder / "docs" / f"f{file}.md").write_text(text)
    chat = {"name": "chat", "model": "m", "url": served.url, "in_flight": IN_FLIGHT, **options}
    stage = {"stage": "write-queries", "writers": [chat], "per_passage": 2, "split_by": "passage"}
    dataset = {"name": "documents", "source": str(folder / "docs"), "min_words": 0}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({"dataset": dataset, "model": "packaged:none", "stages": {"written": stage}}))
    return path


def written(path: Path, store: Path) -> Artifact:
    return execute(make_plan(load_recipe(path)), Store(store), Options(device="cpu"), Watcher()).artifacts["written"]


def test_the_facts_count_requests_and_tokens(served: Served, tmp_path: Path) -> None:
    served.says = numbered
    path = recipe(tmp_path, served, 10)
    artifact = written(path, tmp_path / "store")
    used = {name: value for name, value in artifact.facts.items() if name.startswith("chat: ")}
    tokens = {"chat: tokens read": 4000, "chat: tokens written": 80}
    assert used == {"chat: requests": 40, **tokens} and artifact.facts["queries written by chat"] == 80
    collection = StoredCollection.open(artifact.path)
    ids = [query.query_id for split in collection.splits for query in collection.queries(split)]
    assert len(ids) == 80 and {name.split(":")[0] for name in ids} == {"chat"}
    assert {name.rpartition(":")[0].removeprefix("chat:") for name in ids} == set(collection.corpus.doc_ids)


@pytest.mark.slow
def test_kills_lose_no_answer_and_change_no_byte(served: Served, tmp_path: Path, monkeypatch: Any) -> None:
    """No journaled answer is requested again after a kill; a request in flight may be, once per kill."""
    served.says = numbered
    path = recipe(tmp_path, served, 20)
    whole = written(path, tmp_path / "whole")
    messages = list(served.messages)
    assert len(set(messages)) == len(messages) == 80
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    served.requests.clear()
    served.pause, draw, kept = 0.01, random.Random(7), dict[str, Any]()
    for kill in range(KILLS):
        seen, due = len(served.requests), len(served.requests) + 1 + kill % 4
        program = forked.Program([sys.executable, KILLED, path, tmp_path / "killed"], env={**os.environ})
        while len(served.requests) < due:
            assert program.poll() is None
            time.sleep(0.001)
        time.sleep(draw.random() * 0.03)
        program.kill()
        program.wait()
        again = {request_key(message) for message in served.messages[seen:]} & kept.keys()
        assert not again, f"kill {kill}: asked again what was kept"
        (journal,) = (tmp_path / "other" / "hardneg" / "answers").iterdir()
        answers = AnswerJournal(journal)
        known = {key: answer for message in messages if (answer := answers.find(key := request_key(message)))}
        answers.close()
        assert kept.items() <= known.items(), f"kill {kill}: an answer is lost"
        kept = known
    assert KILLS < len(kept) < 80 and list((tmp_path / "killed").glob("*.partial"))
    left = written(path, tmp_path / "killed")
    counts = Counter(served.messages)
    assert counts.keys() == set(messages) and sum(counts.values()) <= len(messages) + KILLS * IN_FLIGHT
    assert left.facts["chat: cached answers"] == len(kept)
    names = sorted(file.relative_to(whole.path) for file in whole.path.rglob("*") if file.is_file())
    assert len(names) > 8
    for name in names:
        if name.name != "manifest.json":
            assert (left.path / name).read_bytes() == (whole.path / name).read_bytes(), name
