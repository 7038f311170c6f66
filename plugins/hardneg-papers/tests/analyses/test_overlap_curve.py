import numpy as np
import pytest
from hardneg_papers.analyses.runs import OverlapCurve
from pydantic import ValidationError

from hardneg.formats.negatives import write_negatives
from hardneg.records import Negatives, RankedList
from tests.analysis.in_memory import Memory


def mined(path, **lists):
    write_negatives(path, [Negatives(name, ["p"], ids, np.zeros(len(ids), np.float32)) for name, ids in lists.items()])
    return str(path)


def run(**lists):
    return {name: RankedList(ids, np.arange(len(ids), 0, -1, dtype=np.float32)) for name, ids in lists.items()}


RUNS = {
    "start": run(q1=["p", "a", "b", "c"], q2=["d", "e"]),
    "later": run(q1=["b", "c", "p", "d"], q2=["e", "f"]),
    "last": run(q1=["b", "d", "c"]),
}


def curve(tmp_path, depth=2):
    fixed = mined(tmp_path / "fixed.arrow", q1=["a", "b"], q2=["d", "x"])
    fresh = mined(tmp_path / "fresh.arrow", q1=["b", "c"], q2=["e"])
    met = {0: "start", 10: "later", 20: "last"}
    kept = {"BM25 Neg": {0: fixed}, "ANCE": {0: fixed, 10: fresh}}
    given = {"negatives": kept, "met": {"BM25 Neg": met, "ANCE": met}}
    analysis = OverlapCurve.model_validate({**given, "depth": depth})
    return analysis, analysis.measure(Memory(analysis, RUNS))


def test_negatives_stand_until_others_come_and_their_overlap_is_that_with_the_run_of_each_step(tmp_path):
    analysis, found = curve(tmp_path)
    told = {
        label: [(row["step"], row["since"], row["overlap"], row["queries"]) for row in rows]
        for label, rows in found["trainings"].items()
    }
    # step 0: q1 meets a, b and so both; q2 meets d, e and so one of d, x. Step 10: q1 b, c; q2 e, f. Step 20: q1 b, d.
    assert told["BM25 Neg"] == [(0, 0, 0.75, 2), (10, 0, 0.25, 2), (20, 0, 0.5, 1)]
    assert told["ANCE"] == [(0, 0, 0.75, 2), (10, 10, 1.0, 2), (20, 10, 0.5, 1)]
    assert analysis.table(found).rows[-1] == ["ANCE", "20", "10", "50.0%", "1", "1"]
    analysis.draw(found, [tmp_path / "o.svg"])
    text = (tmp_path / "o.svg").read_text()
    assert ">ANCE<" in text and ">overlap at 2<" in text


@pytest.mark.parametrize(
    ("negatives", "met", "told"),
    [
        ({"a": {0: "n"}}, {"b": {0: "r"}}, "a, b: negatives and met need the same labels"),
        ({"a": {5: "n"}}, {"a": {0: "r"}}, "a: there are no negatives before this run"),
        ({"a": {-1: "n"}}, {"a": {0: "r"}}, "greater than or equal to 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(negatives, met, told):
    with pytest.raises(ValidationError, match=told):
        OverlapCurve.model_validate({"negatives": negatives, "met": met})
