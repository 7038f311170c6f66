import os
import signal
import subprocess
import sys
from functools import partial

import forked
import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from waiting import wait_until


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("commands")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    write_recipe(folder / "small.yaml", tree)
    tree["stages"]["star"]["options"]["max_steps"] = 100_000
    write_recipe(folder / "long.yaml", tree)
    return folder


def start(place, *arguments):
    words = [sys.executable, "-m", "hardneg", *arguments]
    own = {"HARDNEG_STORE": str(place / "store"), "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return forked.Program(words, cwd=place, text=True, env={**os.environ, **own}, **pipes)


def hardneg(place, *arguments):
    process = start(place, *arguments)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.slow
def test_a_recipe_from_plan_to_garbage(place):
    code, out, err = hardneg(place, "recipe", "plan", "small.yaml")
    assert code == 0 and "to run: 10 of 10 steps" in out, err
    code, out, err = hardneg(place, "recipe", "run", "small.yaml", "--output", "out", "--device", "cpu")
    assert code == 0, err
    assert "10 of 10 steps ran" in err and "preset demo; other preset: --preset longer" in err
    assert "\x1b" not in out + err and "%" not in err.replace("95 %", "").replace("95%", "")
    assert "STAR" in out and "mrr@10" in out
    code, out, err = hardneg(place, "recipe", "run", "small.yaml", "--output", "out")
    assert code == 0 and "0 of 10 steps ran" in err
    code, out, _ = hardneg(place, "artifacts", "list")
    assert len(out.splitlines()) == 10 and "negatives" in out
    changed = ["--recipe", "small.yaml", "--set", "stages.static.miner.depth=5"]
    code, out, _ = hardneg(place, "artifacts", "why", "static", *changed)
    assert "plugins.miner.options.depth: was 10, is now 5" in out
    assert "0 folders" in hardneg(place, "artifacts", "gc")[1]


@pytest.mark.slow
def test_ctrl_c_leaves_a_store_that_resumes(place):
    process = start(place, "recipe", "run", "long.yaml", "--output", "long", "--device", "cpu")
    wait_until(lambda: list((place / "store").glob("*.partial/history.jsonl")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "stopped" in err.splitlines()[-1] and "Traceback" not in err
    code, _out, err = hardneg(place, "recipe", "run", "small.yaml", "--output", "after", "--device", "cpu")
    assert code == 0, err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["recipe", "run", "nothing"], 2, "no recipe 'nothing'"),
        (["recipe", "run", "small.yaml", "--set", "stages.star.los=x"], 2, "did you mean 'loss'"),
        (["recipe", "run", "small.yaml", "--set", "dataset=beir:missing"], 4, "missing"),
        (["recipe", "run", "small.yaml", "--set", "model=packaged:other"], 6, "no such packaged model"),
        (["recipe", "run", "small.yaml", "--until", "sta"], 2, "no step 'sta'"),
        (["plugins", "show", "miners", "nothing"], 3, "unknown miner 'nothing'"),
        (["recipe", "fly"], 2, "fly"),
    ],
)
def test_errors_are_one_line_with_their_exit_code(place, arguments, code, message):
    found, _out, err = hardneg(place, *arguments)
    assert (found, message in err, "Traceback" in err) == (code, True, False), err


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_not(place):
    settings = ["--set", "stages.star.options.max_steps=120", "--set", "stages.star.options.checkpoint_every=3"]
    arguments = ["recipe", "run", "small.yaml", "--device", "cpu", *settings, "--until", "star-index"]
    process = start(place, *arguments, "--output", "killed")
    histories = partial(place.glob, "store/*.partial/history.jsonl")
    wait_until(lambda: any(len(path.read_text().splitlines()) > 7 for path in histories()), process)
    process.kill()
    process.communicate()
    assert hardneg(place, *arguments, "--output", "killed")[0] == 0
    code, _, err = hardneg(place, *arguments, "--output", "whole", "--store", "another-store")
    assert code == 0, err
    for name in ("model/model.safetensors", "index/index", "index/docid"):
        assert (place / "killed" / name).read_bytes() == (place / "whole" / name).read_bytes(), name
