"""Programs for Pyserini start a suitable Java, and open static models with the vectors of hardneg."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_encoder, tiny_model2vec, tiny_static
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.indexes import lucene as java
from hardneg.integrations.pyserini import query_side, with_java
from hardneg.records import types

LINES = "searcher = print\nhits = [1, 2]"


def runtime(folder: Path, version: str, modules: str = "jdk.incubator.vector") -> Path:
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="java.base {modules}"\n')
    return folder


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a Java first, beside one that fits."""
    monkeypatch.delenv("HARDNEG_JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_FOLDERS", (str(tmp_path / "all"),))
    runtime(tmp_path / "all" / "jdk-25", "25.0.1")

    def put(*release: str) -> None:
        monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "-".join(release), *release)))

    return put


def test_java_is_started_first_where_pyserini_would_start_none_that_fits(first, tmp_path: Path) -> None:
    first("17.0.9")
    started = with_java(LINES)
    assert started.startswith("from hardneg.plugin import start_java\n\nstart_java()  # Java 25 in ")
    assert started.endswith(LINES)
    assert with_java("# Pyserini cannot open it") == "# Pyserini cannot open it"
    first("21.0.8", "java.se")
    assert with_java(LINES).startswith("from hardneg.plugin import start_java")
    first("21.0.9")
    assert with_java(LINES) == LINES


def test_doctor_tells_which_java_pyserini_would_start(first, tmp_path: Path) -> None:
    first("17.0.9")
    told = CliRunner().invoke(app, ["doctor", "--json", "--store", str(tmp_path)]).stdout
    found = {item["subject"]: item for item in json.loads(told)}["bm25"]
    assert found["state"] == "note" and "Java 25" in found["found"]
    assert "call hardneg.plugin.start_java()" in found["meaning"]


@pytest.mark.parametrize("kind", ["model2vec", "cut short", "of a transformer", "as it is"])
def test_lines_of_static_models_make_the_vectors_of_hardneg(tmp_path: Path, kind: str) -> None:
    if kind == "model2vec":
        spec = ModelSpec(str(tiny_model2vec(tmp_path / "m")))
    elif kind == "of a transformer":
        spec = ModelSpec(str(tiny_encoder(tmp_path / "m")), encoder=types.PluginSetting("static", {"dimensions": 8}))
    else:
        tiny_static(tmp_path / "m")
        spec = ModelSpec(str(tmp_path / "m"), query_length=3 if kind == "cut short" else None)
    program = query_side(spec).program("vectors")
    assert program is not None
    text = program.text().replace("from pyserini.encode import QueryEncoder", "QueryEncoder = object")
    space: dict[str, object] = {}
    exec(compile(text, "lines", "exec"), space)
    query = "river engine violin tensor garden planet"
    expected = load_encoder(spec, "cpu", "fp32").encode([query], "query")[0]
    np.testing.assert_allclose(np.ravel(space["encoder"].encode(query)), expected, atol=1e-6)
    assert ("load_encoder" in text) is (kind != "as it is")
