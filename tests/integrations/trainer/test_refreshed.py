"""Training in sentence-transformers' own trainer on negatives that its model mines again."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from processes import free_port
from tiny import tiny_encoder
from trainer_toy import losses, train, write_toy

from hardneg.formats.negatives import read_negatives
from hardneg.records import TrainingError

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("data") / "toy")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path, tiny_model: Path) -> dict[str, Any]:
    """A training that nothing interrupts: eight steps in one process, two refreshes behind the first."""
    output = tmp_path_factory.mktemp("whole") / "output"
    return {**train(output, data, tiny_model, every=3, arguments={"save_total_limit": None}), "output": output}


def listed(found: dict[str, Any], number: int) -> dict[str, list[str]]:
    """The texts of all negatives of a refresh, by the text of their query."""
    rows, texts = found["negatives"].dataset, {}
    plan = rows.plan
    for query_id, text in zip(plan.query_ids, plan.texts, strict=True):
        texts[query_id] = text
    file = read_negatives(found["negatives"].folder / f"{number:06d}" / "negatives.arrow")
    corpus = rows.corpus
    return {texts[one.query_id]: corpus.contents(corpus.rows(list(one.negatives))) for one in file}


@pytest.mark.slow
def test_each_step_has_the_negatives_of_its_refresh(whole):
    expected = [0, 0, 0, 0, 1, 1, 1, 2]
    assert len(whole["seen"]) == 8
    for batch, number in zip(whole["seen"], expected, strict=True):
        lists = listed(whole, number)
        for row, anchor in enumerate(batch["anchor"]):
            assert {batch["negative_1"][row], batch["negative_2"][row]} <= {*lists[anchor]}
        texts = [text for column in batch.values() for text in column]
        assert len({*texts}) == len(texts)  # no_duplicates holds for negatives too
    assert listed(whole, 1) != listed(whole, 0)


@pytest.mark.slow
def test_the_log_tells_of_refreshes_beside_each_step(whole):
    told = [record for record in whole["log"] if "refresh" in record]
    assert [(record["refresh"], record["step"]) for record in told] == [(0, 0), (1, 3), (2, 6)]
    assert all(record["refresh_seconds"] > 0 for record in told)
    assert [record["step"] for record in whole["log"] if "loss" in record] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.slow
def test_nothing_of_a_refresh_stays_but_its_negatives(whole):
    folder = whole["negatives"].folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "000000", "000001", "000002", "ended", "made.jsonl", "settings.json", "store"
    ]  # fmt: skip
    kinds = {json.loads(path.read_text())["kind"] for path in (folder / "store").glob("*/manifest.json")}
    assert "index" not in kinds
    assert "run" not in kinds


@pytest.mark.slow
def test_workers_that_read_ahead_change_nothing(tmp_path, data, tiny_model, whole):
    found = train(tmp_path, data, tiny_model, every=3, arguments={"dataloader_num_workers": 2})
    assert found["seen"] == whole["seen"]
    assert losses(found) == losses(whole)


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 4, 6])
def test_a_resumed_training_is_one_that_was_not_interrupted(tmp_path, data, tiny_model, whole, step):
    train(tmp_path, data, tiny_model, every=3, arguments={"max_steps": step, "lr_scheduler_type": "constant"})
    straight = train(tmp_path / "straight", data, tiny_model, every=3, arguments={"lr_scheduler_type": "constant"})
    resumed = train(
        tmp_path, data, tiny_model, every=3, resume=True, arguments={"lr_scheduler_type": "constant", "max_steps": 8}
    )
    assert resumed["seen"] == straight["seen"][step:]
    assert losses(resumed) == losses(straight)
    assert [batch["anchor"] for batch in straight["seen"]] == [batch["anchor"] for batch in whole["seen"]]


@pytest.mark.slow
def test_killed_in_the_middle_of_a_refresh(tmp_path, data, tiny_model, whole):
    assert run(tmp_path, data, tiny_model, every=3, kill=1) == [-signal.SIGKILL]
    assert not (tmp_path / "negatives" / "000001").exists()
    resumed = train(tmp_path, data, tiny_model, every=3, resume=True)
    assert resumed["seen"] == whole["seen"][2:]
    assert losses(resumed) == losses(whole)


@pytest.mark.slow
def test_a_resumed_training_has_refreshes_at_the_same_steps(tmp_path, data, tiny_model):
    train(tmp_path, data, tiny_model, every=3, arguments={"max_steps": 4})
    with pytest.raises(TrainingError, match="mined with other settings"):
        train(tmp_path, data, tiny_model, every=4, resume=True)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    with (other / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "late", "title": "", "text": "one document more"}\n')
    with pytest.raises(TrainingError, match="mined with other settings"):
        train(tmp_path, other, tiny_model, every=3, resume=True)


def run(output: Path, data: Path, model: Path, processes: int = 1, **told: Any) -> list[int]:
    """The same as `train`, in processes of their own that meet as torchrun has them meet; their exit codes."""
    port = free_port()
    command = [sys.executable, str(HERE / "trainer_toy.py"), str(output), str(data), str(model), json.dumps(told)]
    shared = dict(os.environ)
    if processes > 1:
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
        shared["OMP_NUM_THREADS"] = "1"
        shared["LOCAL_WORLD_SIZE"] = str(processes)
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {} for rank in range(processes)]
    running = [forked.Program(command, env={**shared, **rank}) for rank in ranks]
    try:
        return [process.wait() for process in running]
    finally:
        for process in running:
            process.kill()


@pytest.mark.slow
def test_two_processes_share_a_refresh(tmp_path, data, tiny_model):
    given = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2, "max_steps": 5}
    assert run(tmp_path, data, tiny_model, 2, every=2, arguments=given) == [0, 0]
    first, second = (json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in range(2))
    assert len(first["seen"]) == len(second["seen"]) == 10
    assert {record["refresh"] for record in second["log"] if "refresh" in record} == {0, 1, 2}
    assert losses(first) == losses(second)
    anchors = [text for batch in (*first["seen"][:6], *second["seen"][:6]) for text in batch["anchor"]]
    assert len({*anchors}) == len(anchors)


@pytest.mark.slow
def test_two_processes_that_are_killed_go_on_as_if_they_were_not(tmp_path, data, tiny_model):
    """The first one dies as it publishes the refresh of step 3, and the other with it; step 2 has a checkpoint."""
    given = {"per_device_train_batch_size": 2, "max_steps": 5}
    assert run(tmp_path / "whole", data, tiny_model, 2, every=3, arguments=given) == [0, 0]
    killed = run(tmp_path / "cut", data, tiny_model, 2, every=3, kill=1, arguments=given)
    assert killed[0] == -signal.SIGKILL and killed[1] != 0
    assert run(tmp_path / "cut", data, tiny_model, 2, every=3, resume=True, arguments=given) == [0, 0]
    for rank in range(2):
        whole, cut = (json.loads((tmp_path / name / f"seen-{rank}.json").read_text()) for name in ("whole", "cut"))
        assert cut["seen"] == whole["seen"][2:]
        assert losses(cut) == losses(whole)


@pytest.mark.slow
def test_one_of_two_processes_scores_a_given_run(tmp_path, data):
    model = tiny_encoder(tmp_path / "model", kind="transformers")
    found = {f"q{i}": {f"d{(i + n) % 60}": 1 / (n + 1) for n in range(8)} for i in range(24)}
    given = {"max_steps": 3, "save_strategy": "no", "learning_rate": 1e-3, "ddp_find_unused_parameters": False}
    mining = {"every": 2, "run": found, "form": "labeled-pair"}
    assert run(tmp_path / "output", data, model, 2, arguments=given, **mining) == [0, 0]
    first, second = (json.loads((tmp_path / "output" / f"seen-{rank}.json").read_text()) for rank in range(2))
    assert [record["refresh"] for record in second["log"] if "refresh" in record] == [0, 1]
    assert losses(first) == losses(second)
    folder = tmp_path / "output" / "negatives"
    mined = [read_negatives(folder / f"00000{number}" / "negatives.arrow") for number in (0, 1)]
    assert [len(each) for each in mined] == [24, 24]
    assert mined[0][0].scores.tolist() != mined[1][0].scores.tolist()


@pytest.mark.slow
def test_each_epoch_has_its_refresh(tmp_path, data, tiny_model):
    given = {"max_steps": -1, "num_train_epochs": 2, "gradient_accumulation_steps": 2, "save_strategy": "no"}
    found = train(tmp_path, data, tiny_model, arguments={**given, "dataloader_num_workers": 1})
    assert [(record["refresh"], record["step"]) for record in found["log"] if "refresh" in record] == [(0, 0), (1, 3)]
    lists = listed(found, 1)
    for batch in found["seen"][6:]:
        for row, anchor in enumerate(batch["anchor"]):
            assert {batch["negative_1"][row], batch["negative_2"][row]} <= {*lists[anchor]}
    assert not (found["negatives"].folder / "000000").exists()  # no checkpoint may ask for it
