"""Code of a model's own never runs: it is named, and refused where vectors may depend on it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.recipes import small_collection
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.encoders.open import contract
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.store import Store, options_in_key
from tests.encoders.test_hub_folders import PUBLISHED
from tests.tiny import tiny_reranker

NAMES = {"AutoConfig": "modeling_bidir.BidirConfig", "AutoModel": "modeling_bidir.BidirModel"}
FP32 = EncodeOptions(precision="fp32")


def changed(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def causal(tmp_path: Path) -> Path:
    """A folder whose code would turn causal attention off, and leave a mark where it ran."""
    folder = PUBLISHED["Qwen3-Embedding"].write(tmp_path)
    (folder / "modeling_bidir.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    changed(folder / "config.json", auto_map=NAMES)
    return folder


def test_code_that_may_decide_is_refused_and_does_not_run(causal: Path, tmp_path: Path) -> None:
    told = (
        r"names code of its own \(modeling_bidir.BidirConfig, modeling_bidir.BidirModel\), which is not run: set code"
    )
    with pytest.raises(ModelError, match=told):
        load_learner(ModelSpec(str(causal)))
    with pytest.raises(ModelError, match=told):
        _ = resolve(str(causal)).digest
    assert not (tmp_path / "ran").exists()


def test_said_to_be_native_it_is_opened_and_saved_as_such(causal: Path, tmp_path: Path, caplog: Any) -> None:
    contract.warn.cache_clear()
    encoder = load_learner(ModelSpec(str(causal), code="native"), "cpu")
    assert "which is not run: transformers' own is" in caplog.text and not (tmp_path / "ran").exists()
    encoder.save(tmp_path / "saved")
    vectors = load_learner(ModelSpec(str(tmp_path / "saved"))).encode(["a text"], "query", FP32)
    assert np.array_equal(vectors, encoder.encode(["a text"], "query", FP32))
    assert options_in_key(ModelSpec("a", code="native")) == options_in_key(ModelSpec("a"))


def test_a_configuration_that_says_the_same_is_enough_but_not_of_a_tokenizer(causal: Path, caplog: Any) -> None:
    contract.warn.cache_clear()
    changed(causal / "config.json", is_causal=False)
    load_learner(ModelSpec(str(causal)))
    assert "modeling_bidir.BidirModel" in caplog.text
    changed(causal / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization.Own", None]})
    with pytest.raises(ModelError, match=r"modeling_bidir.BidirModel, tokenization.Own\), which is not run"):
        load_learner(ModelSpec(str(causal)))


def test_doctor_and_manifests_name_it(causal: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["doctor", "--model", str(causal)]).output
    assert "'modeling_bidir.BidirModel': True" in told
    changed(causal / "config.json", is_causal=False)
    told = CliRunner().invoke(app, ["doctor", "--model", str(causal)]).output
    assert "'modeling_bidir.BidirModel': False" in told
    store = tmp_path / "store"
    hn.encode(small_collection(tmp_path / "data"), str(causal), store=store)
    facts = [item.facts for item in Store(store).artifacts()]
    assert [each["code not run"] for each in facts if "code not run" in each] == [[*NAMES.values()]]


@pytest.mark.parametrize("name", ["custom_st.Transformer", "os.system"])
def test_a_module_of_other_code_is_refused(causal: Path, name: str) -> None:
    modules = json.loads((causal / "modules.json").read_text())
    (causal / "modules.json").write_text(json.dumps([*modules[:1], modules[1] | {"type": name}]))
    with pytest.raises(ModelError, match=f"modules.json: {name} is code of the model's own, which is not run: see"):
        load_learner(ModelSpec(str(causal), code="native"))


def test_a_reranker_of_other_code_is_refused_too(tmp_path: Path) -> None:
    folder = tiny_reranker(tmp_path / "reranker")
    changed(folder / "config.json", auto_map=NAMES)
    with pytest.raises(ModelError, match="names code of its own"):
        CrossEncoder(str(folder)).load()
    CrossEncoder(str(folder), code="native").load()
