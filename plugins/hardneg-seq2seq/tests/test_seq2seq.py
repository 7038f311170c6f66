"""Tests of the writer `seq2seq`: its contract, its samples, and its artifact keys."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_seq2seq.generation import Drawn
from hardneg_seq2seq.writer import Seq2seq

from hardneg.plugin import Document, errors, records, registry
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.store import Store
from hardneg.testing import WriterTests

TEXTS = ["the river ran by the old town for many years", "a sea", "12 towers", "the harbor of the island"]
DOCUMENTS = [Document(f"d{number}", text) for number, text in enumerate(TEXTS)]


class TestSeq2seq(WriterTests):
    plugin = Seq2seq("none")
    lookahead = 256

    @pytest.fixture(autouse=True)
    def _network(self, tiny: Path) -> None:
        self.source = str(tiny)

    def make(self, folder: Path) -> Seq2seq:
        return Seq2seq(self.source, query_tokens=8)


def write(tiny: Path, documents: Any = DOCUMENTS, count: int = 3, seed: int = 5, **options: Any) -> list[list[str]]:
    writer = Seq2seq(str(tiny), **{"query_tokens": 12, **options})
    return [list(each.queries) for each in writer.write(documents, count=count, seed=seed)]


def letters(text: str) -> int:
    """Return the number of tokens of a text, including the end token."""
    return len(text.replace(" ", "")) + 1


def test_a_token_is_drawn_by_its_number_among_the_likeliest() -> None:
    shares = torch.tensor([[0.1, 0.6, 0.3], [0.1, 0.6, 0.3]])
    draws = torch.tensor([[0.5999, 0.0, 0.95], [0.601, 0.66, 0.99999999]], dtype=torch.float64)
    drawn = Drawn(draws, top_k=3)
    chosen = [drawn(torch.zeros(2, 1), shares.log()).argmax(1).tolist() for _ in range(3)]
    assert chosen == [[1, 2], [1, 2], [0, 0]]
    of_two = Drawn(draws[:, 2:], top_k=2)(torch.zeros(2, 1), shares.log())  # 0.6 and 0.3 of 0.9
    assert of_two.tolist() == [[-torch.inf, -torch.inf, 0.0]] * 2
    without = torch.tensor([[0.0, -torch.inf]])  # what top_p has left out is never drawn
    assert Drawn(torch.tensor([[1.0]], dtype=torch.float64), 2)(torch.zeros(1, 1), without).argmax() == 0


def test_draws_are_distributed_as_the_network_says(tiny: Path) -> None:
    """The first tokens of 400 queries match the network's probabilities within four standard deviations."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    network, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(tiny).eval(), AutoTokenizer.from_pretrained(tiny)
    batch = tokenizer(TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        scores = network(**batch, decoder_input_ids=torch.zeros(1, 1, dtype=torch.long)).logits[0, -1]
    likeliest, tokens = scores.topk(10)
    generation = Seq2seq(str(tiny), query_tokens=1).opened("cpu")
    lines = generation._generated(batch["input_ids"].tolist(), TEXTS[:1], 400, 5)
    counts = Counter(lines)
    for token, share in zip(tokens.tolist(), likeliest.softmax(-1).tolist(), strict=True):
        text = tokenizer.decode([token], skip_special_tokens=True)
        assert abs(counts[text] - 400 * share) <= 4 * np.sqrt(400 * share * (1 - share)) + 1


def test_batches_prefixes_and_ids_change_nothing_and_seeds_do(tiny: Path) -> None:
    queries = write(tiny)
    assert [len(each) for each in queries] == [3, 3, 3, 3] and all(text for each in queries for text in each)
    for budget in (1, 30, 100_000):
        assert write(tiny, tokens_per_batch=budget) == queries
    assert write(tiny, [Document("x", text) for text in TEXTS]) == queries
    assert [each[:1] for each in queries] == write(tiny, count=1)
    others = [write(tiny, seed=6), write(tiny, prefix="ask: "), write(tiny, temperature=3.0), write(tiny, top_k=30)]
    assert all(other != queries for other in others)
    assert write(tiny, [Document("a", "sea", "a")]) == [queries[1]]  # the title goes before the text


def test_the_likeliest_tokens_are_what_transformers_generates(tiny: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    network, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(tiny).eval(), AutoTokenizer.from_pretrained(tiny)
    output = network.generate(**tokenizer(TEXTS[:1], return_tensors="pt"), max_new_tokens=12, do_sample=False)
    (line,) = tokenizer.batch_decode(output, skip_special_tokens=True)
    assert write(tiny, DOCUMENTS[:1], top_k=1) == [[" ".join(line.split())]]  # the same three times is one


def test_what_was_used_is_counted(tiny: Path) -> None:
    counts: dict[str, float] = {}
    with Seq2seq(str(tiny), query_tokens=12, top_k=1).writing(counts, "cpu") as writer:
        list(writer.write(DOCUMENTS[:2], count=3, seed=5))
    assert counts["duplicate queries"] == 4 and counts["tokens read"] == sum(map(letters, TEXTS[:2]))
    assert 6 <= counts["tokens written"] <= 72


def test_a_recipe_with_it_is_planned_and_run(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(12):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"the river number {number} ran by the town {number * 7}")
    dataset = {"name": "documents", "source": str(tmp_path / "docs"), "min_words": 0}
    copy = shutil.copytree(tiny, tmp_path / "copy")
    keys, model = set(), "packaged:none"
    for source in (tiny, copy):
        written = {
            "stage": "write-queries",
            "writers": [{"name": "seq2seq", "source": str(source), "query_tokens": 12}],
        }
        written |= {"per_passage": 2, "dev_share": 0, "test_share": 0}
        (path := tmp_path / "r.yaml").write_text(
            json.dumps({"dataset": dataset, "model": model, "stages": {"w": written}})
        )
        plan = make_plan(load_recipe(path))
        keys.add(plan.keys["w"])
    assert len(keys) == 1
    facts = execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts["w"].facts
    assert facts["queries written by seq2seq"] == 24 and facts["seq2seq: tokens read"] > 200


@pytest.mark.parametrize(
    ("options", "line"),
    [({"top_k": 0}, "top_k: must be above 0"), ({"top_p": 2}, "top_p: must be"), ({"length": -1}, "length: must be")],
)
def test_mistakes_in_options(options: dict[str, Any], line: str) -> None:
    with pytest.raises(errors.PluginError, match=re.escape(line)):
        registry.configure("writers", records.PluginSetting("seq2seq", {"source": "m", **options}))


def test_what_is_no_such_network_is_told(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.ModelError, match="nowhere"):
        write(tmp_path / "nowhere")
    (broken := shutil.copytree(tiny, tmp_path / "broken") / "model.safetensors").write_bytes(b"no")
    with pytest.raises(errors.ModelError, match=r"cannot be opened|damaged|cut off"):
        write(broken.parent)
    (config := shutil.copytree(tiny, tmp_path / "bert") / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(errors.ModelError, match="cannot be opened"):
        write(config.parent)
