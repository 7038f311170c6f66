"""Tables of the hub, asked of a server of this machine that answers as the hub does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hub_layouts import mteb
from hub_server import Hub, hub_server

pytest.importorskip("datasets")

CORPUS = [{"_id": f"d{i}", "title": "", "text": f"text {i}"} for i in range(5)]
QUERIES = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(4)]
QRELS = {
    "train": [{"query-id": "q0", "corpus-id": "d0", "score": 1.0}],
    "dev": [{"query-id": "q1", "corpus-id": "d1", "score": 1.0}],
    "test": [{"query-id": "q2", "corpus-id": "d2", "score": 3.0}],
}
READ = """
import json, sys
from hardneg.datasets.hugging_face import HubTable
from hardneg.datasets.hugging_face import HuggingFace
from hardneg.records.errors import HardnegError
told = {}
for name, options in json.loads(sys.argv[1]).items():
    options = {key: HubTable(**value) if isinstance(value, dict) else value for key, value in options.items()}
    try:
        loader = HuggingFace(**options)
        found = loader.load()
        told[name] = {
            "fingerprint": loader.fingerprint(),
            "documents": [item.doc_id for item in found.documents()],
            "qrels": {split: [list(item) for item in found.qrels(split)] for split in found.splits()},
            "queries": {split: [item.query_id for item in found.queries(split)] for split in found.splits()},
        }
    except HardnegError as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


def add_repositories(hub: Hub) -> None:
    hub.dataset("mteb/msmarco", mteb(CORPUS, QUERIES, QRELS))
    script = {"msmarco.py": b"raise SystemExit('a script was executed')\n", "README.md": b"---\n---\n"}
    hub.dataset("BeIR/msmarco", script)
    hub.dataset("some/script", {"script.py": b""})
    hub.dataset("some/gated", mteb(CORPUS, QUERIES, QRELS), gated=True)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    asked = {
        "mteb": {"source": "mteb/msmarco"},
        "script": {"source": "BeIR/msmarco"},
        "other script": {"source": "some/script"},
        "gated": {"source": "some/gated"},
        "missing": {"source": "some/missing"},
    }
    with hub_server() as hub:
        add_repositories(hub)
        place = hub.environment(tmp_path_factory.mktemp("hub"))
        line = [sys.executable, "-c", READ, json.dumps(asked)]
        done = subprocess.run(line, env=place, capture_output=True, text=True, check=True, timeout=300)
        yield {**json.loads(done.stdout), "address": hub.address}


def test_the_tables_are_read_from_the_repository(told: dict[str, Any]) -> None:
    assert told["mteb"]["documents"] == [row["_id"] for row in CORPUS] and told["mteb"]["queries"]["train"] == ["q0"]
    assert told["mteb"]["qrels"] == {"train": [["q0", "d0", 1]], "dev": [["q1", "d1", 1]], "test": [["q2", "d2", 3]]}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("script", ["loading script (msmarco.py), which is never executed", "use hf:mteb/msmarco"]),
        ("other script", ["script.py", "use a copy in Parquet"]),
        ("gated", ["some/gated[corpus] cannot be opened: the dataset is gated", "{address}/datasets/some/gated"]),
        ("missing", ["some/missing[corpus] cannot be opened", "check the name"]),
    ],
)
def test_what_does_not_open_is_told_in_a_line(told: dict[str, Any], name: str, lines: list[str]) -> None:
    assert told[name].startswith("DataError: ") and "\n" not in told[name]
    for line in lines:
        assert line.format(address=told["address"]) in told[name]
