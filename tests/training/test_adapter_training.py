"""Training of an adapter: its weights alone change, are in checkpoints, and come to the same in every way."""

from pathlib import Path
from typing import Any

import pytest
import torch
from toy import Interrupted, options, toy_data

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import AdapterSpec, ModelSpec
from hardneg.losses.pairwise import Star
from hardneg.runtime import Silent
from hardneg.training.checkpoint import load_learning, save_learning
from hardneg.training.loop import TrainingResult
from hardneg.training.methods.dual_encoder import train


def loaded(folder: Path, **adapter: Any) -> Encoder:
    settings = AdapterSpec(rank=4, **adapter)
    return load_learner(
        ModelSpec(str(folder), similarity="dot", query_length=16, document_length=24, adapter=settings), "cpu"
    )


def run(toy: Path, folder: Path, encoder: Encoder, progress: Any = None, **more: Any) -> TrainingResult:
    chosen = options(**{"max_steps": 6, "learning_rate": 3e-2, **more})
    return train(encoder, toy_data(toy), Star(), chosen, folder, progress=progress or Silent())


def test_a_stopped_training_of_an_adapter_goes_on_bit_for_bit(toy_folder, tmp_path, tiny_model):
    from safetensors.torch import load_file

    whole = loaded(tiny_model, dropout=0.1)
    before = {name: tensor.clone() for name, tensor in whole.module.state_dict().items()}
    losses = [record["loss"] for record in run(toy_folder, tmp_path / "whole", whole).history]
    assert losses[-1] < losses[0]
    changed = {name for name, tensor in whole.module.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name in before if ".default" in name}
    with pytest.raises(KeyboardInterrupt):
        run(toy_folder, tmp_path / "broken", loaded(tiny_model, dropout=0.1), Interrupted(5))
    again = loaded(tiny_model, dropout=0.1)
    run(toy_folder, tmp_path / "broken", again)
    found = again.module.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in whole.module.state_dict().items())
    for name in ("model", "optimizer"):
        path = f"checkpoints/step-000000006/{name}.safetensors"
        assert (tmp_path / "whole" / path).read_bytes() == (tmp_path / "broken" / path).read_bytes()
    assert set(load_file(tmp_path / "whole" / "checkpoints" / "step-000000006" / "model.safetensors")) == changed


def test_checkpointing_and_caching_of_gradients_come_to_the_same(toy_folder, tmp_path, tiny_model):
    ways: dict[str, dict[str, Any]] = {"plain": {}, "again": {"gradient_checkpointing": True}, "cached": {"chunk": 2}}
    found = {}
    for name, way in ways.items():
        encoder = loaded(tiny_model)
        for part in encoder.module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        found[name] = [record["loss"] for record in run(toy_folder, tmp_path / name, encoder, **way).history]
    assert found["again"] == pytest.approx(found["plain"], rel=1e-4)
    assert found["cached"] == pytest.approx(found["plain"], rel=1e-4)


def test_a_kept_model_of_an_adapter_opens_as_a_plain_one(toy_folder, tmp_path, tiny_model):
    from sentence_transformers import SentenceTransformer

    encoder = loaded(tiny_model)
    run(toy_folder, tmp_path, encoder, keep_every=6)
    opened = SentenceTransformer(str(tmp_path / "kept" / "step-6"), device="cpu")
    ours = encoder.encode(["what is amber"], "query")
    theirs = opened.encode_query(["what is amber"])
    assert torch.cosine_similarity(torch.from_numpy(ours), torch.from_numpy(theirs)) > 0.99999


def test_weights_of_another_model_are_no_checkpoint(tmp_path):
    module, other = (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)) for _ in range(2))
    module[0].requires_grad_(False)
    save_learning(module, tmp_path / "weights")
    other[0].requires_grad_(False)
    load_learning(other, tmp_path / "weights")
    assert torch.equal(other[1].weight, module[1].weight) and not torch.equal(other[0].weight, module[0].weight)
    other[1].requires_grad_(False)
    other[0].requires_grad_(True)
    with pytest.raises(RuntimeError, match=r"not the weights of this model: 0\."):
        load_learning(other, tmp_path / "weights")
