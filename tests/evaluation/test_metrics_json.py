import json
from pathlib import Path

import pytest

from hardneg.errors import ArtifactError
from hardneg.evaluation.metrics_json import read_metrics, to_json, write_metrics

SCORES = {"ndcg@10": {"q2": 0.5, "q1": 1.0}, "mrr": {"q2": 0.25, "q1": 0.25}}


def test_round_trip_and_means(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    write_metrics(path, SCORES)
    assert read_metrics(path) == SCORES
    assert json.loads(path.read_text()) == to_json(SCORES)
    assert to_json(SCORES)["metrics"] == {"ndcg@10": 0.75, "mrr": 0.25}
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.json"]


def test_order_does_not_change_the_bytes(tmp_path: Path) -> None:
    other = {name: dict(reversed(values.items())) for name, values in reversed(SCORES.items())}
    write_metrics(tmp_path / "a.json", SCORES)
    write_metrics(tmp_path / "b.json", other)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("text", ["", "[]", '{"metrics": {}}', '{"per_query": {"mrr": {"q": "high"}}}'])
def test_foreign_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text)
    with pytest.raises(ArtifactError, match="not a metrics file"):
        read_metrics(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"metrics\.json"):
        read_metrics(tmp_path / "metrics.json")
