"""The memory of `hardneg mine`, and plain commands in several processes."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import forked
import pytest
from processes import codes, launch
from recipes.recipes import large_collection
from tiny import BY_FAMILY

from hardneg.records import UsageError
from hardneg.runtime import World, distributed, gpu_of, world

FEW, MANY, QUERIES = 2_000, 20_000, 50
MOST = 120 << 20
"""Bytes between the two: a block of documents, what was mapped of the store, and noise."""


def collection(folder: Path, documents: int) -> Path:
    """Documents of eight words."""
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as file:
        for row in range(documents):
            words = " ".join(chr(97 + (row * step + step) % 26) + str(row % (step + 7)) for step in range(8))
            file.write(json.dumps({"_id": f"d{row}", "title": "", "text": words}) + "\n")
    queries = [{"_id": f"q{row}", "text": f"b{row} c{row % 9}"} for row in range(QUERIES)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    judged = "".join(f"q{row}\td{row}\t1\n" for row in range(QUERIES))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def peak(model: Path, data: Path, folder: Path) -> int:
    """Bytes of memory that the command took at most."""
    output = folder / "negatives.jsonl"
    words = ["mine", "--dataset", f"beir:{data}", "--model", model, "--depth", "20", "--output", output]
    words += ["--device", "cpu", "--store", folder / "store"]
    process = forked.Program([sys.executable, "-m", "hardneg", *words], stderr=subprocess.DEVNULL)
    assert process.wait() == 0
    assert len(output.read_text().splitlines()) == QUERIES
    return process.peak


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_FAMILY)
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, kind: str) -> None:
    model = BY_FAMILY[kind](tmp_path / "model")
    found = []
    for documents in (FEW, MANY):
        place = tmp_path / str(documents)
        found.append(peak(model, collection(place / "data", documents), place))
    print(kind, *(f"{size / 1e6:.0f} MB" for size in found))
    assert found[1] - found[0] < MOST, found


@pytest.mark.slow
def test_two_processes_encode_and_search_the_same_bytes(tmp_path: Path, tiny_model: Path) -> None:
    large_collection(tmp_path / "data")
    line = ["search", "--dataset", "beir:data", "--model", str(tiny_model), "--set", "model.document_length=24"]
    line += ["--device", "cpu", "--split", "train", "--depth", "20"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    for count in (1, 2):
        own = ["--store", f"store{count}", "--output", f"{count}.trec.gz"]
        running = launch(["-m", "hardneg", *line, *own], count, cwd=tmp_path, **pipes)
        told, noted = map("".join, zip(*(process.communicate() for process in running), strict=True))
        assert codes(running) == [0] * count, noted
        assert told == f"{count}.trec.gz: 4,200 queries\n"
        assert noted.count("index: encode") == noted.count("run: search") == 1
    assert (tmp_path / "1.trec.gz").read_bytes() == (tmp_path / "2.trec.gz").read_bytes()
    indexes = [next(tmp_path.glob(f"store{count}/*/docid")).with_name("index").read_bytes() for count in "12"]
    assert indexes[0] == indexes[1]
    assert len(indexes[0]) == 45 + 9000 * 32 * 4


class Counts(dict[str, int]):
    """A store of counts; the other process, of number `rank`, gives signs in its first rounds."""

    def clone(self) -> "Counts":
        return self

    def add(self, key: str, more: int) -> int:
        self[key] = self.get(key, 0) + more
        signs = {"alive/0": 3, "alive/1": 10**9}
        return min(self["alive/1"], signs[key])


def test_a_process_without_a_sign_is_gone_and_one_that_gives_signs_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[int] = []
    monkeypatch.setattr(distributed, "_ROUND", 0.0)
    monkeypatch.setattr(distributed, "_store", Counts)
    monkeypatch.setattr(distributed, "world", lambda: World(1, 2, 1, 2))
    distributed.watch_others(gone.append, threading.Event())
    assert gone == [0]
    ending = threading.Event()
    ending.set()
    distributed.watch_others(gone.append, ending)
    assert gone == [0]


def test_the_place_on_a_machine_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "4", "RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    assert world() == World(3, 4, 0, 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert world() == World(3, 4, 1, 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert world() == World(3, 4, 1, 2)


@pytest.mark.parametrize("setting", ["USE_FSDP=1", "GRADIENT_ACCUMULATION_STEPS=4", "MIXED_PRECISION=bf16"])
def test_settings_of_a_launcher_that_would_change_a_training_are_refused(monkeypatch, setting):
    distributed.check_settings()
    monkeypatch.setenv(*f"ACCELERATE_{setting}".split("="))
    with pytest.raises(UsageError, match=f"{setting.partition('=')[0]}: not supported"):
        distributed.check_settings()


def test_a_launcher_may_show_each_process_one_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    here = World(1, 4, 1, 4)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpu_of(here) is None  # the card is every process's
    monkeypatch.setenv("RANK", "1")
    assert gpu_of(here) == 0
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert gpu_of(here) == 1
