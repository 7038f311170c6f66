from hardneg_papers.analyses.trainings import Refreshes, refreshes

HISTORY = [
    {"step": 1, "loss": 4.0, "refresh": 0, "lag": 1},
    {"step": 2, "loss": 3.0, "refresh": 0, "lag": 2},
    {"step": 2, "dev": {"ndcg@10": 0.5}},
    {"step": 3, "loss": 2.0, "refresh": 3, "lag": 1, "kept": 0.1},
    {"step": 4, "loss": 5.0, "refresh": 4, "lag": 4, "kept": 0.25},
    {"step": 4, "dev": {"ndcg@10": 0.3}},
    {"step": 5, "loss": 1.0, "refresh": 4, "lag": 5},
    {"step": 5, "dev": {"ndcg@10": 0.6}},
]


def test_a_refresh_is_where_a_step_uses_other_negatives_than_the_one_before():
    found = refreshes(HISTORY)
    assert found["steps"] == 5
    assert found["refreshes"] == [(3, 3), (4, 4)]
    assert found["lag"] == {"mean": 2.6, "largest": 5}
    assert found["kept"] == [(3, 0.1), (4, 0.25)]
    assert found["curves"]["loss"] == [(1, 4), (2, 3), (3, 2), (4, 5), (5, 1)]
    assert found["curves"]["ndcg@10"] == [(2, 0.5), (4, 0.3), (5, 0.6)]
    assert found["falls"] == {"ndcg@10": 0.2}


def test_the_first_refresh_after_a_start_on_other_negatives_is_one():
    beside = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 1.0}, {"step": 2, "refresh": 0, "lag": 1}]
    assert refreshes(beside)["refreshes"] == [(2, 0)]


def test_a_history_without_refreshes_has_its_curves_alone_and_one_without_a_loss_nothing():
    found = refreshes([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}])
    assert (found["refreshes"], found["lag"], found["kept"], found["falls"]) == ([], None, [], {})
    assert refreshes([{"step": 1, "dev": {"mrr@10": 0.1}}]) == {}


def test_the_loss_is_the_mean_of_the_last_tenth_of_the_steps():
    found = refreshes([{"step": step, "loss": float(step)} for step in range(1, 26)])
    assert found["loss"] == 24.5


def test_the_table_has_a_row_a_training():
    found = {"a": refreshes(HISTORY), "b": refreshes([{"step": 7, "loss": 2.0}])}
    table = Refreshes.model_construct().table(found)
    assert table.columns[-4:] == ("best ndcg@10", "at step", "last", "deepest fall")
    assert table.rows[0] == ["a", "5", "2", "2.6", "5.0", "25.0 %", "1.0000", "0.6000", "5", "0.6000", "0.2000"]
    assert table.rows[1] == ["b", "7", "0", "–", "–", "–", "2.0000", "–", "–", "–", "–"]
