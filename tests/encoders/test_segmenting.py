"""Segments as token ids, against texts that are tokenised whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import Tokens, tokenise, tokenise_segments
from hardneg.formats.segments import Segments
from hardneg.records.errors import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["aa bb cc dd ee ff gg hh", "", "aa bb", "aa bb cc dd", "aa bb cc dd ee"]


@pytest.fixture(scope="module")
def wordpiece(tiny_model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="module")
def bytelevel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One whose tokens hold the space before a word, as RoBERTa's, with an end token alone."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: row for row, token in enumerate(["<pad>", "</s>", *letters, "aa", "Ġaa", "bb", "Ġbb"])}
    merges = [("a", "a"), ("Ġ", "aa"), ("b", "b"), ("Ġ", "bb")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")


def words(tokenizer: Any, tokens: Tokens) -> list[str]:
    """The text of each row, special tokens included."""
    rows = np.split(tokens.columns["input_ids"], tokens.offsets[1:-1])
    return [" ".join(tokenizer.convert_ids_to_tokens(row.tolist())) for row in rows]


def test_each_segment_is_framed_as_a_text(wordpiece: Any) -> None:
    """Six tokens a segment are four of text; the first text has two segments, of at most two."""
    found = tokenise_segments(wordpiece, TEXTS, Segments(length=6, count=2))
    assert found.counts.tolist() == [2, 1, 1, 1, 2] and not found.cut_off.any()
    expected = ["aa bb cc dd", "ee ff gg hh", "", "aa bb", "aa bb cc dd", "aa bb cc dd", "ee"]
    assert words(wordpiece, found.tokens) == [" ".join(f"[CLS] {text} [SEP]".split()) for text in expected]
    assert found.tokens.columns.keys() == tokenise(wordpiece, TEXTS, 6).columns.keys() == {"input_ids"}
    assert found.tokens.same == tokenise(wordpiece, TEXTS, 6).same == {"attention_mask": 1}


def test_overlap_and_what_is_cut_off(wordpiece: Any) -> None:
    found = tokenise_segments(wordpiece, TEXTS[:1], Segments(length=6, stride=3, count=2))
    assert words(wordpiece, found.tokens) == ["[CLS] aa bb cc dd [SEP]", "[CLS] dd ee ff gg [SEP]"]
    assert found.cut_off.tolist() == [True]
    same = tokenise_segments(wordpiece, TEXTS, Segments(length=6, stride=6, count=2))
    assert words(wordpiece, same.tokens) == words(
        wordpiece, tokenise_segments(wordpiece, TEXTS, Segments(length=6, count=2)).tokens
    )


@pytest.mark.parametrize("prompt", ["", "bb: ", "bb"])
@pytest.mark.parametrize("kind", ["wordpiece", "bytelevel"])
def test_the_first_segment_is_the_text_cut_short(kind: str, prompt: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(kind)
    found = tokenise_segments(tokenizer, TEXTS, Segments(length=8, count=9), prompt)
    firsts = (np.cumsum(found.counts) - found.counts).tolist()
    whole = words(tokenizer, tokenise(tokenizer, [prompt + text for text in TEXTS], 8))
    rows = words(tokenizer, found.tokens)
    assert [rows[first] for first in firsts] == whole


def test_the_prompt_is_before_each_segment_and_nothing_is_lost(bytelevel: Any) -> None:
    found = tokenise_segments(bytelevel, ["aa bb aa bb aa"], Segments(length=6, count=9), "bb: ")
    assert words(bytelevel, found.tokens) == ["bb : Ġaa Ġbb Ġaa </s>", "bb : Ġbb Ġaa </s>"]


def test_a_prompt_may_leave_no_room(wordpiece: Any) -> None:
    with pytest.raises(ModelError, match="segments of 5 tokens have no room"):
        tokenise_segments(wordpiece, ["aa"], Segments(length=5), "aa bb cc ")
    assert len(tokenise_segments(wordpiece, [], Segments(length=5)).counts) == 0


def test_vectors_of_segments_are_those_of_their_texts(tiny_model: Path) -> None:
    encoder = load_learner(ModelSpec(str(tiny_model), document_length=6, document_prompt="ab: "), "cpu")
    fp32 = EncodeOptions(precision="fp32", window=18)
    vectors, counts = encoder.encode_segments(TEXTS, Segments(length=6, count=9), fp32)
    assert counts.tolist() == [4, 1, 1, 2, 3]
    expected = encoder.encode(["aa bb", "cc dd", "ee ff", "gg hh", "", "aa bb", "aa bb", "cc dd"], "document", FP32)
    np.testing.assert_allclose(vectors[:8], expected, atol=1e-5)
    assert encoder.encode_segments([], Segments(length=6), FP32)[0].shape == (0, 32)
    with pytest.raises(ModelError, match="reads at most 512 tokens: segments of 513"):
        encoder.encode_segments(TEXTS, Segments(length=513), FP32)
