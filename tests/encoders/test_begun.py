"""A block that was stopped in the middle goes on there, and becomes the same bytes."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from tiny import BY_FAMILY

from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.formats.vectors import begun_blocks
from hardneg.records.types import Document
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent

KINDS = {name: make for name, make in BY_FAMILY.items() if name != "static"}
OPTIONS = EncodeOptions(tokens_per_batch=40, precision="fp32")


class Stopping(Silent):
    """A clock by which each batch takes 12 seconds, and a bar that stops the run at a batch."""

    def __init__(self, stop: int = 0) -> None:
        self.now, self.stop, self.batches = 0.0, stop, list[int]()

    @contextmanager
    def task(self, title, total, unit, done=0):
        self.watched = title.startswith("encode")
        yield self

    def advance(self, count=1):
        if self.watched:
            self.batches.append(count)
            self.now += 12.0
            if len(self.batches) == self.stop:
                raise KeyboardInterrupt


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    texts = (Document(f"d{n}", "and more " * (n % 7) + f"of the river {n}") for n in range(40))
    write_corpus(texts, folder, Silent())
    return Corpus.open(folder)


@pytest.mark.parametrize(("kind", "cut"), [*((kind, None) for kind in KINDS), ("dense", Segments(4, 2))])
def test_a_stop_loses_no_more_than_half_a_minute(tmp_path, monkeypatch, corpus, kind, cut):
    encoder = load_encoder(ModelSpec(str(KINDS[kind](tmp_path / "model"))), "cpu")

    def encode(name, bar):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(begun_blocks, "clock", lambda: bar.now)
        rows, options = encoder.rows(corpus, cut, folder, Silent(), World()), replace(OPTIONS, begun=folder / "begun")
        write_index([encoder], rows, folder, options, bar)
        return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    whole = Stopping()
    expected = encode("whole", whole)
    assert len(whole.batches) > 8
    with pytest.raises(KeyboardInterrupt):
        encode("stopped", Stopping(8))
    again = Stopping()
    assert encode("stopped", again) == expected
    assert sum(again.batches) == sum(whole.batches)
    *batches, known = again.batches
    assert known == sum(whole.batches[:6]) and batches == whole.batches[6:]
