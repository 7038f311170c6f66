import numpy as np
import pytest
from hardneg_multi_vector.encoding import EXPANDED, Expansion

from hardneg.encoders.tokens.tokens import Tokens


def _tokens(left: bool = False) -> Tokens:
    ids, mask = np.array([2, 7, 3, 2, 8, 9, 6, 3]), np.ones(8, np.int64)
    return Tokens({"input_ids": ids, "attention_mask": mask}, np.array([0, 3, 8]), {"input_ids": 0}, left, 0)


@pytest.mark.parametrize("attended", [False, True])
def test_a_short_query_is_filled_and_a_long_one_stays(attended: bool) -> None:
    found = Expansion(4, 99, attended).expand(_tokens())
    assert found.offsets.tolist() == [0, 4, 9]
    assert found.columns["input_ids"].tolist() == [2, 7, 3, 99, 2, 8, 9, 6, 3]
    assert found.columns["attention_mask"].tolist() == [1, 1, 1, int(attended), 1, 1, 1, 1, 1]
    assert found.columns[EXPANDED].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_tokens_go_before_the_text_where_padding_does() -> None:
    found = Expansion(5, 99, False).expand(_tokens(left=True))
    assert found.columns["input_ids"].tolist() == [99, 99, 2, 7, 3, 2, 8, 9, 6, 3]
