"""Queries that were encoded half a minute before a stop are not encoded again, and become the same bytes."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from tiny import BY_FAMILY, tiny_encoder

from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens.kept_texts import encode_kept
from hardneg.formats.vectors import begun_blocks
from hardneg.records.encoded import EncodedRows
from hardneg.runtime.progress import Silent

KINDS = {name: make for name, make in BY_FAMILY.items() if name != "static"}
TEXTS = ["which " * (n % 5) + f"river is {n}" for n in range(22)]
OPTIONS = EncodeOptions(tokens_per_batch=40, precision="fp32", window=5)


class Stopping(Silent):
    """A clock by which each batch takes 12 seconds, and a bar that stops the run at a batch."""

    def __init__(self, stop=0):
        self.now, self.stop, self.batches = 0.0, stop, []

    @contextmanager
    def task(self, title, total, unit, done=0):
        self.done = done
        yield self

    def advance(self, count=1):
        self.batches.append(count)
        self.now += 12.0
        if len(self.batches) == self.stop:
            raise KeyboardInterrupt


def raw(encoded):
    if not isinstance(encoded, EncodedRows):
        return (encoded.tobytes(),)
    return encoded.offsets.tobytes(), *(array.tobytes() for array in encoded.flat.values())


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_were_encoded_are_not_encoded_again(tmp_path, monkeypatch, kind):
    encoder = load_encoder(ModelSpec(str(KINDS[kind](tmp_path / "model"))), "cpu")
    expected = raw(encoder.encode(TEXTS, "query", OPTIONS))
    options = replace(OPTIONS, begun=tmp_path / "begun")

    def run(stop, keep=False):
        progress = Stopping(stop)
        monkeypatch.setattr(begun_blocks, "clock", lambda: progress.now)
        return progress, lambda: raw(encode_kept(encoder, TEXTS, "query", options, progress, keep))

    first, made = run(8)
    with pytest.raises(KeyboardInterrupt):
        made()
    again, made = run(0)
    assert made() == expected
    assert again.done > 0 and sum(again.batches) == len(TEXTS) - again.done
    assert sum(first.batches) - again.done <= sum(first.batches[-4:])

    nothing, made = run(0)
    assert made() == expected and nothing.batches == []


def test_what_takes_less_than_half_a_minute_is_kept_where_more_is_to_come(tmp_path, monkeypatch):
    encoder = load_encoder(ModelSpec(str(tiny_encoder(tmp_path / "model"))), "cpu")
    monkeypatch.setattr(begun_blocks, "clock", lambda: 0.0)
    for keep in (False, True):
        options = replace(OPTIONS, begun=tmp_path / str(keep))
        for _ in range(2):
            progress = Stopping()
            encode_kept(encoder, TEXTS, "query", options, progress, keep)
        assert progress.done == (len(TEXTS) if keep else 0)
