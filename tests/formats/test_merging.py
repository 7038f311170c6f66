"""Flat indexes merged into one, in one file or in shards."""

from pathlib import Path

import numpy as np
import pytest
from shard_folders import in_shards

from hardneg.formats.merging import merge_flat, merge_in_shards, open_flat
from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.records.errors import DataError, UsageError
from hardneg.runtime.progress import Silent
from hardneg.testing.forms import drawn_documents, write_encoded


def written(folder: Path, names: str, first: float = 0, dimension: int = 2) -> Path:
    vectors = np.arange(len(names) * dimension, dtype=np.float32).reshape(-1, dimension) + first
    with FlatWriter(folder, dimension, len(names)) as writer:
        writer.write_block(0, 0, vectors)
        writer.write_doc_ids(names)
        writer.close()
    return folder


@pytest.fixture
def parts(tmp_path):
    parts = [written(tmp_path / "a", "ab"), written(tmp_path / "b", "c", 4), written(tmp_path / "c", "def", 6)]
    (tmp_path / "b/docid").write_text("c")  # as other programs leave it: no line break at the end
    return parts


def check(folder: Path) -> None:
    found = FlatVectors.open(folder)
    assert found.read(0, 6).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert (folder / "docid").read_text() == "a\nb\nc\nd\ne\nf\n"


def test_rows_follow_each_other(parts, tmp_path):
    assert merge_flat(open_flat(parts), tmp_path / "one", Silent()) == 6
    check(tmp_path / "one")


def test_each_becomes_a_shard_without_a_copy(parts, tmp_path):
    assert merge_in_shards(open_flat(parts), tmp_path / "shards") == 6
    check(tmp_path / "shards")
    assert (tmp_path / "shards/shard-00002/index").samefile(tmp_path / "c/index")
    merge_flat(open_flat([tmp_path / "shards"]), tmp_path / "one", Silent())
    check(tmp_path / "one")
    merge_in_shards(open_flat([tmp_path / "shards"]), tmp_path / "again")
    check(tmp_path / "again")


def test_shards_at_urls_stay_there(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whole = write_encoded(tmp_path / "whole", drawn_documents("vectors", 50, 4, exact=False))
    far = in_shards(whole, tmp_path / "list", [20], f"memory://{tmp_path.name}")
    assert merge_in_shards(open_flat([far]), tmp_path / "again") == 50
    assert [path.name for path in (tmp_path / "again").iterdir() if path.is_dir()] == []
    merge_flat(open_flat([tmp_path / "again"]), tmp_path / "one", Silent())
    assert all((tmp_path / "one" / name).read_bytes() == (whole / name).read_bytes() for name in ("index", "docid"))


def test_what_does_not_fit_is_told_at_once(parts, tmp_path):
    other = written(tmp_path / "other", "xyz", dimension=3)
    tokens = write_encoded(tmp_path / "tokens", drawn_documents("token-vectors", 50, 4, exact=False))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as error:
        open_flat([*parts, other, tokens, tmp_path / "empty"])
    lines = str(error.value).splitlines()
    assert len(lines) == 3 and lines[0].endswith(
        "tokens: holds a vector for each token: indexes of one vector a document can be merged"
    )
    assert "empty/index: cannot be read" in lines[1]
    assert f"{other}: vectors of dimension 3, and {parts[0]} has 2: merge what one model encoded" == lines[2]


def test_two_indexes_of_other_dimensions(tmp_path):
    with pytest.raises(UsageError, match=r"second: vectors of dimension 3, and .*first has 2"):
        open_flat([written(tmp_path / "first", "ab", dimension=2), written(tmp_path / "second", "xy", dimension=3)])


def test_a_document_in_two_is_told_with_its_places(parts, tmp_path):
    again = written(tmp_path / "again", "xb")
    with pytest.raises(DataError, match=r"again/docid:2: document 'b' stands in .*/a/docid:2 too: keep one"):
        open_flat([*parts, again])
