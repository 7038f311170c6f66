import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hardneg.formats import text_lines
from hardneg.formats.runs import EMPTY, read_run, run_bytes, stream_run, write_run
from hardneg.records import DataError, RankedList
from tests.run_lists import doc_lists, falling, score_lists

_TINY = float(np.finfo(np.float32).tiny)
_GOOD = "q1 Q0 d1 1 2.5 t\n"


def _written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_lists_come_in_the_order_of_trec_eval(tmp_path):
    text = "q2 Q0 a 9 1.0 t\nq1 Q0 d1 1 0.5 t\nq2 Q0 b 1 1.0 t\n"
    text += "q1 Q0 d10 2 0.5 t\nq1 Q0 d2 3 0.5 t\nq2 Q0 c 3 7e-1 t\n"
    run = read_run(_written(tmp_path / "run", text))
    assert list(run) == ["q2", "q1"]
    assert doc_lists(run) == [["b", "a", "c"], ["d2", "d10", "d1"]]
    assert score_lists(run)[0].dtype == np.float32
    assert score_lists(run)[0].tolist() == [1.0, 1.0, np.float32(0.7)]


@pytest.mark.parametrize(
    "text",
    [
        "q1\tQ0\td1\t1\t2.5\tt\nq1\tQ0\td2\t2\t1\tt",
        "  q1  Q0 d1\t1 2.5 t \r\n\r\nq1 Q0 d2 2 1 t\n\n",
        gzip.compress(b"q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1 t\n", mtime=0),
        'q1 Q0 d1 1 2.5 "t\nq1 Q0 d2 2 1 t"\n',
    ],
)
def test_separators_line_ends_and_gzip_do_not_matter(tmp_path, text):
    run = read_run(_written(tmp_path / "run", text))
    assert doc_lists(run) == [["d1", "d2"]]
    assert score_lists(run)[0].tolist() == [2.5, 1.0]


def test_ids_may_be_any_text(tmp_path):
    run = read_run(_written(tmp_path / "run", 'q"1 Q0 dé😀 1 2.5 t\nnull Q0 NA 1 1 t\n'))
    assert (list(run), doc_lists(run)) == (['q"1', "null"], [["dé😀"], ["NA"]])


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_run_is_refused(tmp_path, text):
    with pytest.raises(DataError, match=r"run: the run is empty$"):
        read_run(_written(tmp_path / "run", text))


