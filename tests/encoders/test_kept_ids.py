"""Token ids of a stored corpus: kept while it is encoded, read when it is encoded again."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from tiny import tiny_encoder

from hardneg.encoders.corpus import stream
from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.tokens import kept_ids
from hardneg.encoders.tokens.kept_ids import KeptIds
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.records.types import Document
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from hardneg.store.artifacts import Artifact, Store, check
from hardneg.store.digest import digest
from hardneg.store.gc_roots import garbage

FP32 = EncodeOptions(precision="fp32")
COUNT = 18


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(stream, "BLOCK", 4)
    monkeypatch.setattr(kept_ids, "WORTH_KEEPING", COUNT)
    return store_corpus(tmp_path / "store", COUNT)


def store_corpus(root: Path, count: int) -> Corpus:
    """The corpus as the artifact of a dataset."""
    store, origin = Store(root), {"stage": "dataset", "count": count}
    documents = (Document(f"d{n}", "word " * (n % 13) + str(n)) for n in range(count))
    write_corpus(documents, store.workspace(digest(origin)), Silent())
    return Corpus.open(store.commit(digest(origin), "dataset", {}, origin | {"name": "dataset"}).path)


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model), document_prompt="ab: "), "cpu")


def tokenised(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are tokenised from now on."""
    texts: list[str] = []
    plain = type(encoder).tokenise

    def noted(self: Encoder, some: Sequence[str], kind: Any) -> Any:
        texts.extend(text for text in some if text != "a trial")
        return plain(self, some, kind)

    monkeypatch.setattr(type(encoder), "tokenise", noted)
    return texts


def write(encoder: Encoder, corpus: Corpus, folder: Path, cut: Segments | None = None, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    rows = encoder.rows(corpus, cut, folder, Silent(), World())
    write_index([encoder], rows, folder, EncodeOptions(precision="fp32", **options), Silent())
    return FlatVectors.open(folder).vectors.tobytes()


def kept(corpus: Corpus) -> list[Artifact]:
    found = Store(corpus.folder.parent).artifacts()
    return [item for item in found if isinstance(item, Artifact) and item.artifact_type == "tokens"]


def test_the_second_encoding_reads_no_text(stored, encoder, tmp_path, monkeypatch):
    read = tokenised(encoder, monkeypatch)
    first = write(encoder, stored, tmp_path / "a")
    assert len(read) == COUNT and len(kept(stored)) == 1
    other = load_learner(ModelSpec(str(tiny_encoder(tmp_path / "other", seed=1)), document_prompt="ab: "), "cpu")
    second = write(encoder, stored, tmp_path / "b")
    assert write(other, stored, tmp_path / "c") != first == second
    assert len(read) == COUNT
    (made,) = kept(stored)
    assert made.facts["blocks"] == 5
    assert [item.problem for item in check(Store(stored.folder.parent), Silent())] == ["", ""]
    assert made.path in [path for path, _ in garbage(Store(stored.folder.parent))]


@pytest.mark.parametrize("change", [{"document_prompt": "cd: "}, {"document_length": 9}])
def test_other_ids_are_kept_apart(stored, encoder, tiny_model, tmp_path, change):
    other = load_learner(ModelSpec(str(tiny_model), **{"document_prompt": "ab: ", **change}), "cpu")
    write(encoder, stored, tmp_path / "a")
    found = write(other, stored, tmp_path / "b")
    assert len(kept(stored)) == 2
    assert found == write(other, stored, tmp_path / "c", keep_tokens=False)


def test_segments_are_kept_too(stored, encoder, tmp_path):
    cut = Segments(length=8, count=2)
    found = [write(encoder, stored, tmp_path / name, cut) for name in "ab"]
    assert found[0] == found[1] == write(encoder, stored, tmp_path / "c", cut, keep_tokens=False)
    (made,) = kept(stored)
    assert made.origin["cut"]["length"] == 8


@pytest.mark.parametrize("why", ["small", "not wanted", "in no store"])
def test_nothing_is_kept(why, stored, encoder, tmp_path, monkeypatch):
    if why == "small":
        monkeypatch.setattr(kept_ids, "WORTH_KEEPING", COUNT + 1)
    if why == "in no store":
        write_corpus(stored.documents(), tmp_path / "store" / "corpus", Silent())
        stored = Corpus.open(tmp_path / "store" / "corpus")
    write(encoder, stored, tmp_path / "a", keep_tokens=why != "not wanted")
    assert kept(stored) == []


def test_what_a_stopped_run_has_kept_is_read(stored, encoder, tmp_path, monkeypatch):
    plain = type(encoder).tokenise

    def stops(self: Encoder, some: Sequence[str], kind: Any) -> Any:
        if any(text.endswith("9") for text in some):
            raise KeyboardInterrupt
        return plain(self, some, kind)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(encoder), "tokenise", stops)
        write(encoder, stored, tmp_path / "a")
    assert kept(stored) == []
    read = tokenised(encoder, monkeypatch)
    write(encoder, stored, tmp_path / "b")
    assert 0 < len(read) < COUNT and len(kept(stored)) == 1


