import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardneg.encoders.tokens import Tokens, token_batches

SAME = {"attention_mask": 1, "token_type_ids": 4}


def tokens(left: bool = False) -> Tokens:
    columns = {"input_ids": np.array([5, 6, 7, 8, 9, 4]), "attention_mask": np.ones(6, np.int64)}
    return Tokens(columns, np.array([0, 1, 4, 4, 6]), {"input_ids": 3}, left, 0)


def test_rows_are_padded_to_the_longest():
    features = tokens().batch(np.array([3, 1]))
    assert features["input_ids"].tolist() == [[9, 4, 3], [6, 7, 8]]
    assert features["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]


def test_padding_goes_behind_a_text_whatever_the_tokenizer_s_side():
    assert tokens(left=True).batch(np.array([0, 3]))["input_ids"].tolist() == [[5, 3], [9, 4]]


def test_a_row_without_tokens():
    features = tokens().batch(np.array([2, 0]))
    assert features["input_ids"].tolist() == [[3], [5]]
    assert features["attention_mask"].tolist() == [[0], [1]]


def test_batches_by_hand():
    lengths = np.array([2, 9, 4, 4, 1])
    assert [batch.tolist() for batch in token_batches(lengths, 8)] == [[1], [2, 3], [0, 4]]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 100))
def test_each_row_once_and_never_too_many_tokens(lengths: list[int], budget: int):
    batches = list(token_batches(np.array(lengths, np.int64), budget))
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget


def test_further_inputs_are_made_from_the_lengths():
    made = Tokens({"input_ids": np.array([5, 6, 7])}, np.array([0, 1, 3]), {"token_type_ids": 9}, False, 2, SAME)
    features = made.batch(np.array([0, 1]))
    assert features["attention_mask"].tolist() == [[1, 0], [1, 1]]
    assert features["token_type_ids"].tolist() == [[4, 9], [4, 4]]
    assert features["prompt_length"].tolist() == [2, 2]
    assert {value.dtype for value in features.values()} == {torch.int64}


def test_texts_of_several_parts_in_a_row():
    whole = Tokens.join([tokens(), tokens()])
    assert whole.offsets.tolist() == [0, 1, 4, 4, 6, 7, 10, 10, 12]
    assert whole.batch(np.array([7, 1]))["input_ids"].tolist() == [[9, 4, 3], [6, 7, 8]]
