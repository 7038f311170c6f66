"""Topic files in three forms."""

import gzip
from pathlib import Path

import pytest

from hardneg.formats.queries import topics_part
from hardneg.formats.source_files import records
from hardneg.records.errors import DataError
from hardneg.records.types import Query

TREC = """
<top>

<num> Number: 301
<title> International Organized
 Crime

<desc> Description:
Identify organizations
that participate.

<narr> Narrative:
A relevant document <b>must</b> name one.
</top>

<top><num>302</num><title>Topic: poliomyelitis</title><desc>Is it controlled?</desc></top>
"""


def read(path: Path, text: str, field: str = "title") -> list[tuple[int, Query]]:
    path.write_text(text)
    return list(records(topics_part(path, field=field)))  # type: ignore[arg-type]


def test_trec_blocks(tmp_path: Path) -> None:
    path = tmp_path / "topics.txt"
    crime = (2, Query("301", "International Organized Crime"))
    assert read(path, TREC) == [crime, (16, Query("302", "poliomyelitis"))]
    told = ["Identify organizations that participate.", "Is it controlled?"]
    assert [query.text for _, query in read(path, TREC, "desc")] == told


def test_tabs_and_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "topics.gz"
    path.write_bytes(gzip.compress(b"7\twho was\n\n8\t how\n"))
    assert list(records(topics_part(path))) == [(1, Query("7", "who was")), (3, Query("8", " how"))]
    text = '{"qid": 7, "title": "who was"}\n{"id": "8", "query": "how"}\n{"_id": "9", "text": "why"}\n'
    expected = [(1, Query("7", "who was")), (2, Query("8", "how")), (3, Query("9", "why"))]
    assert read(path, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7\ta\tb\n", "topics:1: 3 columns"),
        ("7 8\ta\n", "topics:1: id '7 8'"),
        ('{"title": "a"}\n', "topics:1: no 'qid'"),
        ('{"qid": "1"}\n', "topics:1: no 'title'"),
        ("<top>\n<num> 1\n<title> a\n<top>\n<num> 2\n<title> b\n</top>", "topics:1: this <top> has no </top>"),
        ("<top>\n<num> 1\n<title> a\n", "topics:1: this <top> has no </top>: the file is cut off"),
        ("<top>\n<title> a\n</top>", "topics:1: this <top> has no <num>"),
        ("<top>\n<num> 1 2\n<title> a\n</top>", "topics:1: id '1 2'"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(tmp_path / "topics", text)
    assert message in str(raised.value)


def test_the_field_s_own_topics(test_data: Path) -> None:
    counts = {"dl19-passage": 43, "dl20": 200, "dl21": 477, "dl22": 500, "msmarco-passage.dev-subset": 6980}
    for name, count in counts.items():
        path = test_data / "trec-dl" / "topics" / f"topics.{name}.txt"
        assert sum(1 for _ in records(topics_part(path))) == count, name
