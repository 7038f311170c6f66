"""Fixtures from hardneg's own tests (small collections, tiny encoders), so these tests need its sources."""

import os
import sys
from pathlib import Path

import pandas as pd
import pytest

TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

for _name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[_name] = "1"


@pytest.fixture
def queries() -> pd.DataFrame:
    """The queries of the small collection's test split."""
    from recipes.recipes import TOPICS, WORDS

    texts = [f"{word} {topic}" for topic in TOPICS for word in WORDS]
    return pd.DataFrame([[f"q{row}", texts[row]] for row in range(46, 60)], columns=["qid", "query"])
