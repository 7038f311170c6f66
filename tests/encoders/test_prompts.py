"""Specs and their prompts by task, by name and by dataset: what stands before a text, and what others make of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from hardneg.encoders.open.resolved import load_encoder, load_learner, resolve
from hardneg.encoders.spec import ModelSpec, PromptName, spec_from, whole_prompts
from hardneg.records import ModelError, PluginSetting
from tests.tiny import tiny_encoder


def test_every_mistake_is_told():
    spec = ModelSpec(" ", pooling="max", projection=0, similarity="l2", query_length=2, document_length=0)  # type: ignore[arg-type]
    fields = ["name", "pooling", "similarity", "projection", "query_length", "document_length"]
    assert [line.split()[0] for line in spec.problems()] == fields


def test_every_mistake_is_told_of_types_and_activations():
    spec = ModelSpec("x", activation="relu", query_token_type=-1)  # type: ignore[arg-type]
    assert [line.split()[0] for line in spec.problems()] == ["activation", "query_token_type"]
    assert "there is no projection" in ModelSpec("x", activation="tanh").problems()[0]


OWN = {"query": "ask: ", "document": "", "s2p_query": "Instruct: find it\nQuery: "}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny_encoder(tmp_path_factory.mktemp("models") / "prompted")
    config = {"similarity_fn_name": "cosine", "prompts": OWN}
    (made / "config_sentence_transformers.json").write_text(json.dumps(config))
    return made


def test_a_template_takes_the_task() -> None:
    prompts = {"query_prompt": "Instruct: {task}\nQuery: ", "document_prompt": ""}
    found = whole_prompts("m", prompts, "find {it}", OWN)
    assert found == {"query_prompt": "Instruct: find {it}\nQuery: ", "document_prompt": ""}
    named = whole_prompts("m", {"query_prompt": PromptName("s2p_query")}, None, OWN)
    assert named == {"query_prompt": OWN["s2p_query"]}


def test_what_is_wrong_is_told() -> None:
    template, none = "Instruct: {task} ", {"query_prompt": "", "document_prompt": "x"}
    unset = ModelSpec("m", query_prompt=template).problems()
    assert unset == ["query_prompt contains {task}, but there is no task; set model.task"]
    assert ModelSpec("m", query_prompt=template, task="t").problems() == []
    assert ModelSpec("m", task="t").problems() == []  # the model's prompts may take it
    assert [line.split(",")[0] for line in ModelSpec("m", task="t", **none).problems()] == ["task is set"]
    assert ModelSpec("m", query_prompt=PromptName("")).problems() == ["query_prompt.name is empty"]
    with pytest.raises(ModelError, match="'s2s'; available: query, s2p_query"):
        whole_prompts("m", {"query_prompt": PromptName("s2s")}, None, OWN)
    with pytest.raises(ModelError, match="no prompt contains"):
        whole_prompts("m", {"query_prompt": "ask: "}, "t", OWN)


def test_a_prompt_counts_by_its_text(folder: Path) -> None:
    ways = [
        ModelSpec(str(folder), query_prompt=OWN["s2p_query"]),
        ModelSpec(str(folder), query_prompt=PromptName("s2p_query")),
        ModelSpec(str(folder), query_prompt="Instruct: {task}\nQuery: ", task="find it"),
    ]
    assert len({resolve(spec).digest for spec in ways}) == 1
    assert len({resolve(spec, fetch=True).full for spec in ways}) == 1
    assert resolve(ModelSpec(str(folder))).digest != resolve(ways[0]).digest


def test_others_read_the_saved_prompts(folder: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = ModelSpec(str(folder), query_prompt="Instruct: {task}\nQuery: ", task="name the tool", document_prompt="p: ")
    encoder, texts = load_learner(spec, "cpu"), ["hammer and nail", "saw"]
    encoder.save(tmp_path / "saved")
    opened, ours = SentenceTransformer(str(tmp_path / "saved"), device="cpu"), load_encoder(tmp_path / "saved", "cpu")
    assert opened.prompts["query"] == "Instruct: name the tool\nQuery: "
    assert opened.prompts["s2p_query"] == OWN["s2p_query"]
    for kind, theirs in (("query", opened.encode_query(texts)), ("document", opened.encode_document(texts))):
        for mine in (encoder, ours):
            assert np.allclose(mine.encode(texts, kind), theirs, atol=1e-5)  # type: ignore[arg-type]
    plain = load_learner(ModelSpec(str(folder)), "cpu").encode(texts, "query")
    assert not np.allclose(plain, encoder.encode(texts, "query"), atol=1e-3)


def test_a_spec_comes_back_from_its_mapping() -> None:
    from dataclasses import asdict

    from hardneg.encoders.spec import AdapterSpec

    spec = ModelSpec("m", query_prompt=PromptName("a"), adapter=AdapterSpec(rank=2), encoder=PluginSetting("dense"))
    assert spec_from(asdict(spec)) == spec
    assert spec_from(asdict(ModelSpec("m", query_prompt="q: "))) == ModelSpec("m", query_prompt="q: ")
