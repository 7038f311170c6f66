"""What miners left out, on disk."""

import numpy as np
import pytest

from hardneg.formats.negatives import drop_batches, drops_at, recorded
from hardneg.records.errors import ArtifactError
from hardneg.records.types import Drops, Negatives


def told(query_id: str, *doc_ids: str) -> Negatives:
    ranks = np.arange(2, len(doc_ids) + 2, dtype=np.int32)
    scores = np.linspace(0.5, 1, len(doc_ids), dtype=np.float32)
    drops = Drops(9, doc_ids, ranks, ["score"] * len(doc_ids), scores, np.array([1], np.int32))
    return Negatives(query_id, [], ["d1"], np.ones(1, np.float32), {}, drops)


def test_what_goes_by_is_written_and_read_back(tmp_path):
    path = tmp_path / "dropped.arrow"
    items = [told(f"q{number}", *(["a", "b"][: number % 3])) for number in range(2500)]
    assert list(recorded(iter(items), path)) == items
    batches = drop_batches(path)
    assert [batch.num_rows for batch in batches] == [1024, 1024, 452]
    query_id, drops = drops_at(batches[1], 1)
    assert query_id == "q1025" and drops.candidates == 9
    assert (drops.doc_ids, drops.reasons) == (["a", "b"], ["score", "score"])
    assert drops.ranks.tolist() == [2, 3] and drops.scores.tolist() == [0.5, 1] and drops.chosen.tolist() == [1]
    assert drops_at(batches[0], 0)[1].doc_ids == []


def test_a_miner_that_tells_nothing_leaves_no_file(tmp_path):
    path = tmp_path / "dropped.arrow"
    plain = Negatives("q", [], [], np.empty(0, np.float32))
    assert list(recorded([plain, plain], path)) == [plain, plain]
    assert list(recorded([], path)) == []
    assert not path.exists()
    with pytest.raises(ArtifactError, match="mine with a miner that reports what it drops, such as denoised"):
        drop_batches(path)


def test_a_file_that_is_not_finished_is_not_there(tmp_path):
    stream = recorded(iter([told("q1"), told("q2")]), tmp_path / "dropped.arrow")
    next(stream)
    stream.close()
    assert list(tmp_path.iterdir()) == []
