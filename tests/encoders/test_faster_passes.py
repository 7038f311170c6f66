"""A package's faster passes get the copy that computes."""

from typing import Any

import numpy as np
import pytest

from hardneg.encoders import passes
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import token_batches

TEXTS = ["some words", "and a few others", "", "words"]


class Package:
    """Lays out texts as they are padded, if they have fewer tokens than `most`, and tells of it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.arranged, self.passes = list[Any](), 0

    def arrange(self, network: Any) -> None:
        self.arranged.append(network)

    def packing(self, encoder: Any, side: str, parts: Any) -> "Package":
        assert parts[0] is self.arranged[-1] is not encoder.parts(side)[0]
        return self

    def takes(self, tokens: Any) -> bool:
        return int(tokens.offsets[-1]) < self.most

    def batches(self, lengths: Any, tokens: int) -> Any:
        return token_batches(lengths, 8)

    def features(self, tokens: Any, rows: Any, device: Any) -> Any:
        self.passes += 1
        return tokens.batch(rows, device)


@pytest.mark.parametrize(("most", "laid_out"), [(1000, 4), (3, 0)])
def test_they_lay_out_what_they_take(tiny_model, monkeypatch, most, laid_out):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    monkeypatch.setattr(passes, "faster_passes", lambda: None)
    usual = encoder.encode(TEXTS, "document")
    package = Package(most)
    monkeypatch.setattr(passes, "faster_passes", lambda: package)
    np.testing.assert_allclose(encoder.encode(TEXTS, "document"), usual, atol=1e-6)
    assert package.passes == laid_out and len(package.arranged) == 1
