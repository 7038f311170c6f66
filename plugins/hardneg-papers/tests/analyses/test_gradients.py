from hardneg_papers.analyses.trainings import gradients

HISTORY = [
    {"step": 1, "loss": 4.0, "gradient_norms": {"bottom": 1.0, "middle": 2.0, "top": 5.0}},
    {"step": 1, "dev": {"mrr@10": 0.5}},
    {"step": 2, "loss": 2.0, "gradient_norms": {"bottom": 0.0, "middle": 3.0, "top": 1.0}},
    {"step": 3, "loss": 9.0},
]


def test_the_loss_and_the_norms_of_each_group_are_averaged_over_the_steps_that_have_them():
    found = gradients(HISTORY)
    numbers = {name: (each["mean"], each["largest"], each["steps"]) for name, each in found.items()}
    layers = {"bottom": (0.5, 1.0, 2), "middle": (2.5, 3.0, 2), "top": (3.0, 5.0, 2)}
    assert numbers == {"loss": (3.0, 4.0, 2), **layers}
    assert found["bottom"]["curve"] == [(1.0, 1.0), (2.0, 0.0)]


def test_a_long_curve_is_thinned_to_means_of_neighbours():
    found = gradients({"step": step, "gradient_norms": {"all": step}} for step in range(600))
    assert len(found["all"]["curve"]) == 300
    assert found["all"]["curve"][1] == (2.5, 2.5)


def test_a_history_without_norms_has_nothing():
    assert gradients([{"step": 1, "loss": 1.0}]) == {}
