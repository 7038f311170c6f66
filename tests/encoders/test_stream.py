import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import forked
import numpy as np
import pytest

from hardneg.encoders import stream
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.vectors import FlatVectors
from hardneg.records import Document
from hardneg.records.encoded import encoded_of
from hardneg.runtime import Silent
from hardneg.store.blocks import BlockStore, write_behind

FP32 = EncodeOptions(precision="fp32")


class Texts(list[str]):
    def blocks(self, start: int = 0, stop: int | None = None, size: int = 4) -> Iterator[list[str]]:
        stop = len(self) if stop is None else stop
        yield from (self[low : min(low + size, stop)] for low in range(start, stop, size))


@pytest.fixture
def encoder(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    monkeypatch.setattr(stream, "BLOCK", 4)
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


def corpus(count: int) -> Texts:
    return Texts("word " * (n % 13) + str(n) for n in range(count))


def encode(encoder, texts, store, told=None, fails_at=-1):
    """The rows of all blocks, the missing ones made anew."""
    layout = stream.Layout.of_encoder(encoder, texts)
    store.begin(layout.sizes)
    missing = [number for number in range(len(layout.sizes)) if number not in store.finished()]

    def write(number, block):
        if number == fails_at:
            raise KeyboardInterrupt
        store.write(number, block)

    advance = (lambda count: None) if told is None else told
    write_behind(stream.encoded_blocks(encoder, texts, missing, FP32, advance), write)
    rows = [encoded_of(store.read(number)) for number in range(len(layout.sizes))]
    return np.concatenate([np.empty((0, 32), np.float32), *rows])


@pytest.mark.parametrize("count", [0, 1, 4, 5, 18])
def test_blocks_hold_the_corpus_in_order(encoder, tmp_path, count):
    texts, store = corpus(count), BlockStore(tmp_path)
    vectors = encode(encoder, texts, store)
    assert store.finished() == set(range(-(-count // 4)))
    np.testing.assert_allclose(vectors, encoder.encode(texts, "document", FP32), atol=1e-5)


def test_a_stopped_run_goes_on_with_the_same_vectors(encoder, tmp_path):
    texts, store = corpus(18), BlockStore(tmp_path / "stopped")
    whole = encode(encoder, texts, BlockStore(tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        encode(encoder, texts, store, fails_at=2)
    assert store.finished() == {0, 1}
    assert (encode(encoder, texts, store) == whole).all()


KILLED = """
import os, signal, sys
from pathlib import Path
from hardneg.formats.corpus import Corpus
from hardneg.encoders import stream
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.runtime.progress import Silent
from hardneg.store.blocks import BlockStore

write = BlockStore.write
def killed(store, number, block):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(store, number, block)

BlockStore.write = killed
model, corpus, index = sys.argv[1:]
stream.BLOCK = 4
encoder = load_learner(ModelSpec(model), "cpu")
stream.write_index([encoder], Corpus.open(Path(corpus)), Path(index), EncodeOptions(precision="fp32"), Silent())
"""


@pytest.mark.slow
def test_a_killed_process_is_resumed(encoder, tiny_model, tmp_path):
    texts = corpus(18)
    write_corpus((Document(f"d{n}", text) for n, text in enumerate(texts)), tmp_path / "corpus", Silent())
    arguments = [str(tiny_model), str(tmp_path / "corpus"), str(tmp_path / "index")]
    killed = forked.run([sys.executable, "-c", KILLED, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert BlockStore(tmp_path / "index/blocks").finished() == {0, 1}
    stream.write_index([encoder], Corpus.open(tmp_path / "corpus"), tmp_path / "index", FP32, Silent())
    vectors = FlatVectors.open(tmp_path / "index").vectors
    np.testing.assert_allclose(vectors, encoder.encode(texts, "document", FP32), atol=1e-5)
