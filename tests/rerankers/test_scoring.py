"""Rerankers keep their contract; scores of pairs, whatever the batches and the padding; heads that are drawn."""

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from recipes.recipes import plan_in, small_collection, small_tree, write_recipe
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder as Published
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tiny import tiny_encoder, tiny_reranker, tiny_reranker as write_reranker
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.encoders.protocol import EncodeOptions
from hardneg.recipes import load_recipe, make_plan, plan as planning
from hardneg.records import ModelError, PluginError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairNetwork, PairScorer, load_classifier
from hardneg.testing import TrainableRerankerTests

WORDS = ["an", "old", "river", "ran", "past", "the", "quiet", "bridge", "and", "the", "blue", "harbor"]
REQUESTS = [
    (" ".join(WORDS[i : i + 1 + i % 3]), [" ".join(WORDS[j:] * (1 + j % 4)) for j in range(i, 11)]) for i in range(11)
]
FP32 = EncodeOptions(precision="fp32")


def scores(reranker, options=FP32):
    return [list(found) for found in PairScorer.of(reranker.load(), "cpu", options).rerank(REQUESTS)]


def test_scores_are_those_of_a_saved_cross_encoder_one_query_at_a_time(tiny_model, tmp_path):
    reranker = CrossEncoder(str(tiny_model), length=32)
    PairNetwork(reranker.load()).save(tmp_path / "saved", "# card\n")
    published = Published(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    expected = [published.predict([(query, text) for text in texts]).tolist() for query, texts in REQUESTS]
    assert max(len(text.split()) for _, texts in REQUESTS for text in texts) > 32
    for options in (FP32, EncodeOptions(100, "fp32", window=7), EncodeOptions(1, "fp32", window=1)):
        found = scores(reranker, options)
        assert [len(row) for row in found] == [len(row) for row in expected]
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=1e-6)
    saved = CrossEncoder("none").load
    with pytest.raises(ModelError, match="none"):
        saved()
    again = CrossEncoder(str(tmp_path / "saved"), length=32)
    np.testing.assert_allclose(np.concatenate(scores(again)), np.concatenate(expected), atol=1e-6)


def test_a_block_is_scored_as_if_alone_while_the_next_is_tokenised(tiny_model):
    options = EncodeOptions(200, "fp32", window=25)
    scorer = PairScorer.of(CrossEncoder(str(tiny_model), length=32).load(), "cpu", options)
    blocks = [REQUESTS[:3], REQUESTS[3:4], [("none", [])], REQUESTS[4:]]
    taken = []
    found = scorer.rerank_blocks(taken.append(1) or block for block in blocks)
    assert list(next(found)) and len(taken) <= 2
    alone = [list(scores) for block in blocks for scores in scorer.rerank(block)]
    again = [list(scores) for scores in scorer.rerank_blocks(blocks)]
    assert again == alone and alone[4] == []  # to the last bit


def test_two_outputs_give_the_softmax_of_the_second(tiny_model):
    reranker = CrossEncoder(str(tiny_model), length=32, outputs=2)
    query, texts = REQUESTS[0]
    published = reranker.load()
    softmax = published.predict([(query, text) for text in texts], activation_fn=torch.nn.Softmax(dim=1))
    np.testing.assert_allclose(scores(reranker)[0], softmax[:, 1], atol=1e-6)
    logits = scores(CrossEncoder(str(tiny_model), length=32, outputs=2, activation="none"))[0]
    np.testing.assert_allclose(1 / (1 + np.exp(-np.array(logits))), softmax[:, 1], atol=1e-6)


