"""Folders and settings that make no static model, and what is said of them."""

from pathlib import Path

import pytest
from encoders.families.static.changed_files import cut_at
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tiny import BY_FAMILY, HIDDEN, tiny_model2vec, tiny_multi_vector, tiny_static

from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError, PluginSetting


def _without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def _fewer_rows(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({"embedding.weight": weights["embedding.weight"][:9].clone()}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "options", "told"),
    [
        (lambda folder: _without(folder, "tokenizer.json"), {}, r"no tokenizer\.json there: copy the model again"),
        (lambda folder: _without(folder, "model.safetensors"), {}, "no weights there: copy the model again"),
        (_fewer_rows, {}, "they do not belong together"),
        (lambda folder: cut_at(folder, 0, "Right"), {}, "truncation to 0 tokens: copy the model again"),
        (lambda folder: None, {"pooling": "cls"}, "is static: it has no pooling, leave that out"),
        (lambda folder: None, {"query_token_type": 1}, "is static: it has no query_token_type, leave that out"),
        (lambda folder: None, {"encoder": PluginSetting("static", {"sif": 0.1})}, "is static already: leave the op"),
    ],
)
def test_what_cannot_be_had(tmp_path: Path, damage, options, told):
    folder = tiny_static(tmp_path / "model")
    damage(folder)
    with pytest.raises(ModelError, match=told):
        load_learner(ModelSpec(str(folder), **options))


@pytest.mark.parametrize("kind", [each for each in BY_FAMILY if each != "static"])
def test_a_static_folder_is_no_other_kind(static: Path, tmp_path: Path, kind):
    for folder in (static, tiny_model2vec(tmp_path / "model2vec")):
        spec, told = ModelSpec(str(folder), encoder=PluginSetting(kind)), f"a static model, not a {kind} encoder"
        with pytest.raises(ModelError, match=told):
            _ = resolve(spec).digest
        with pytest.raises(ModelError, match=told):
            load_learner(spec, "cpu")


def test_a_folder_of_another_kind_gives_no_table(tmp_path: Path):
    spec = ModelSpec(str(tiny_multi_vector(tmp_path / "colbert")), encoder=PluginSetting("static"))
    with pytest.raises(ModelError, match="a MultiVectorEncoder, not a static encoder"):
        _ = resolve(spec, fetch=True).full


def test_a_table_for_queries_alone(tmp_path: Path, static: Path, tiny_model: Path):
    """As sentence-transformers' documentation has it for queries that cost nothing."""
    from sentence_transformers.sentence_transformer.modules import Pooling, Router, Transformer

    table = SentenceTransformer(str(static), device="cpu")[0]
    router = Router.for_query_document([table], [Transformer(str(tiny_model)), Pooling(HIDDEN)])
    SentenceTransformer(modules=[router], device="cpu").save(str(tmp_path / "apart"), create_model_card=False)
    for opened in (lambda spec: resolve(spec).full, load_learner):
        with pytest.raises(ModelError, match="a table on one side and none on the other: use another model"):
            opened(ModelSpec(str(tmp_path / "apart")))
