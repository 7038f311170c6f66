"""Training with angular scores, where cosines come near to 1."""

import math

import pytest
from toy import toy_data, write_toy

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.pairwise import Triplet
from hardneg.runtime import Silent
from hardneg.training.methods.dual_encoder import train
from hardneg.training.options import TrainOptions


@pytest.mark.slow
def test_a_thousand_steps_in_bfloat16_stay_finite(tmp_path, tiny_model):
    """A copy of a positive has a cosine of 1 with it; a loss or gradient that is not finite would end the run."""
    head = {"pooling": "cls", "projection": 8, "activation": "tanh", "query_token_type": 1}
    spec = ModelSpec(str(tiny_model), query_length=8, document_length=12, **head)
    encoder = load_learner(spec, "cpu")
    steps = {"batch_size": 6, "max_steps": 1000, "learning_rate": 1e-3, "weight_decay": 0.1, "precision": "bf16"}
    options = TrainOptions(false_negative_mask=False, checkpoint_every=None, **steps)
    data = toy_data(write_toy(tmp_path / "toy"))
    result = train(encoder, data, Triplet(), options, tmp_path / "run", progress=Silent())
    losses = [record["loss"] for record in result.history]
    assert result.steps == 1000 and all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0]
