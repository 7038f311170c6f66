"""Dropout that is drawn faster: its share, its seed, its gradients, and attention around it."""

import pytest
import torch
from test_gradient_cache import assert_equal, gradients
from torch import Tensor, nn
from torch.nn import functional
from toy import Interrupted, options, toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.losses.infonce import InfoNCE
from hardneg.losses.star import Star
from hardneg.runtime.progress import Silent
from hardneg.training.methods import dual_encoder
from hardneg.training.methods.dual_encoder import train
from hardneg.training.step import FastDropout

CPU = torch.device("cpu")


def drawn(seed: int, p: float, given: Tensor) -> Tensor:
    torch.manual_seed(seed)
    with FastDropout():
        return functional.dropout(given, p, training=True)


def test_a_share_is_dropped_and_the_mean_stays():
    ones = torch.ones(1000, 333, requires_grad=True)
    found = drawn(1, 0.1, ones)
    assert (found == 0).double().mean().item() == pytest.approx(0.1, abs=0.002)
    assert found[found > 0].unique().tolist() == [pytest.approx(65536 / (65536 - 6554))]
    found.sum().backward()
    assert ones.grad is not None and torch.equal(ones.grad, found.detach())
    assert drawn(1, 0.5, ones).unique().tolist() == [0.0, 2.0]
    assert drawn(1, 1e-9, ones).unique().tolist()[-1] == pytest.approx(65536 / 65535)


def test_draws_follow_torchs_seed_and_move_its_state_by_one():
    ones = torch.ones(7, 5)
    first = drawn(3, 0.5, ones)
    assert torch.equal(first, drawn(3, 0.5, ones))
    assert not torch.equal(first, drawn(4, 0.5, ones))
    torch.manual_seed(3)
    found = []
    for _ in range(2):
        with FastDropout():
            found.append(functional.dropout(ones, 0.5, True))
    assert torch.equal(found[0], first) and not torch.equal(found[1], first)


def test_what_is_not_to_be_drawn_here_is_torchs():
    layer, ones = nn.Dropout(0.5), torch.ones(50, 5)
    with FastDropout():
        assert functional.dropout(ones, 0.0, True) is not None
        found = functional.scaled_dot_product_attention(ones[None], ones[None], ones[None])
        assert torch.allclose(found, ones[None])
        assert torch.equal(layer.eval()(ones), ones)
        assert functional.dropout(ones, 1.0, True).unique().tolist() == [0.0]
        inner = ones.clone()
        assert functional.dropout(inner, 0.5, True, True) is inner
    torch.manual_seed(1)
    before = functional.dropout(ones, 0.5, True)
    drawn(2, 0.5, ones)
    torch.manual_seed(1)
    assert torch.equal(before, functional.dropout(ones, 0.5, True))


@pytest.mark.parametrize("mask", [None, "true", "added"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_is_torchs_but_for_the_draws(monkeypatch, mask, scale):
    monkeypatch.setattr(FastDropout, "_kept", lambda self, like, p: torch.ones_like(like))
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    allowed = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None, :]
    added = torch.zeros(2, 1, 5, 5).masked_fill(~allowed, torch.finfo(torch.float32).min)
    given = {"attn_mask": {None: None, "true": allowed, "added": added}[mask], "scale": scale}
    expected = functional.scaled_dot_product_attention(query, key, value, **given)
    wanted = torch.autograd.grad(expected.square().sum(), (query, key, value))
    with FastDropout():
        found = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.1, **given)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), (query, key, value)), wanted)


def test_attention_drops_weights():
    """Equal weights of 1/4 on the rows of an identity: each is 0 or 1/4 * 2."""
    query = torch.zeros(1, 1, 3, 4)
    torch.manual_seed(1)
    with FastDropout():
        found = functional.scaled_dot_product_attention(
            query, query[:, :, :1].expand(1, 1, 4, 4), torch.eye(4)[None, None], dropout_p=0.5
        )
        causal = functional.scaled_dot_product_attention(query, query, query + 1, dropout_p=0.5, is_causal=True)
    assert found.unique().tolist() == [0.0, 0.5]
    assert causal.shape == query.shape