def test_what_is_no_text_is_told(tmp_path):
    with pytest.raises(DataError, match="run:1: not UTF-8 text; save the file as UTF-8"):
        read_run(_written(tmp_path / "run", _GOOD.encode("utf-16")))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("q1 Q0 d2 2 1.0\n", "expected 6 columns .*found 5"),
        ("q1 Q0 d2 2 high t\n", "not a number"),
        ("q1 Q0 d2 2 1_0 t\n", "not a number"),
        ("q1 Q0 d2 2 nan t\n", "finite"),
        ("q1 Q0 d2 2 -inf t\n", "finite"),
        ("q1 Q0 d2 2 1e39 t\n", "finite"),
        ("q1 Q0 d1 2 1.0 t\n", "twice"),
        (b"q1 Q0 d\xff 2 1.0 t\n", "UTF-8"),
        (b"q1 Q0 d2 2 1.0 t\xff\n", "UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, reason):
    bad = line.encode() if isinstance(line, str) else line
    path = _written(tmp_path / "run", _GOOD.encode() + b"\n" + bad + b"q2 Q0 d1 1 1 t\n")
    with pytest.raises(DataError, match=f"run:3: .*{reason}"):
        read_run(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tags_with_blanks_and_other_spaces_in_ids(tmp_path, end):
    """trec_eval takes the rest of a line as its tag, and parts columns at ASCII's white space alone."""
    text = f"q1 Q0 a\u00a0b 1 2.5 my own run{end}q1 Q0 a\u3000b 2 1.5 my own run{end}"
    assert doc_lists(read_run(_written(tmp_path / "run", text))) == [["a\u00a0b", "a\u3000b"]]


def test_scores_that_float32_cannot_tell_apart_keep_their_order(tmp_path):
    scores = np.array([1 - 1e-15, 1 - 1e-9, 1 - 1e-12, 0.5])
    write_run(tmp_path / "run", [("q1", RankedList(["b", "a", "c", "d"], scores))])
    (found,) = read_run(tmp_path / "run").values()
    assert found.doc_ids == ["b", "c", "a", "d"]
    assert found.scores.tolist() == pytest.approx([1, 1 - 2**-24, 1 - 2**-23, 0.5], abs=1e-9)


def test_ties_are_read_as_trec_eval_reads_them(tmp_path):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    generator = np.random.default_rng(5)
    doc_ids = [f"d{i}" for i in range(30)] + ["D", "é", "d-1", "~"]
    lines = [(f"q{q}", doc, float(generator.integers(-2, 3)) / 3) for q in range(20) for doc in doc_ids]
    run = read_run(_written(tmp_path / "run", "".join(f"{q} Q0 {d} 0 {s} t\n" for q, d, s in lines)))
    qrels = {q: {docs[place]: 1} for q, docs, place in zip(list(run), doc_lists(run), range(20), strict=True)}
    scores: dict[str, dict[str, float]] = {}
    for query_id, doc_id, score in lines:
        scores.setdefault(query_id, {})[doc_id] = score
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(scores)
    for place, query_id in enumerate(list(run)):
        assert found[query_id]["recip_rank"] == pytest.approx(1 / (place + 1))


def test_what_is_written(tmp_path):
    path = tmp_path / "new" / "run"
    scores = np.array([1, 2, 2, 0], np.float32)
    assert write_run(path, [("q1", RankedList(["a", "c", "b", "d"], scores)), ("q2", EMPTY)], "tag") == 4
    assert path.read_text() == ("q1 Q0 b 1 2 tag\nq1 Q0 c 2 1.99999988 tag\nq1 Q0 a 3 1 tag\nq1 Q0 d 4 0 tag\n")
    assert os.listdir(path.parent) == ["run"]


def test_gzip_bytes_are_the_same_each_time(tmp_path):
    entries = [("q1", RankedList(["a", "b"], np.array([1, 2], np.float32)))]
    write_run(tmp_path / "one.gz", entries)
    write_run(tmp_path / "two.gz", entries)
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert doc_lists(read_run(tmp_path / "one.gz")) == [["b", "a"]]


@pytest.mark.parametrize(
    ("entry", "tag"),
    [
        (("q 1", ["a"], [1.0]), "t"),
        (("q1", ["a\u2028b"], [1.0]), "t"),
        (("q1", [""], [1.0]), "t"),
        (("q1", ["a", "a"], [1.0, 2.0]), "t"),
        (("q1", ["a"], [1.0, 2.0]), "t"),
        (("q1", ["a"], [math.nan]), "t"),
        (("q1", ["a"], [-math.inf]), "t"),
        (("q1", ["a"], [1.0]), "my tag"),
        (("", ["a"], [1.0]), "t"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path, entry, tag):
    path = _written(tmp_path / "run", "old")
    with pytest.raises(DataError):
        wrong = (entry[0], RankedList(entry[1], np.array(entry[2], np.float32)))
        write_run(path, [("q0", RankedList(["a"], np.ones(1, np.float32))), wrong], tag)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run"]


def test_a_query_that_comes_twice_is_refused(tmp_path):
    entry = ("q1", RankedList(["a"], np.ones(1, np.float32)))
    with pytest.raises(DataError, match="twice"):
        write_run(tmp_path / "run", [entry, entry])


_LARGEST = 3.4028234663852886e38
_scores = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, _TINY, -_TINY, _LARGEST, -_LARGEST]),
)
_entries = st.dictionaries(
    st.text("ab1é", min_size=1, max_size=3),
    st.dictionaries(st.text("abc19~é", min_size=1, max_size=3), _scores, max_size=12),
    max_size=4,
)


@given(_entries.filter(lambda entries: any(entries.values())), st.booleans())
def test_a_run_comes_back_in_its_order_with_distinct_scores(tmp_path_factory, entries, packed):
    path = tmp_path_factory.mktemp("run") / ("run.gz" if packed else "run")
    lists = {q: RankedList(list(docs), np.array(list(docs.values()), np.float32)) for q, docs in entries.items()}
    write_run(path, lists.items())
    run = read_run(path)
    assert list(run) == [query_id for query_id, docs in entries.items() if docs]
    for query_id, doc_ids, scores in zip(list(run), doc_lists(run), score_lists(run), strict=True):
        docs = entries[query_id]
        assert doc_ids == sorted(docs, key=lambda doc_id: (-np.float32(docs[doc_id]), doc_id))
        assert (scores[1:] < scores[:-1]).all()
        wanted = np.array([docs[doc_id] for doc_id in doc_ids])
        steps = len(docs) * (np.abs(wanted) * 2.0**-23 + 2 * _TINY)
        assert (np.abs(scores - wanted) <= steps).all()


def test_lines_of_parts_are_those_of_one_run(tmp_path):
    entries = [
        (f"q{i}", RankedList([f"d{j}" for j in range(300)], np.linspace(1, i, 300, dtype=np.float32)))
        for i in range(90)
    ]
    write_run(tmp_path / "whole.trec", entries)
    parts = [run_bytes(some) for some in (entries[:50], [], entries[50:])]
    assert b"".join(parts) == (tmp_path / "whole.trec").read_bytes()


def test_a_run_is_streamed_as_it_is_read(tmp_path, monkeypatch):
    """However the file is cut into pieces: with blanks or tabs, in trec_eval's order, the lines of a query together."""
    text = "q2 Q0 a 1 1 t\nq2\tQ0 b 2 2 t\n\nq1 Q0 c 1 0.5 t\nq1 Q0 d 1 .5 t\n q3 Q0 a 1 1 t"
    path = _written(tmp_path / "run", gzip.compress(text.encode("utf-8-sig")))
    whole = [(query_id, ranked.doc_ids, ranked.scores.tolist()) for query_id, ranked in read_run(path).items()]
    assert whole == [("q2", ["b", "a"], [2, 1]), ("q1", ["d", "c"], [0.5, 0.5]), ("q3", ["a"], [1])]
    for size in (7, 30, 1000):
        monkeypatch.setattr(text_lines, "_CHUNK", size)
        assert [(q, ranked.doc_ids, ranked.scores.tolist()) for q, ranked in stream_run(path)] == whole
        assert list(read_run(path)) == ["q2", "q1", "q3"]


def test_a_stream_needs_the_lines_of_a_query_together(tmp_path, monkeypatch):
    path = _written(tmp_path / "run", "q1 Q0 a 1 2 t\nq2 Q0 a 1 2 t\nq1 Q0 b 2 1 t\n")
    assert doc_lists(read_run(path)) == [["a", "b"], ["a"]]
    monkeypatch.setattr(text_lines, "_CHUNK", 20)
    with pytest.raises(DataError, match="query q1 are not contiguous; sort the run"):
        list(stream_run(path))


def test_a_truncated_run_is_told_while_it_is_streamed(tmp_path):
    path = tmp_path / "run.trec.gz"
    write_run(path, falling({f"q{i}": ["a", "b"] for i in range(500)}).items(), "tag")
    content = path.read_bytes()
    for damaged in (content[:-20], content[:30] + b"\xff\x00" + content[30:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cannot be read"):
            list(stream_run(path))
    assert list(stream_run(_written(path, ""))) == []
