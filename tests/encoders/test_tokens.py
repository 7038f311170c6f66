"""Ids of many kinds of tokenizers against what they give themselves, and segments against texts tokenised whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import Tokens, _by_its_own_call, backend_of, tokenise, tokenise_segments
from hardneg.formats.segments import Segments
from hardneg.records import ModelError

LETTERS = [*"abcxyzé.,'-1 ", "##a", "##b", "##c", "ab", "##ab", "北"]


def _wordpiece() -> Tokenizer:
    vocabulary = {token: row for row, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    return made


def bert() -> Any:
    made = _wordpiece()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    own = {"pad_token": "[PAD]", "unk_token": "[UNK]", "model_input_names": inputs}
    return PreTrainedTokenizerFast(tokenizer_object=made, **own)


def uncased_words() -> Any:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "ab": 1, "a": 2, ".": 3}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[UNK]")


def _bytelevel(prefix: bool) -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: row for row, token in enumerate(["<s>", "<pad>", "</s>", "<mask>", *letters, "ab", "Ġab"])}
    made = Tokenizer(models.BPE(vocabulary, [("a", "b"), ("Ġ", "ab")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return made


def roberta() -> Any:
    made = _bytelevel(False)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", truncation_side="left")


def gpt() -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=_bytelevel(True), pad_token="<pad>", padding_side="left")


def _unigram() -> Tokenizer:
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0), ("▁ab", -4.0), ("ab", -4.5)]
    made = Tokenizer(models.Unigram([*pieces, *((letter, -5.0) for letter in "abcxyzé.,1")], unk_id=3))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return made


def xlm_roberta() -> Any:
    made = _unigram()
    around = [("<s>", 0), ("</s>", 2)]
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=around
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")


def t5() -> Any:
    made = _unigram()
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")


KINDS: list[Callable[[], Any]] = [bert, uncased_words, roberta, gpt, xlm_roberta, t5]
MADE = {kind.__name__: kind() for kind in KINDS}
ODD = st.text(st.sampled_from("aAbBcxyz.,'-1  \n\t\x0b\x0c\x1c\x85\u00a0\u2028\u3000\u0301é北"), max_size=30)
TEXTS = st.lists(st.one_of(ODD, st.text(max_size=12), st.just("ab [MASK]ab<mask> ab")), max_size=6)


def _same(found: Tokens, expected: Tokens) -> None:
    assert found.offsets.tolist() == expected.offsets.tolist() and found.left == expected.left
    for rows in (np.arange(len(found.lengths)),):
        theirs = expected.batch(rows)
        ours = found.batch(rows)
        assert not len(rows) or ours.keys() == theirs.keys()
        assert all((ours[name] == value).all() for name, value in theirs.items())


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=60, deadline=None)
@example(["a  b\nc ab ab ab", "", "    ab", "ab " * 9], 5)
@given(TEXTS, st.integers(3, 20))
def test_a_texts_ids(name: str, texts: list[str], length: int) -> None:
    _same(tokenise(MADE[name], texts, length), _by_its_own_call(MADE[name], texts, length, 0, None))


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ODD, ODD), max_size=4), st.integers(4, 25))
def test_a_pairs_ids(name: str, pairs: list[tuple[str, str]], length: int) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    _same(tokenise(MADE[name], first, length, 0, second), _by_its_own_call(MADE[name], first, length, 0, second))


def test_new_tokens_are_seen() -> None:
    made = bert()
    before = tokenise(made, ["ab q2"], 9).columns["input_ids"]
    made.add_tokens(["q2"])
    assert tokenise(made, ["ab q2"], 9).columns["input_ids"].tolist() == [*before[:-2], len(made) - 1, 3]


def test_one_that_makes_more_of_a_text_is_asked_itself() -> None:
    class Shouting(PreTrainedTokenizerFast):
        def _encode_plus(self, text: Any, *rest: Any, **options: Any) -> Any:
            return super()._encode_plus([f"{one}." for one in text], *rest, **options)

    made = Shouting(tokenizer_object=_wordpiece(), pad_token="[PAD]")
    assert backend_of(made) is None
    assert tokenise(made, ["ab"], 9).columns["input_ids"].tolist() == [
        *_wordpiece().encode("ab").ids,
        *_wordpiece().encode(".").ids,
    ]


FP32 = EncodeOptions(precision="fp32")
LONG_TEXTS = ["aa bb cc dd ee ff gg hh", "", "aa bb", "aa bb cc dd", "aa bb cc dd ee"]


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
    found = tokenise_segments(wordpiece, LONG_TEXTS, Segments(length=6, count=2))
    assert found.counts.tolist() == [2, 1, 1, 1, 2] and not found.cut_off.any()
    expected = ["aa bb cc dd", "ee ff gg hh", "", "aa bb", "aa bb cc dd", "aa bb cc dd", "ee"]
    assert words(wordpiece, found.tokens) == [" ".join(f"[CLS] {text} [SEP]".split()) for text in expected]
    assert found.tokens.columns.keys() == tokenise(wordpiece, LONG_TEXTS, 6).columns.keys() == {"input_ids"}
    assert found.tokens.same == tokenise(wordpiece, LONG_TEXTS, 6).same == {"attention_mask": 1}


def test_overlap_and_what_is_cut_off(wordpiece: Any) -> None:
    found = tokenise_segments(wordpiece, LONG_TEXTS[:1], Segments(length=6, stride=3, count=2))
    assert words(wordpiece, found.tokens) == ["[CLS] aa bb cc dd [SEP]", "[CLS] dd ee ff gg [SEP]"]
    assert found.cut_off.tolist() == [True]
    same = tokenise_segments(wordpiece, LONG_TEXTS, Segments(length=6, stride=6, count=2))
    assert words(wordpiece, same.tokens) == words(
        wordpiece, tokenise_segments(wordpiece, LONG_TEXTS, Segments(length=6, count=2)).tokens
    )


@pytest.mark.parametrize("prompt", ["", "bb: ", "bb"])
@pytest.mark.parametrize("kind", ["wordpiece", "bytelevel"])
def test_the_first_segment_is_the_text_cut_short(kind: str, prompt: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(kind)
    found = tokenise_segments(tokenizer, LONG_TEXTS, Segments(length=8, count=9), prompt)
    firsts = (np.cumsum(found.counts) - found.counts).tolist()
    whole = words(tokenizer, tokenise(tokenizer, [prompt + text for text in LONG_TEXTS], 8))
    rows = words(tokenizer, found.tokens)
    assert [rows[first] for first in firsts] == whole


def test_the_prompt_is_before_each_segment_and_nothing_is_lost(bytelevel: Any) -> None:
    found = tokenise_segments(bytelevel, ["aa bb aa bb aa"], Segments(length=6, count=9), "bb: ")
    assert words(bytelevel, found.tokens) == ["bb : Ġaa Ġbb Ġaa </s>", "bb : Ġbb Ġaa </s>"]


def test_a_prompt_may_leave_no_room(wordpiece: Any) -> None:
    with pytest.raises(ModelError, match="segments of 5 tokens leave no room"):
        tokenise_segments(wordpiece, ["aa"], Segments(length=5), "aa bb cc ")
    assert len(tokenise_segments(wordpiece, [], Segments(length=5)).counts) == 0


def test_vectors_of_segments_are_those_of_their_texts(tiny_model: Path) -> None:
    encoder = load_learner(ModelSpec(str(tiny_model), document_length=6, document_prompt="ab: "), "cpu")
    fp32 = EncodeOptions(precision="fp32", window=18)
    vectors, counts = encoder.encode_segments(LONG_TEXTS, Segments(length=6, count=9), fp32)
    assert counts.tolist() == [4, 1, 1, 2, 3]
    expected = encoder.encode(["aa bb", "cc dd", "ee ff", "gg hh", "", "aa bb", "aa bb", "cc dd"], "document", FP32)
    np.testing.assert_allclose(vectors[:8], expected, atol=1e-5)
    assert encoder.encode_segments([], Segments(length=6), FP32)[0].shape == (0, 32)
    with pytest.raises(ModelError, match="reads at most 512 tokens, but segments have 513"):
        encoder.encode_segments(LONG_TEXTS, Segments(length=513), FP32)
