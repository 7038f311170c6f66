"""Random bytes in a file of any folder loader cause a one-line hardneg error, and `check` still reads to the end."""

import gzip
from typing import Any

import pytest
from hardneg_datasets.check import check
from hardneg_datasets.dpr import Dpr
from hardneg_datasets.msmarco import MsMarcoDocument, MsMarcoPassage
from hardneg_datasets.pyserini import Pyserini
from hypothesis import given, settings, strategies as st

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import write_collection
from hardneg.formats.source_files import parts_of
from hardneg.records import HardnegError
from hardneg.runtime import Silent

LOADERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "beir": (Beir, ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")),
    "msmarco": (MsMarcoPassage, ("collection.tsv", "queries.dev.tsv", "qrels.dev.tsv")),
    "msmarco-doc": (MsMarcoDocument, ("msmarco-docs.tsv", "topics.a.txt", "qrels.a.txt")),
    "pyserini": (Pyserini, ("corpus/a.json", "topics.a.trec", "qrels.a.txt")),
    "dpr": (Dpr, ("psgs_w100.tsv", "biencoder-nq-train.json", "nq-test.qa.csv")),
}
PIECES = st.sampled_from(
    [
        b'{"_id": "1", "id": "1", "text": "a"}',
        b'{"_id": "1", "text": "\\ud800"}',
        b'{"_id": "1", "text": "b", "answers": [1]}',
        b'{"id": 2, "contents": "a"',
        b'{"question": "q", "answers": ["a"], "positive_ctxs": [{"passage_id": "1"}]}',
        b"<top><num>1<title> a </top>",
        *(b"[", b"]", b",", b"<top>", b"</top>", b"<num> Number: 2", b"\n", b"\xff", b"\x00", b"\x1f\x8b"),
        *(b"1\ta", b"1\t['a']", b"1\t[[", b"1\tu\tt\tb", b"1\ta\tt", b'1\t"a', b"1 0 1 1"),
    ]
)
TEXTS = st.lists(PIECES | st.binary(max_size=6), max_size=7).flatmap(
    lambda pieces: st.sampled_from([b"\n".join(pieces), b"".join(pieces), gzip.compress(b"\n".join(pieces))[:-3]])
)


@pytest.mark.parametrize("name", LOADERS)
@settings(max_examples=60)
@given(texts=st.tuples(TEXTS, TEXTS, TEXTS))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, name: str, texts: tuple[bytes, ...]) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    kind, files = LOADERS[name]
    for file, text in zip(files, texts, strict=True):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(text)
    try:
        collection = kind(str(folder)).load()
        problems = list(check(parts_of(collection)))
    except HardnegError as error:
        assert "\n" not in str(error)
        return
    assert all("\n" not in str(problem) for problem in problems)
    try:
        write_collection(collection, folder / "stored", Silent())
    except HardnegError as error:
        assert "\n" not in str(error)
        assert not all(problem.warning for problem in problems), f"a check found nothing, but: {error}"
