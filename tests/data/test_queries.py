"""The queries of one split."""

from pathlib import Path

import pytest

from hardneg.data.queries import Queries, write_queries
from hardneg.errors import ArtifactError, DataError
from hardneg.types import Query


def test_order_is_kept_over_many_batches(tmp_path: Path) -> None:
    queries = [Query(f"q{(i * 7919) % 20000}", f"text {i} é") for i in range(20000)]
    assert write_queries(tmp_path / "train.arrow", iter(queries)) == [query.query_id for query in queries]
    stored = Queries.open(tmp_path / "train.arrow")
    assert list(stored) == queries
    assert len(stored) == 20000
    assert stored.texts[3] == "text 3 é"


def test_no_queries(tmp_path: Path) -> None:
    assert write_queries(tmp_path / "dev.arrow", []) == []
    assert list(Queries.open(tmp_path / "dev.arrow")) == []


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([Query("q1", "a"), Query("q1", "a")], "'q1' occurs twice"),
        ([Query("q 1", "a")], "white space"),
        ([Query("", "a")], "white space"),
        ([Query("q1", None)], "must be strings"),
        ([Query("q1", "half \ud800")], "not Unicode"),
    ],
)
def test_bad_queries(tmp_path: Path, queries: list[Query], message: str) -> None:
    with pytest.raises(DataError, match=message):
        write_queries(tmp_path / "train.arrow", queries)
    assert not (tmp_path / "train.arrow").exists()


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_damaged_files(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "train.arrow"
    write_queries(path, [Query("q1", "text")])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArtifactError, match="queries cannot be read") as raised:
        Queries.open(path)
    assert "\n" not in str(raised.value)
    path.unlink()
    with pytest.raises(ArtifactError):
        Queries.open(path)