def add(ids: KeptIds, corpus: Corpus, encoder: Encoder, start: int) -> None:
    made = encoder.tokenise(next(iter(corpus.blocks(start, start + 4, 4))), "document")
    ids.add(start, (made.columns["input_ids"], made.offsets))


def test_two_runs_at_once_make_one_artifact(stored, encoder, tmp_path):
    """The first run has the ids open until the second is done; it is the one that finishes them."""
    found: list[bytes] = []
    layout = stream.Layout.of_encoder(encoder, stored)
    with kept_ids.kept_ids(encoder, stored, layout.documents[:-1]) as ids:
        assert ids is not None and ids.blocks == set()
        add(ids, stored, encoder, 0)
        second = threading.Thread(target=lambda: found.append(write(encoder, stored, tmp_path / "a")))
        second.start()
        second.join(120)
        assert len(found) == 1 and kept(stored) == []
        for start in layout.documents[:-1].tolist():
            add(ids, stored, encoder, start)
    (made,) = kept(stored)
    names = ["0.ids", "12.ids", "16.ids", "4.ids", "8.ids", "manifest.json"]
    assert sorted(path.name for path in made.path.iterdir()) == names
    assert found[0] == write(encoder, stored, tmp_path / "b")


def test_a_full_disk_costs_no_encoding(stored, encoder, tmp_path, monkeypatch, caplog):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept_ids.np, "save", full)
        found = write(encoder, stored, tmp_path / "a")
    assert kept(stored) == [] and "token ids are not kept ([Errno 28] No space" in caplog.text
    assert found == write(encoder, stored, tmp_path / "b")


@pytest.mark.parametrize(("vocabulary", "bytes_each"), [(65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_where_all_fit(tmp_path, vocabulary, bytes_each):
    ids, largest = KeptIds(tmp_path, vocabulary), vocabulary - 1
    ids.add(7, (np.array([1, largest, 3], np.int32), np.array([0, 0, 2, 3])))
    assert (tmp_path / "7.ids").stat().st_size == 2 * 128 + 4 * 8 + 3 * bytes_each
    values, offsets = KeptIds(tmp_path, vocabulary).get(7) or ((), ())
    assert list(values) == [1, largest, 3] and list(offsets) == [0, 0, 2, 3]


def test_a_damaged_artifact_is_left_alone(stored, encoder, tmp_path, caplog):
    found = write(encoder, stored, tmp_path / "a")
    (made,) = kept(stored)
    (made.path / "0.ids").chmod(0o644)
    os.truncate(made.path / "0.ids", 9)
    assert found == write(encoder, stored, tmp_path / "b") and "token ids are not read" in caplog.text


KILLED = """
import os, signal, sys
from pathlib import Path
from hardneg.formats.corpus import Corpus
from hardneg.runtime.distributed import World
from hardneg.encoders.tokens import kept_ids; from hardneg.encoders.corpus import stream
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.runtime.progress import Silent

model, corpus, folder, after = sys.argv[1:]
stream.BLOCK, kept_ids.WORTH_KEEPING = 4, 18
save = kept_ids.np.save
left = [int(after)]

def write(file, *arguments, **options):
    save(file, *arguments, **options)
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1

kept_ids.np.save = write
encoder, stored = load_learner(ModelSpec(model, document_prompt="ab: "), "cpu"), Corpus.open(Path(corpus))
Path(folder).mkdir()
rows = encoder.rows(stored, None, Path(folder), Silent(), World())
stream.write_index([encoder], rows, Path(folder), EncodeOptions(precision="fp32"), Silent())
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", range(8))
def test_killed_in_the_middle_of_any_write(after, stored, encoder, tiny_model, tmp_path):
    arguments = [str(tiny_model), str(stored.folder), str(tmp_path / "a"), str(after)]
    killed = forked.run([sys.executable, "-c", KILLED, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    found = write(encoder, stored, tmp_path / "b")
    assert len(kept(stored)) == 1
    assert found == write(encoder, stored, tmp_path / "c") == write(encoder, stored, tmp_path / "d", keep_tokens=False)