def test_logits_that_saturate_keep_their_order(tiny_model):
    """In float32 a sigmoid is 1 from 17 on, in float64 from 37 on."""
    network = PairNetwork(CrossEncoder(str(tiny_model), length=32).load())
    logits = [39.0, 15.0, 40.0, 0.0, 37.0, 15.001, 39.0, 1000.0, -1.0]
    found = network.activated(logits)
    assert sorted(range(9), key=lambda i: -found[i]) == [7, 2, 0, 6, 4, 5, 1, 3, 8]
    assert found[0] == found[6] and found[7] == 1 and found[3] == 0.5 and found[4] > 1 - 1e-15
    assert found[1] == pytest.approx(1 / (1 + math.exp(-15)), abs=1e-16)
    assert found[8] == pytest.approx(0.2689414213699951, abs=1e-15)
    assert network.activated([]) == []


def test_the_outputs_of_a_head_are_known_before_it_is_loaded(tiny_model, tmp_path):
    two = CrossEncoder(str(tiny_model), length=32, outputs=2)
    PairNetwork(two.load()).save(tmp_path / "two", "# card\n")
    sources = {str(tiny_model): 1, str(tmp_path / "two"): 2, str(tmp_path): None, "not/here": None}
    assert {source: CrossEncoder(source).head for source in sources} == sources
    assert two.head == 2 and CrossEncoder(str(tmp_path / "two"), length=32).load().num_labels == 2


def test_bfloat16_keeps_close_pairs_apart(tiny_model):
    reranker = CrossEncoder(str(tiny_model), length=32, activation="none")
    exact, half = np.concatenate(scores(reranker)), np.concatenate(scores(reranker, EncodeOptions(precision="bf16")))
    np.testing.assert_allclose(half, exact, atol=0.02)
    assert len(set(half.tolist())) > 0.8 * len(set(exact.tolist()))


def test_a_head_may_be_modules_behind_the_transformer(tiny_model):
    transformer, head = Transformer(str(tiny_model)), Dense(32, 1, module_output_name="scores")
    network = Published(modules=[transformer, Pooling(32, "cls"), head], device="cpu")
    query, texts = REQUESTS[0]
    expected = network.predict([(query, text) for text in texts])
    (exact,) = PairScorer.of(network, "cpu", FP32).rerank(REQUESTS[:1])
    np.testing.assert_allclose(exact, expected, atol=1e-6)
    scorer = PairScorer.of(network, "cpu", EncodeOptions(precision="bf16"))
    (half,) = scorer.rerank(REQUESTS[:1])
    np.testing.assert_allclose(half, expected, atol=0.02)
    assert scorer.network.module[2].linear.weight.dtype == torch.float32 and len(set(half)) == len(set(exact))
    transformer.transformer_task = "text-generation"
    with pytest.raises(ModelError, match="with a head over its vectors"):
        PairNetwork(network)


def test_what_cannot_be_loaded_is_told(tiny_model, tmp_path):
    with pytest.raises(PluginError, match="length is 2"):
        CrossEncoder(str(tiny_model), length=2)
    with pytest.raises(ModelError, match="at most 512 tokens, but length is 900"):
        CrossEncoder(str(tiny_model), length=900).load()
    three = CrossEncoder(str(tiny_model), length=32).load()
    three[0].model.config.num_labels = 3
    with pytest.raises(ModelError, match="3 outputs"):
        PairNetwork(three)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="no tokenizer found"):
        CrossEncoder(str(tmp_path)).load()
    shutil.copy(tiny_model / "tokenizer.json", tmp_path)
    with pytest.raises(ModelError, match="no weights found, neither"):
        CrossEncoder(str(tmp_path)).load()


def test_a_score_that_is_not_finite_is_an_error(tiny_model):
    network = CrossEncoder(str(tiny_model), length=32).load()
    with torch.no_grad():
        network[0].model.classifier.bias.fill_(float("nan"))
    with pytest.raises(ModelError, match="are not finite"):
        list(PairScorer.of(network, "cpu", FP32).rerank(REQUESTS))


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
PAIRS = [("old river", ["a river", "the old river runs through a wide valley", "", "two words"])]


