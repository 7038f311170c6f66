"""The pull of negatives, worked out by hand in two dimensions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hardneg_papers.analyses.information import Information, Pull, effective_rank, information, vectors_of, weights_of

from hardneg.analysis.inputs import Files, System
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records.errors import DataError
from hardneg.records.types import Negatives

Q, P = np.array([1.0, 0.0]), np.array([[1.0, 0.0]])
SIDE = np.array([[0.0, 1.0]])


def test_one_negative_at_a_right_angle() -> None:
    """It scores 1 below the positive; at T = 1 / ln 3 its weight is 1 / (1 + 3). Its residual is (-1, 1)."""
    pull = Pull(1 / np.log(3))
    pull.add(Q, P, SIDE)
    assert pull.moment == pytest.approx(np.array([[0.25, -0.25], [-0.25, 0.25]]))
    found = pull.to_json()
    assert (found["weight"], found["above"]) == (pytest.approx(0.25), 0.0)
    assert found["information"] == pytest.approx(np.log(2))  # the eigenvalues are 0 and .5, times d = 2
    assert found["directions"] == pytest.approx(1.0)


def test_of_two_negatives_a_step_draws_one_or_has_both() -> None:
    """Both score 1 below, residuals (-1, 1) and (-1, -1): alone each has 1/4, together each has 1/5."""
    both, t = np.array([[0.0, 1.0], [0.0, -1.0]]), 1 / np.log(3)
    drawn, together = Pull(t), Pull(t, together=True)
    for pull in (drawn, together):
        pull.add(Q, P, both)
        pull.add(Q, P, both)
    assert drawn.moment / 2 == pytest.approx(0.25 * np.eye(2)) and drawn.weight / 2 == pytest.approx(0.25)
    assert together.moment / 2 == pytest.approx(0.4 * np.eye(2)) and together.weight / 2 == pytest.approx(0.4)
    assert drawn.to_json()["directions"] == pytest.approx(2.0)
    assert drawn.to_json()["information"] == pytest.approx(2 * np.log(1.5))


def test_positives_are_drawn_too() -> None:
    """Above the second positive, which scores -1, the negative has 9 of 10; its residual to it is (1, 1)."""
    pull = Pull(1 / np.log(3))
    pull.add(Q, np.array([[1.0, 0.0], [-1.0, 0.0]]), SIDE)
    assert pull.above == 0.5 and pull.weight == pytest.approx((1 / 4 + 3 / 4) / 2)
    assert pull.moment == pytest.approx((np.array([[1, -1], [-1, 1]]) / 4 + 3 * np.ones((2, 2)) / 4) / 2)


def test_the_moment_is_the_hessian_and_the_squared_gradient() -> None:
    """By differences of InfoNCE's loss over q."""
    rng, t, step = np.random.default_rng(3), 0.7, 1e-4
    query, positive, negatives = rng.normal(size=3), rng.normal(size=(1, 3)), rng.normal(size=(4, 3))

    def loss(q: np.ndarray) -> float:
        return float(np.logaddexp.reduce(np.concatenate([positive, negatives]) @ q / t) - positive[0] @ q / t)

    axes = step * np.eye(3)
    gradient = np.array([loss(query + a) - loss(query - a) for a in axes]) / (2 * step)
    hessian = [
        [loss(query + a + b) - loss(query + a - b) - loss(query - a + b) + loss(query - a - b) for b in axes]
        for a in axes
    ]
    pull = Pull(t, together=True)
    pull.add(query, positive, negatives)
    assert pull.moment / t**2 == pytest.approx(
        np.array(hessian) / (4 * step**2) + np.outer(gradient, gradient), abs=1e-5
    )


def test_the_unit_is_a_trace_of_one_in_all_directions() -> None:
    assert information(np.eye(4) / 4) == pytest.approx(4 * np.log(2)) and effective_rank(np.eye(4) / 4) == 4
    assert information(np.zeros((2, 2))) == effective_rank(np.zeros((2, 2))) == 0


def test_large_gaps_are_weighed_without_overflow() -> None:
    gaps = np.array([[1e4, -1e4]])
    assert weights_of(gaps, together=False).tolist() == [[0.5, 0.0]]
    assert weights_of(gaps, together=True).tolist() == [[1.0, 0.0]]


class Held(Files):
    """An index of three documents."""

    def system(self, index: str, model: str) -> System:
        vectors, names = np.array([[1, 0], [0, 1], [0, -1]], np.float32), ["p", "up", "down"]

        class Searcher:
            def vectors(self, rows: Any) -> Any:
                return vectors[rows]

        def rows(wanted: Any) -> Any:
            return np.array([names.index(name) if name in names else -1 for name in wanted], np.int64)

        return System(Searcher(), names, rows, lambda texts: np.repeat(Q[None].astype(np.float32), len(texts), 0))


def written(folder: Path, *rows: tuple[str, list[str], list[str]]) -> Path:
    write_negatives(folder / "n.arrow", [Negatives(*row, np.zeros(len(row[2]), np.float32)) for row in rows])
    (folder / "queries.jsonl").write_text("".join(f'{{"_id": "q{n}", "text": "x"}}\n' for n in range(1, 5)))
    return folder / "n.arrow"


def inputs(folder: Path) -> Held:
    return Held({"negatives.n": str(folder / "n.arrow")}, topics=folder / "queries.jsonl")


def test_what_lacks_a_text_a_positive_or_a_negative_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = [("q1", ["p"], ["up", "gone"]), ("q2", ["p"], []), ("q3", ["gone"], ["up"]), ("q4", ["p"], ["gone"])]
    written(tmp_path, *rows, ("textless", ["p"], ["up"]))
    analysis = Information(negatives={"n": "n"}, index="i", model="m", temperature=1 / np.log(3))
    found = analysis.measure(inputs(tmp_path))["n"]
    assert (found["queries"], found["left_out"]) == (1, 4) and found["weight"] == pytest.approx(0.25)
    assert analysis.table({"n": found}).rows == [["n", "1", "4", "0.6931", "0.25", "0.0%", "1.0"]]


def test_a_file_without_any_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, ("q1", ["p"], []))
    with pytest.raises(DataError, match=r"n\.arrow: has no query with a text"):
        Information(negatives={"n": "n"}, index="i", model="m").measure(inputs(tmp_path))


def test_blocks_come_to_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, *((f"q{n}", ["p"], ["up", "down"][n % 2 :]) for n in range(1, 5)))
    texts = {f"q{n}": "x" for n in range(1, 5)}

    def all_of() -> list[list[int]]:
        system = inputs(tmp_path).system("i", "m")
        return [[len(part) for part in parts] for parts in vectors_of(read_negatives(path), system, texts)]

    whole = all_of()
    monkeypatch.setattr("hardneg_papers.analyses.information._BLOCK", 3)
    assert all_of() == whole == [[2, 1, 1], [2, 1, 2], [2, 1, 1], [2, 1, 2]]
