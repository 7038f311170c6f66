"""A model exported for Pyserini's AnceQueryEncoder."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.encoders.encoder import Encoder, split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.open.save import export_ance
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import ModelError, UsageError

FP32 = EncodeOptions(precision="fp32")
ANCE = {"pooling": "cls", "projection": 768, "layer_norm": True, "similarity": "dot"}
ANCE |= {"query_length": 64, "document_length": 64}
TEXTS = ["old river", "", "The quiet garden, seen again! " * 30]


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random RoBERTa of two layers and 32 dimensions, with a byte-level vocabulary."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    folder = tmp_path_factory.mktemp("roberta")
    pairs = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pairs.train_from_iterator(TEXTS, vocab_size=300, min_frequency=1, special_tokens=special, show_progress=False)
    pairs.save_model(str(folder))
    tokenizer = RobertaTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=80, **sizes)
    RobertaModel(config).save_pretrained(folder)
    return folder


def load(folder: Path, **options: object) -> Encoder:
    return load_learner(ModelSpec(str(folder), **(ANCE | options)), "cpu")  # type: ignore[arg-type]


def test_pyserini_opens_it_and_encodes_the_same_vectors(roberta, tmp_path, monkeypatch):
    if find_spec("pyserini") is None:
        pytest.skip("needs Pyserini: pip install 'hardneg[lucene]'")
    from hardneg.indexes.kernels.lucene.java import start_java

    start_java()
    from pyserini.encode import AnceQueryEncoder
    from pyserini.encode._ance import AnceEncoder

    if not hasattr(AnceEncoder, "all_tied_weights_keys"):  # what transformers 5 asks of every model
        monkeypatch.setattr(AnceEncoder, "all_tied_weights_keys", {}, raising=False)
    twin = split(load(roberta))
    with torch.no_grad():
        twin.parts("query")[3].norm.bias += 1
    export_ance(twin, tmp_path / "out")
    opened = AnceQueryEncoder(str(tmp_path / "out"))
    vectors = twin.encode(TEXTS, "query", FP32)
    assert abs(vectors - twin.encode(TEXTS, "document", FP32)).max() > 0.9
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(opened.encode(text), vector, atol=1e-5)


def test_the_files_are_those_of_every_version_of_pyserini(roberta, tmp_path):
    encoder = load(roberta)
    export_ance(encoder, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"config.json", "pytorch_model.bin", "vocab.json", "merges.txt", "tokenizer.json"}
    weights = torch.load(tmp_path / "out" / "pytorch_model.bin", weights_only=True)
    assert weights["ance_encoder.embeddingHead.weight"].shape == (768, 32)
    assert weights["ance_encoder.norm.bias"].shape == (768,)
    assert "ance_encoder.roberta.encoder.layer.1.output.dense.weight" in weights
    assert not (tmp_path / "out" / "hardneg.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"projection": 32}, "projection 768"),
        ({"pooling": "mean"}, "pooling cls"),
        ({"layer_norm": False}, "layer_norm true"),
        ({"similarity": "cosine"}, "similarity dot"),
        ({"query_prompt": "query: "}, "no query_prompt"),
    ],
)
def test_another_architecture_is_refused(roberta, tmp_path, options, message):
    with pytest.raises(ModelError, match=message):
        export_ance(load(roberta, **options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_transformer_is_refused(tiny_model, tmp_path):
    with pytest.raises(ModelError, match="a RoBERTa, and it is a bert"):
        export_ance(load(tiny_model), tmp_path / "out")


def test_the_command_tells_what_pyserini_reads_of_a_query(roberta, tmp_path):
    def export(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["export", *arguments, "--output", str(tmp_path / "out")])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.output

    load(roberta, query_length=32).save(tmp_path / "model")
    out = export("--model", str(tmp_path / "model"), "--form", "ance")
    assert "AnceQueryEncoder" in out and "64 tokens of a query, the model 32" in out
    assert (tmp_path / "out" / "pytorch_model.bin").exists()
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"notes\.txt: already there"):
        export("--model", str(tmp_path / "model"), "--form", "ance")
    for wrong in (["--model", "m", "--form", "dpr"], ["--form", "dpr"], ["--model", "m", "--negatives", "n"]):
        with pytest.raises(UsageError, match="--model FOLDER with --form ance"):
            export(*wrong)