def llama(folder: Path, network: str = "LlamaForSequenceClassification", **tokens: int | None) -> Path:
    """A decoder with a head of one output, its tokens that end and pad as they are given."""
    import transformers

    tiny_encoder(folder, kind="transformers")
    ids = {"pad_token_id": None, "eos_token_id": None, "bos_token_id": None, **tokens}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(vocab_size=2000, num_labels=1, **SIZES, **ids)
        getattr(transformers, network)(config).save_pretrained(folder)
    return folder


def tokenizer(folder: Path, **changes: Any) -> Path:
    path = folder / "tokenizer_config.json"
    kept = {name: value for name, value in json.loads(path.read_text()).items() if changes.get(name, "") is not None}
    path.write_text(json.dumps(kept | {name: value for name, value in changes.items() if value is not None}))
    return folder


@pytest.mark.parametrize("pad", ["[PAD]", None, "[SEP]"])
@pytest.mark.parametrize("of_network", [None, -1, 4])
def test_pairs_together_are_scored_as_alone(tmp_path: Path, pad: str | None, of_network: int | None) -> None:
    """[SEP] ends a pair, so it cannot pad; 4 is [MASK]. Alone is what transformers computes of the files."""
    from transformers import AutoTokenizer, LlamaForSequenceClassification

    folder = tokenizer(llama(tmp_path, pad_token_id=of_network), pad_token=pad, eos_token="[SEP]")
    found = next(CrossEncoder(str(folder), length=64, activation="none").rerank(PAIRS))
    model, words = LlamaForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    model.config.pad_token_id = None
    with torch.no_grad():
        alone = [model(**words([PAIRS[0][0]], [text], return_tensors="pt")).logits.item() for text in PAIRS[0][1]]
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_a_fresh_head_is_saved_with_a_token_that_pads(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder as Library

    folder = tokenizer(llama(tmp_path / "base", "LlamaModel"), pad_token=None, eos_token="[SEP]")
    network = PairNetwork(load_classifier(folder, 64))
    network.save(tmp_path / "saved", "a card")
    scores = Library(str(tmp_path / "saved"), device="cpu").predict([(PAIRS[0][0], text) for text in PAIRS[0][1]])
    ours = next(CrossEncoder(str(tmp_path / "saved"), length=64).rerank(PAIRS))
    np.testing.assert_allclose(ours, scores, atol=1e-5)


def test_without_any_such_token_it_is_told(tmp_path: Path) -> None:
    names = ("pad", "eos", "bos", "cls", "unk")
    folder = tokenizer(llama(tmp_path), **{f"{name}_token": None for name in names})
    with pytest.raises(ModelError, match="no padding token; set pad_token in its"):
        next(CrossEncoder(str(folder), length=64).rerank(PAIRS))


PACKAGED = "packaged:all-MiniLM-L6-v2"
NO_HEAD = "this is an encoder without a scoring head"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_collection(tmp_path / "data")


@pytest.mark.parametrize("source", [PACKAGED, "tiny"])
def test_an_encoder_is_no_reranker(data, tmp_path, tiny_model, source):
    source = str(tiny_model) if source == "tiny" else source
    (tmp_path / "run.txt").write_text("q46 Q0 d46 1 9 x\n")
    given = ["--dataset", f"beir:{data}", "--run", tmp_path / "run.txt", "--reranker", f"cross-encoder:{source}"]
    result = CliRunner().invoke(app, ["rerank", *map(str, given), "--output", str(tmp_path / "best.trec.gz")])
    assert isinstance(result.exception, ModelError) and NO_HEAD in str(result.exception)
    with pytest.raises(ModelError, match=NO_HEAD):
        hn.rerank(data, {"q46": {"d46": 9.0}}, f"cross-encoder:{source}", store=tmp_path / "store")
    with pytest.raises(ModelError, match=NO_HEAD):
        next(CrossEncoder(source).rerank([("old river", ["a river"])]))
    assert not (tmp_path / "best.trec.gz").exists()


def test_a_static_model_is_no_reranker(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(ModelError, match=NO_HEAD):
        CrossEncoder(str(tmp_path)).check_trained()


def test_a_reranker_needs_its_source():
    with pytest.raises(PluginError, match="source is empty; set a folder or a hub id"):
        CrossEncoder(" ")


def test_a_recipe_is_refused_before_it_runs_and_may_train_a_head(data, tmp_path, tiny_model, monkeypatch):
    plugin = {"name": "cross-encoder", "source": str(tiny_model), "length": 32}
    tree = small_tree(data, tiny_model)
    trained = {"stage": "train-reranker", "reranker": plugin, "negatives": "static"}
    again = {"stage": "rerank", "reranker": "judge", "run": "start-test"}
    tree["stages"] |= {"judge": trained, "judged": again}
    plan_in(tmp_path, tree)
    tree["stages"]["drawn"] = {"stage": "rerank", "plugin": plugin, "run": "start-test"}
    path = write_recipe(tmp_path / "r.yaml", tree)
    with pytest.raises(ModelError, match=f"{tiny_model}.*{NO_HEAD}"):
        make_plan(load_recipe(path))
    plans, make = [], planning.make_plan
    monkeypatch.setattr(planning, "make_plan", lambda *given: plans.append(given) or make(*given))
    result = CliRunner().invoke(app, ["recipe", "check", str(path), "--store", str(tmp_path / "store")])
    assert isinstance(result.exception, ModelError) and "ready" not in result.output
    with pytest.raises(ModelError, match=NO_HEAD):
        hn.load_recipe(path).check(store=tmp_path / "store")
    assert len(plans) == 2  # one a check


def test_a_head_of_other_outputs_is_drawn_too(tmp_path, tiny_reranker):
    two = write_reranker(tmp_path / "two", outputs=2)
    for source, own, other in ((tiny_reranker, 1, 2), (two, 2, 1)):
        for outputs in (own, None):
            CrossEncoder(str(source), outputs=outputs).check_trained()
        with pytest.raises(ModelError, match=f"has {own} outputs?, but outputs is {other}"):
            CrossEncoder(str(source), outputs=other).check_trained()


def test_weights_that_lack_the_head_of_their_configuration_are_not_opened(tmp_path, tiny_reranker):
    folder = tmp_path / "headless"
    shutil.copytree(tiny_reranker, folder)
    weights = load_file(folder / "model.safetensors")
    rest = {name: value for name, value in weights.items() if "classifier" not in name}
    save_file(rest, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"missing weights classifier\.bias, classifier\.weight; copy the model again"):
        CrossEncoder(str(folder), length=32).load()
    CrossEncoder(str(folder), length=32, outputs=2).load()


class TestCrossEncoder(TrainableRerankerTests):
    def make(self, folder: Path) -> CrossEncoder:
        return CrossEncoder(str(_source(folder)), length=48)


class TestTwoOutputs(TrainableRerankerTests):
    def make(self, folder: Path) -> CrossEncoder:
        return CrossEncoder(str(_source(folder, 2)), length=48, activation="none")


@dataclass(frozen=True)
class Forgetful:
    """A head that another draw makes each time, and that no folder brings back.

    Args:
        source: the folder of a network.
    """

    version: ClassVar[int] = 1

    source: str

    def load(self, folder: Path | None) -> Any:
        return CrossEncoder(self.source, length=48, outputs=2, seed=torch.initial_seed()).load()

    def fingerprint(self) -> str:
        return "forgetful"


class Broken(TrainableRerankerTests):
    def make(self, folder: Path) -> Forgetful:
        return Forgetful(str(_source(folder)))


def test_a_network_that_is_another_each_time_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="always returns the same weights"):
        Broken().test_loads_the_same_network_each_time(tmp_path)
    with pytest.raises(AssertionError, match="returns the network that was saved there"):
        Broken().test_a_saved_network_comes_back(tmp_path)


def _source(folder: Path, outputs: int = 1) -> Path:
    source = folder / "network"
    return source if source.exists() else tiny_reranker(source, outputs=outputs)
