"""Characters and tokens: what is marked in tokens is what stands in the text."""

from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from hardneg_reader.reader import (
    ANSWERABLE,
    PassageTokens,
    best_spans,
    log_probabilities,
    span_log_likelihood,
    tokenise_passages,
)
from hardneg_reader.training import ReadingLoss, ReadingScores, padded_spans

from hardneg.formats.texts import answer_spans
from hardneg.records import Document

TEXTS = ["Röntgen, of Germany, got 150,782 SEK; Röntgen!", "the old river ran", "", "東京 is old"]
ANSWERS = ["röntgen", "OLD river", "anything", "東京"]


def word_pieces(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def trained(pre_tokenizer: Any, decoder: Any, post_processor: Any) -> Any:
    """A small BPE tokenizer, as RoBERTa's or XLM-RoBERTa's."""
    from tokenizers import Tokenizer, models, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoder
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(special_tokens=special, show_progress=False))
    tokenizer.post_processor = post_processor
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, cls_token="<s>", sep_token="</s>", **names)


def byte_pieces(folder: Path) -> Any:
    from tokenizers import decoders, pre_tokenizers, processors

    post = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return trained(pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), post)


def sentence_pieces(folder: Path) -> Any:
    from tokenizers import decoders, pre_tokenizers, processors

    form = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return trained(pre_tokenizers.Metaspace(), decoders.Metaspace(), form)


@pytest.fixture(params=[word_pieces, byte_pieces, sentence_pieces])
def tokenizer(request: pytest.FixtureRequest, tiny_model: Path) -> Any:
    return request.param(tiny_model)


def passages(title: str) -> list[Document]:
    return [Document(f"d{i}", text, title) for i, text in enumerate(TEXTS)]


def tokens_of(tokenizer: Any, title: str = "", length: int = 200) -> PassageTokens:
    return tokenise_passages(tokenizer, ["who got the old river"] * len(TEXTS), passages(title), length)


@pytest.mark.parametrize("title", ["", "The old river of 東京 and Röntgen"])
def test_an_answer_is_found_again_in_tokens(tokenizer: Any, title: str) -> None:
    tokens = tokens_of(tokenizer, title)
    for row, (text, answer) in enumerate(zip(TEXTS, ANSWERS, strict=True)):
        places = answer_spans(text, [answer])
        spans = tokens.spans(row, places)
        marked = [text[begin:end].strip() for begin, end in (tokens.characters(row, *span) for span in spans)]
        told = [text[begin:end] for begin, end in places]
        assert all(one.startswith(two) and len(one) <= len(two) + 1 for one, two in zip(marked, told, strict=True))
        assert len(marked) == (2, 1, 0, 1)[row]


def test_only_the_text_may_be_in_an_answer(tokenizer: Any) -> None:
    bare, titled = tokens_of(tokenizer), tokens_of(tokenizer, "The old river")
    for row in range(len(TEXTS)):
        counts = []
        for tokens in (bare, titled):
            part = slice(*tokens.tokens.offsets[row : row + 2])
            counts.append(tokens.tokens.columns[ANSWERABLE][part].sum())
            assert tokens.ends[part].max(initial=0) == len(TEXTS[row])
        assert counts[0] == counts[1]


def test_an_answer_that_is_not_read_whole_is_none(tokenizer: Any) -> None:
    whole = tokens_of(tokenizer)
    first, last = whole.spans(1, answer_spans(TEXTS[1], ["old river"]))[0]
    cuts = []
    for length in range(8, int(whole.tokens.lengths[1])):
        cut = tokenise_passages(tokenizer, ["who"], [Document("d", TEXTS[1])], length)
        found = cut.spans(0, answer_spans(TEXTS[1], ["old river"]))
        seen = TEXTS[1][: int(cut.ends.max())]
        assert bool(found) == ("river" in seen), (length, seen)
        cuts.append(len(found))
    assert (cuts[0], cuts[-1]) == (0, 1) and last > first


STARTS = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]], dtype=torch.float64).log()
ENDS = torch.tensor([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("longest", "spans", "products"),
    [(1, [(2, 2), (0, 0)], [0.18, 0.30]), (2, [(1, 2), (0, 0)], [0.30, 0.30]), (9, [(1, 2), (0, 0)], [0.30, 0.30])],
)
def test_the_best_span_has_the_highest_product(longest, spans, products):
    best, first, last = best_spans(STARTS, ENDS, longest)
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == spans
    assert best.exp().tolist() == pytest.approx(products)


def test_of_equal_spans_the_shortest_is_taken():
    equal = torch.zeros(1, 3)
    assert [part.tolist() for part in best_spans(equal, equal, 3)] == [[0.0], [0], [0]]


def test_an_answer_may_stand_in_several_places():
    spans, there = padded_spans([[(1, 1), (1, 2)], [(0, 2)]])
    assert there.tolist() == [[True, True], [True, False]]
    likelihood = span_log_likelihood(STARTS, ENDS, spans, there)
    assert likelihood.exp().tolist() == pytest.approx([0.15 + 0.30, 0.12])


def test_the_loss_is_that_of_the_passage_and_of_its_spans():
    selected = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    spans = torch.tensor([log(0.45), 0.0], dtype=torch.float64, requires_grad=True)
    loss = ReadingLoss()(ReadingScores(selected, spans))
    total = exp(2) + exp(1) + 1
    first, second = log(total) - 2 - log(0.45), log(3)
    assert loss.item() == pytest.approx((first + second) / 2) == pytest.approx(1.152363, abs=1e-6)
    loss.backward()
    assert spans.grad is not None and spans.grad.tolist() == [-0.5, -0.5]
    assert selected.grad is not None and selected.grad[1].tolist() == pytest.approx([-1 / 3, 1 / 6, 1 / 6])
    assert selected.grad[0].tolist() == pytest.approx([(exp(2) / total - 1) / 2, exp(1) / total / 2, 1 / total / 2])


def test_probabilities_are_those_of_the_tokens_that_may_be_in_an_answer():
    logits = torch.tensor([[5.0, 0.0, log(3)], [1.0, 2.0, 3.0]], requires_grad=True)
    found = log_probabilities(logits, torch.tensor([[False, True, True], [False, False, False]]))
    assert found.exp().tolist() == [pytest.approx([0.0, 0.25, 0.75]), [0.0, 0.0, 0.0]]
    found[0, 1].backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [pytest.approx([0.0, 0.75, -0.75]), [0.0, 0.0, 0.0]]
