"""`hardneg doctor` tells what is there and what is not, and fails only where the core cannot work."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import call, hardneg
from processes import loaded
from tiny import tiny_encoder

from hardneg.cli import doctor
from hardneg.indexes import lucene as java


def findings(store: Path, code: int = 0) -> dict[str, dict[str, str]]:
    done = call("doctor", "--json", "--store", store)
    assert done.exit_code == code, done.output
    return {item["subject"]: item for item in json.loads(done.stdout)}


def test_every_line_says_what_it_means(tmp_path: Path) -> None:
    found = findings(tmp_path / "not" / "yet")
    subjects = {"python", "memory", "cpu", "gpu", "store", "faiss", "bm25", "versions"}
    assert subjects <= set(found)
    assert all(item["found"] and item["meaning"] for item in found.values())
    assert found["versions"]["state"] == "ok"
    assert not (tmp_path / "not").exists()


def test_what_is_missing_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "memory", lambda: (4 << 30, 1 << 30))
    found = findings(tmp_path)
    assert found["faiss"]["state"] == found["bm25"]["state"] == "missing"
    assert 'pip install "hardneg[lucene]"' in found["bm25"]["meaning"]
    memory = found["memory"]
    assert (memory["state"], memory["found"]) == ("note", "1.0 of 4.0 GiB free")
    assert memory["meaning"] == "the demo presets need about 2 GB; close other programs first"


def test_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jnius_config")
    monkeypatch.setenv("HARDNEG_JAVA_HOME", str(tmp_path))
    (tmp_path / "lib" / "server").mkdir(parents=True)
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.1"\n')
    found = findings(tmp_path / "store")["bm25"]
    assert found["state"] == "missing" and f"{java.OLDEST} or later" in found["meaning"]


def test_versions_out_of_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["numpy>=99", "typer>=0.1", "nothing-like-it>=1; extra == 'cpu'"]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: required)
    found = findings(tmp_path, code=1)
    assert found["versions"]["state"] == "broken" and "is not >=99" in found["versions"]["found"]
    assert found["versions [cpu]"]["state"] == "missing"
    assert found["versions [cpu]"]["found"] == "nothing-like-it is not installed"


@pytest.mark.skipif(bool(shutil.which("nvidia-smi")), reason="torch is asked about a GPU where there is one")
def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    program = f"from hardneg.cli.doctor import Path, examine; list(examine(Path({str(tmp_path)!r})))"
    assert loaded(program, "torch transformers jnius faiss pyserini") == set()


def test_the_whole_contract_of_a_model_in_lines_without_torch(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "model")
    config = {"prompts": {"query": "find: ", "sts": "same: "}, "default_prompt_name": "sts", "truncate_dim": 8}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    told = hardneg("doctor", "--model", str(folder)).stdout
    found = dict(map(str.strip, line.split("  ", 1)) for line in told.splitlines())
    wanted = {"files": str(folder), "encoder": "dense", "query prompt": "'find: '", "normalised": "True"}
    wanted |= {"query length": "256", "dimension": "32", "truncate dim": "8", "pooling": "mean"}
    assert {name: found[name] for name in wanted} == wanted and "document prompt" not in found
    assert json.loads(hardneg("doctor", "--model", str(folder), "--json").stdout)["prompts"]["sts"] == "same: "
    recipe = tmp_path / "small.yaml"
    recipe.write_text(f"dataset: pydocs\nmodel: {folder}\nstages: {{index: {{stage: encode}}}}\n")
    plan = ["recipe", "plan", str(recipe), "--store", str(tmp_path / "store")]
    for words in (["doctor", "--model", str(folder)], plan):
        program = f"import sys; sys.argv = {['hardneg', *words]}; from hardneg.cli.main import main; main()"
        assert loaded(program, "torch transformers sentence_transformers") == set()
