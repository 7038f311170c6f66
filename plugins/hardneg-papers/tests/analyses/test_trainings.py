from hardneg_papers.analyses.trainings import Gradients, Refreshes, curves_of

NORMS = [
    {"step": 1, "loss": 4.0, "gradient_norms": {"bottom": 1.0, "middle": 2.0, "top": 5.0}},
    {"step": 1, "dev": {"mrr@10": 0.5}},
    {"step": 2, "loss": 2.0, "gradient_norms": {"bottom": 0.0, "middle": 3.0, "top": 1.0}},
    {"step": 3, "loss": 9.0},
]


def test_the_loss_and_the_norms_of_each_group_are_averaged_over_the_steps_that_have_them():
    found = Gradients.of_history(NORMS)
    numbers = {name: (each["mean"], each["largest"], each["steps"]) for name, each in found.items()}
    layers = {"bottom": (0.5, 1.0, 2), "middle": (2.5, 3.0, 2), "top": (3.0, 5.0, 2)}
    assert numbers == {"loss": (3.0, 4.0, 2), **layers}
    assert found["bottom"]["curve"] == [(1.0, 1.0), (2.0, 0.0)]


def test_a_long_curve_is_thinned_to_means_of_neighbours():
    found = Gradients.of_history([{"step": step, "gradient_norms": {"all": step}} for step in range(600)])
    assert len(found["all"]["curve"]) == 300
    assert found["all"]["curve"][1] == (2.5, 2.5)


def test_a_history_without_norms_has_nothing():
    assert Gradients.of_history([{"step": 1, "loss": 1.0}]) == {}


REFRESHED = [
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
    found = Refreshes.of_history(REFRESHED)
    assert found["steps"] == 5
    assert found["refreshes"] == [(3, 3), (4, 4)]
    assert found["lag"] == {"mean": 2.6, "largest": 5}
    assert found["curves"]["loss"] == [(1, 4), (2, 3), (3, 2), (4, 5), (5, 1)]
    assert found["curves"]["ndcg@10"] == [(2, 0.5), (4, 0.3), (5, 0.6)]
    assert found["falls"] == {"ndcg@10": 0.2}


def test_the_first_refresh_after_a_start_on_other_negatives_is_one():
    beside = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 1.0}, {"step": 2, "refresh": 0, "lag": 1}]
    assert Refreshes.of_history(beside)["refreshes"] == [(2, 0)]


def test_a_history_without_refreshes_has_its_curves_alone_and_one_without_a_loss_nothing():
    found = Refreshes.of_history([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}])
    assert (found["refreshes"], found["lag"], found["falls"]) == ([], None, {})
    assert Refreshes.of_history([{"step": 1, "dev": {"mrr@10": 0.1}}]) == {}


def test_the_loss_is_the_mean_of_the_last_tenth_of_the_steps():
    found = Refreshes.of_history([{"step": step, "loss": float(step)} for step in range(1, 26)])
    assert found["loss"] == 24.5


HISTORY = [
    {"step": 0, "drift": {"overlap": 1.0, "best_rank": 1, "mrr@10": 0.2}},
    {"step": 5, "loss": 0.3},
    {"step": 10, "drift": {"overlap": 0.25, "best_rank": 40, "mrr@10": float("nan")}},
]


def test_the_curves_of_a_history_are_the_numbers_under_drift():
    assert curves_of(HISTORY, lambda row: row.get("drift")) == {
        "overlap": [(0, 1.0), (10, 0.25)],
        "best_rank": [(0, 1), (10, 40)],
        "mrr@10": [(0, 0.2)],
    }
