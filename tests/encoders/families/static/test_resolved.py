"""The digest of a static model, its sizes, and its lengths, which have no bound."""

from pathlib import Path

import numpy as np
from encoders.families.static.changed_files import cut_at
from safetensors.torch import load_file
from tiny import HIDDEN, tiny_static

from hardneg.encoders.open.contract import UNBOUNDED
from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.records import PluginSetting


def test_segments_need_no_positions(static: Path):
    encoder = load_learner(ModelSpec(str(static), document_prompt="on "))
    made = encoder.segment(["a b c d e f", "", "a"], Segments(5, count=3))
    assert made.counts.tolist() == [2, 1, 1]
    assert made.tokens.lengths.tolist() == [5, 3, 1, 2]
    vectors, counts = encoder.encode_segments(["a b c d e f"], Segments(600, count=2))
    assert counts.tolist() == [1]
    np.testing.assert_allclose(vectors, encoder.encode(["a b c d e f"], "document"), atol=1e-6)


def test_digests(tmp_path: Path, static: Path, from_transformer: ModelSpec):
    spec = ModelSpec(str(static))
    digest = resolve(spec).digest
    assert digest == resolve(ModelSpec(str(static), encoder=PluginSetting("static"))).digest
    copy = tiny_static(tmp_path / "copy")
    assert digest == resolve(ModelSpec(str(copy))).digest
    assert digest != resolve(ModelSpec(str(tiny_static(tmp_path / "other", seed=1)))).digest
    assert digest != resolve(ModelSpec(str(static), query_prompt="q: ")).digest
    cut_at(copy, 3, "Right")
    assert digest != resolve(ModelSpec(str(copy))).digest
    made = resolve(from_transformer).digest
    assert made != resolve(ModelSpec(from_transformer.name)).digest
    assert made != resolve(ModelSpec(from_transformer.name, encoder=PluginSetting("static", {"dimensions": 9}))).digest
    same = {"dimensions": 8, "sif": 1e-4}
    assert made == resolve(ModelSpec(from_transformer.name, encoder=PluginSetting("static", same))).digest


def test_what_is_told_before_it_is_opened(tmp_path: Path, static: Path, from_transformer: ModelSpec):
    spec = ModelSpec(str(static))
    full = resolve(spec).known
    assert full is not None and (full.similarity, full.query_length) == ("cosine", UNBOUNDED)
    table = load_file(static / "model.safetensors")["embedding.weight"]
    assert resolve(spec).look_up().there > table.numel() * 4
    shape = resolve(spec).shape
    assert (shape.vector, shape.layers) == (HIDDEN, 0) and table.numel() * 4 <= shape.weights
    assert resolve(from_transformer).shape.layers == 0
    assert resolve(ModelSpec(str(tmp_path / "none"), encoder=PluginSetting("static"))).known is None


def test_a_length_without_bound_is_told_in_words(static: Path):
    card = model_card(load_learner(ModelSpec(str(static), document_length=9)), {})
    assert "all of a query, 9 of a document" in card and str(UNBOUNDED) not in card
