from pathlib import Path

import pytest

from hardneg.indexes import lucene as java
from hardneg.records import MissingDependency


def _runtime(folder: Path, version: str, modules: str = "java.base") -> Path:
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture
def homes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []
    monkeypatch.delenv("HARDNEG_JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_homes", lambda: iter(found))
    return found


def test_what_a_release_file_says(tmp_path: Path) -> None:
    assert java.inspect_java(_runtime(tmp_path / "a", "1.8.0_292")) == java.Java(tmp_path / "a", 8, False)
    found = java.inspect_java(_runtime(tmp_path / "b", "25-ea", "java.base jdk.incubator.vector"))
    assert found == java.Java(tmp_path / "b", 25, True)
    assert java.inspect_java(tmp_path / "absent") is None
    (tmp_path / "release").write_text('JAVA_VERSION="21"\n')
    assert java.inspect_java(tmp_path) is None  # no virtual machine in it


def test_one_with_the_vector_module_is_preferred(tmp_path: Path, homes: list[Path]) -> None:
    homes += [_runtime(tmp_path / "old", "17.0.1", "jdk.incubator.vector"), _runtime(tmp_path / "bare", "21.0.8")]
    assert java.find_java().home == tmp_path / "bare"
    homes.append(_runtime(tmp_path / "full", "22.0.1", "jdk.incubator.vector"))
    assert java.find_java().home == tmp_path / "full"


def test_the_override_is_the_only_place(tmp_path: Path, homes: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    homes.append(_runtime(tmp_path / "new", "22.0.1"))
    monkeypatch.setenv("HARDNEG_JAVA_HOME", str(_runtime(tmp_path / "old", "17.0.1")))
    with pytest.raises(MissingDependency, match=r"HARDNEG_JAVA_HOME=.*version 17 .*hardneg\[lucene\]"):
        java.find_java()


def test_without_any_java_it_says_what_to_install(homes: list[Path]) -> None:
    with pytest.raises(MissingDependency, match=r"none found.*pip install.*JAVA_HOME"):
        java.find_java()


def test_the_usual_places_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("PATH", str(tmp_path / "jdk" / "bin"))
    monkeypatch.setattr(java, "_FOLDERS", (str(tmp_path / "all"),))
    (tmp_path / "all" / "one").mkdir(parents=True)
    command = tmp_path / "jdk" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.touch(mode=0o755)
    assert list(java._homes())[:3] == [tmp_path / "named", tmp_path / "jdk", tmp_path / "all" / "one"]