def without_dropout(encoder: Encoder) -> Encoder:
    for part in encoder.module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return encoder


SPEC = {"similarity": "dot", "query_length": 16, "document_length": 24}


@pytest.mark.parametrize("chunk", [None, 3])
def test_passes_by_length_give_the_loss_and_gradients_of_one(toy_folder, tiny_model, monkeypatch, chunk):
    monkeypatch.setattr(dual_encoder, "PASS_TOKENS", 30)
    encoder = without_dropout(load_learner(ModelSpec(str(tiny_model), **SPEC), "cpu"))
    encoder.module.train()
    more = {"batch_size": 11, "negatives_per_query": 2, "chunk": chunk}
    whole = gradients(encoder, toy_folder, InfoNCE(), **more)
    passes = gradients(encoder, toy_folder, InfoNCE(), passes="by_length", **more)
    assert_equal(passes, whole, within=1e-6)


def test_chunks_are_drawn_alike_both_times(toy_folder, tiny_model, monkeypatch):
    encoder, drawn = load_learner(ModelSpec(str(tiny_model), **SPEC), "cpu"), []
    encoder.module.train()
    kept = FastDropout._kept

    def noted(self: FastDropout, like: Tensor, p: float) -> Tensor:
        drawn.append(kept(self, like, p))
        return drawn[-1]

    monkeypatch.setattr(FastDropout, "_kept", noted)
    gradients(encoder, toy_folder, Star(), batch_size=7, chunk=2, passes="by_length")
    half = len(drawn) // 2
    assert half > 8 and all(torch.equal(one, two) for one, two in zip(drawn[:half], drawn[half:], strict=True))
    assert not torch.equal(drawn[0], drawn[1])


def test_a_training_by_length_learns_and_goes_on_bit_for_bit(toy_folder, tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr(dual_encoder, "PASS_TOKENS", 60)
    chosen, found = options(max_steps=6, passes="by_length", precision="bf16"), []
    for folder, progress in (("whole", Silent()), ("broken", Interrupted(5)), ("broken", Silent())):
        encoder = load_learner(ModelSpec(str(tiny_model), **SPEC), "cpu")
        try:
            result = train(encoder, toy_data(toy_folder), Star(), chosen, tmp_path / folder, progress=progress)
        except KeyboardInterrupt:
            continue
        losses = [record["loss"] for record in result.history]
        assert len(losses) == 6 and losses[-1] < losses[0]
        found.append(encoder.module.state_dict())
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())


def test_passes_count_where_they_are_by_length_and_go_without_activations_computed_twice():
    assert "passes" not in options().identity()
    assert options(passes="by_length").identity()["passes"] == "by_length"
    (problem,) = options(passes="by_length", gradient_checkpointing=True).problems()
    assert problem.startswith("gradient_checkpointing cannot repeat the dropout of passes by_length")


def test_what_is_compiled_draws_in_its_own_way():
    assert options(compile=True).identity()["compile"] is True and "compile" not in options().identity()
    found = options(compile=True, passes="by_length", chunk=2).problems()
    own = "compile draws dropout in its own way, and so does passes by_length"
    cut = "chunk cannot repeat the dropout of what is compiled"
    assert {problem.split(":")[0] for problem in found} == {own, cut}


@pytest.mark.slow
def test_a_compiled_transformer_learns_the_same_without_dropout(toy_folder, tmp_path, tiny_model):
    found = []
    for compiled in (False, True):
        encoder = without_dropout(load_learner(ModelSpec(str(tiny_model), **SPEC), "cpu"))
        chosen = options(max_steps=3, compile=compiled)
        result = train(encoder, toy_data(toy_folder), Star(), chosen, tmp_path / str(compiled), progress=Silent())
        found.append([record["loss"] for record in result.history])
        assert encoder.module[0].model._compiled_call_impl is None
    assert found[1] == pytest.approx(found[0], rel=1e-4)
