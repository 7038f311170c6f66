"""Options of training by name alone, as `--train-option` and `hn.train(options=...)` have them."""

from hardneg.api.adhoc_recipe import training_stage
from hardneg.verbs.train import Train


def test_options_stand_where_the_stage_has_them() -> None:
    given = {"max_steps": 2, "self_mask": 0.1, "dims": [8], "loss": "kl"}
    made = training_stage({"loss": "star", "negatives": "mined"}, given)
    within = {"max_steps": 2, "loss": "kl"}  # the loss has an argument of its own, so that this one is refused
    own = {"negatives": "mined", "self_mask": 0.1, "dims": [8], "options": within}
    assert made == {"stage": "train", "loss": "star", **own}
    del made["options"]["loss"]
    spec = Train.model_validate(made)
    assert (spec.self_mask, spec.dims, spec.options.max_steps) == (0.1, {8: 1.0}, 2)
