from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["the mean of an array", "", "word " * 300, "read a file", "x", "Ünïcode 漢字!", "read a file"]
TEXTS += [f"passage {'and more ' * (n % 17)}{n}" for n in range(60)]


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


def names(encoder: Encoder) -> list[str]:
    return [type(part).__name__ for part in encoder.module.children()]


def test_features_are_padded_and_cut_to_their_kind(tiny_model: Path):
    spec = ModelSpec(str(tiny_model), query_length=5, document_length=9, query_prompt="q: ")
    encoder = load_learner(spec, "cpu")
    long = "a b c d e f g h i j k"
    query, document = encoder.features([long, "a"], "query"), encoder.features([long], "document")
    assert query["input_ids"].shape == (2, 5) and document["input_ids"].shape == (1, 9)
    assert query["attention_mask"].tolist() == [[1] * 5, [1] * 5]
    read = encoder.module.tokenizer.convert_ids_to_tokens(query["input_ids"][1].tolist())
    assert read == ["[CLS]", "q", ":", "a", "[SEP]"]
    assert read[0] == "[CLS]" and document["input_ids"][0, -1] == encoder.module.tokenizer.sep_token_id


def test_embed_is_float32_under_autocast(encoder: Encoder):
    with torch.autocast("cpu", torch.bfloat16):
        vectors = encoder.embed(encoder.features(TEXTS[:5], "document"), "document")
    assert vectors.dtype == torch.float32
    np.testing.assert_allclose(np.linalg.norm(vectors.detach().numpy(), axis=1), 1, atol=1e-6)


def test_training_mode_comes_back_part_by_part(tiny_model: Path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    assert not encoder.module.training
    encoder.module.train()
    encoder.module[1].eval()
    one, two = (encoder.encode(["dropout is off"], "query", FP32) for _ in range(2))
    assert (one == two).all()
    assert encoder.module.training and encoder.module[0].model.training and not encoder.module[1].training


def test_a_vector_that_is_not_finite_is_named(tiny_model: Path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    row = encoder.module.tokenizer.convert_tokens_to_ids("q")
    with torch.no_grad():
        encoder.module[0].model.embeddings.word_embeddings.weight[row] = torch.nan
    texts = ["fine"] * 7 + ["q", "fine", "q"]
    with pytest.raises(ModelError, match="query text 7 "):
        encoder.encode(texts, "query", EncodeOptions(window=4))


@pytest.mark.parametrize("side", ["query", "document"])
def test_vectors_that_are_all_the_same_are_no_encoding(tiny_model: Path, side):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    with torch.no_grad():
        for weight in encoder.module.parameters():
            weight.zero_()
    message = f"the vectors of 67 {side} texts are all the same: check its weights and its tokenizer"
    with pytest.raises(ModelError, match=message):
        encoder.encode(TEXTS, side)
    assert len(encoder.encode(["the same"] * 40, side)) == 40  # as of few different texts nothing can be said
    assert len(encoder.encode(["漢", "字"], side)) == 2


def test_the_head_is_drawn_from_the_spec_alone(tiny_model: Path):
    spec = ModelSpec(str(tiny_model), projection=512, layer_norm=True, similarity="dot")
    torch.manual_seed(1)
    one = load_learner(spec, "cpu")
    torch.manual_seed(2)
    two = load_learner(spec, "cpu")
    assert names(one) == ["Transformer", "Pooling", "Dense", "LayerNorm"] and one.dimension == 512
    weight, bias = one.module[2].linear.weight, one.module[2].linear.bias
    assert torch.equal(weight, two.module[2].linear.weight)
    assert 0.019 < weight.std().item() < 0.021 and not bias.any()
    assert (one.encode(TEXTS, "query", FP32) == two.encode(TEXTS, "query", FP32)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"document_length": 513}, "at most 512 tokens: document_length is 513"),
        ({"query_length": 1000}, "at most 512 tokens: query_length is 1000"),
        ({"query_length": 1}, "query_length is 1"),
        ({"similarity": "l2"}, "similarity is 'l2'"),
    ],
)
def test_what_a_model_cannot_do(tiny_model: Path, change: dict[str, object], said: str):
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(tiny_model), **change), "cpu")  # type: ignore[arg-type]


def test_a_plain_folder_has_no_pooling_of_its_own(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "plain", kind="transformers")
    with pytest.raises(ModelError, match="set pooling to cls, mean or lasttoken"):
        load_learner(ModelSpec(str(folder)), "cpu")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", "{", "not readable as JSON"),
        ("config.json", '{"model_type": "none"}', "cannot be opened"),
        ("modules.json", "{", "not readable as JSON"),
        ("modules.json", '{"a": 1}', "not in the form that sentence-transformers writes"),
        ("model.safetensors", "broken", "cannot be opened"),
        ("adapter_config.json", "{}", "of type None, which is not supported"),
        ("config_sentence_transformers.json", '{"truncate_dim": "8"}', "not a number of dimensions"),
    ],
)
def test_broken_folders(tmp_path: Path, file: str, content: str, said: str):
    folder = tiny_encoder(tmp_path / "broken")
    (folder / file).write_text(content)
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(folder)), "cpu")


def test_roberta_positions_begin_after_the_padding(tmp_path: Path):
    from transformers import RobertaConfig, RobertaModel

    folder = tiny_encoder(tmp_path / "roberta", kind="transformers")
    config = RobertaConfig(
        vocab_size=1500, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=66, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(folder)
    with pytest.raises(ModelError, match="at most 64 tokens: document_length is 65"):
        load_learner(ModelSpec(str(folder), pooling="cls", document_length=65), "cpu")
    encoder = load_learner(ModelSpec(str(folder), pooling="cls", document_length=64), "cpu")
    assert np.isfinite(encoder.encode(["a " * 100], "document")).all()
