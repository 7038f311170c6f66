import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import numpy as np
import pytest
from numpy.typing import NDArray

from hardneg.encoders.corpus import stream
from hardneg.encoders.corpus.stream import encode_blocks
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.records.types import Document
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent

FP32 = EncodeOptions(precision="fp32")


class Texts(list[str]):
    def blocks(self, start: int = 0, stop: int | None = None, size: int = 4) -> Iterator[list[str]]:
        stop = len(self) if stop is None else stop
        yield from (self[low : min(low + size, stop)] for low in range(start, stop, size))


class Blocks(dict[int, NDArray[np.float32]]):
    fails_at = -1

    def finished_blocks(self) -> set[int]:
        return set(self)

    def write_block(self, number: int, start_row: int, vectors: NDArray[np.float32]) -> None:
        if number == self.fails_at:
            raise KeyboardInterrupt
        assert start_row == number * 4 and number not in self
        self[number] = vectors


@pytest.fixture
def encoder(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    monkeypatch.setattr(stream, "BLOCK", 4)
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


def corpus(count: int) -> Texts:
    return Texts("word " * (n % 13) + str(n) for n in range(count))


@pytest.mark.parametrize("count", [0, 1, 4, 5, 18])
def test_blocks_hold_the_corpus_in_order(encoder: Encoder, count: int):
    texts, writer = corpus(count), Blocks()
    encode_blocks(encoder, texts, writer, FP32, Silent())
    assert sorted(writer) == list(range(-(-count // 4)))
    vectors = np.concatenate([np.empty((0, 32), np.float32), *(writer[number] for number in sorted(writer))])
    np.testing.assert_allclose(vectors, encoder.encode(texts, "document", FP32), atol=1e-5)


def test_a_stopped_run_goes_on_with_the_same_vectors(encoder: Encoder):
    texts, whole, writer = corpus(18), Blocks(), Blocks()
    encode_blocks(encoder, texts, whole, FP32, Silent())
    writer.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        encode_blocks(encoder, texts, writer, FP32, Silent())
    assert sorted(writer) == [0, 1]
    writer.fails_at = -1
    encode_blocks(encoder, texts, writer, FP32, Silent())
    assert all((writer[number] == whole[number]).all() for number in whole)


def test_progress_starts_where_the_last_run_stopped(encoder: Encoder):
    told: list[tuple[int, int]] = []

    class Bars(Silent):
        @contextmanager
        def task(self, title, total, unit, done=0):
            told.append((total, done))
            with super().task(title, total, unit, done) as task:
                yield task

    writer = Blocks({0: np.zeros((4, 32), np.float32), 4: np.zeros((2, 32), np.float32)})
    encode_blocks(encoder, corpus(18), writer, FP32, Bars())
    assert told == [(18, 6)]


def test_a_broken_vector_is_named_by_its_row(encoder: Encoder):
    import torch

    row = encoder.module.tokenizer.convert_tokens_to_ids("q")
    with torch.no_grad():
        encoder.module[0].model.embeddings.word_embeddings.weight[row] = torch.nan
    texts = corpus(18)
    texts[9] = "q"
    from hardneg.records.errors import ModelError

    with pytest.raises(ModelError, match="document text 9 "):
        encode_blocks(encoder, texts, Blocks(), FP32, Silent())


def test_a_block_is_written_while_the_next_one_is_encoded(encoder: Encoder):
    """The first block waits, in being written, until the second one is made."""
    second = threading.Event()

    class Waiting(Blocks):
        def write_block(self, number: int, start_row: int, vectors: NDArray[np.float32]) -> None:
            assert number != 0 or second.wait(20)
            super().write_block(number, start_row, vectors)

    class Told(Silent):
        done = 0

        def advance(self, count: int = 1) -> None:
            self.done += count
            if self.done > 4:
                second.set()

        @contextmanager
        def task(self, title, total, unit, done=0):
            yield self

    writer = Waiting()
    encode_blocks(encoder, corpus(10), writer, FP32, Told())
    assert sorted(writer) == [0, 1, 2]


def test_all_processes_go_by_what_the_first_one_sees(encoder: Encoder, tmp_path: Path, monkeypatch):
    """It may have finished and renamed the folder before another one looks."""
    monkeypatch.setattr(stream, "world", lambda: World(1, 2))
    monkeypatch.setattr(stream, "from_first", lambda value: True)
    stream.write_index([encoder], corpus(5), tmp_path / "gone", FP32, Silent())
    assert not (tmp_path / "gone").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from hardneg.formats.corpus import Corpus
from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.runtime.distributed import World
from hardneg.encoders.corpus import stream
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.runtime.progress import Silent

class Killed(FlatWriter):
    def write_block(self, number, start_row, vectors):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_block(number, start_row, vectors)

model, corpus, index = sys.argv[1:]
stream.BLOCK = 4
encoder = load_learner(ModelSpec(model), "cpu")
writer = Killed(Path(index), encoder.dimension, 18)
stream.encode_blocks(encoder, Corpus.open(Path(corpus)), writer, EncodeOptions(precision="fp32"), Silent())
"""


@pytest.mark.slow
def test_a_killed_process_is_resumed(encoder: Encoder, tiny_model: Path, tmp_path: Path):
    texts = corpus(18)
    write_corpus((Document(f"d{n}", text) for n, text in enumerate(texts)), tmp_path / "corpus", Silent())
    arguments = [str(tiny_model), str(tmp_path / "corpus"), str(tmp_path / "index")]
    killed = forked.run([sys.executable, "-c", KILLED, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    stored = Corpus.open(tmp_path / "corpus")
    with FlatWriter(tmp_path / "index", 32, 18) as writer:
        assert writer.finished_blocks() == {0, 1}
        encode_blocks(encoder, stored, writer, FP32, Silent())
        writer.write_doc_ids(stored.doc_ids)
        writer.close()
    vectors = FlatVectors.open(tmp_path / "index").vectors
    np.testing.assert_allclose(vectors, encoder.encode(texts, "document", FP32), atol=1e-5)
