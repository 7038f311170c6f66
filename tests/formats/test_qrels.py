"""Reading and writing relevance judgements."""

import gzip

import pytest
from hypothesis import given, strategies as st

from hardneg.formats.qrels import iter_qrels, positives, read_qrels, write_qrels
from hardneg.records import DataError, HardnegError, Judgement

EXPECTED = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": -2}}
TREC = "q1 0 d1 1\nq1 Q0 d2 0\nq2\t0\td1\t-2\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td1\t-2\n"


@pytest.mark.parametrize("text", [TREC, BEIR, BEIR.split("\n", 1)[1], TREC.replace("\n", "\r\n\r\n"), "\ufeff" + TREC])
def test_all_forms_say_the_same(tmp_path, text):
    (tmp_path / "qrels").write_bytes(text.encode())
    assert read_qrels(tmp_path / "qrels") == EXPECTED


def test_what_trec_eval_reads_too(tmp_path):
    """Comments, spaces beyond ASCII and `#` in an id; and whole numbers with a point, as tables have them."""
    text = "# judged in spring\nq1 0 a\u00a0b 1\n## again\n#2 0 c#d 1.0\n"
    (tmp_path / "qrels").write_text(text)
    assert read_qrels(tmp_path / "qrels") == {"q1": {"a\u00a0b": 1}, "#2": {"c#d": 1}}
    (tmp_path / "qrels").write_text("#judged in spring\n")
    with pytest.raises(DataError, match=r"qrels:1: relevance 'spring' .*; a comment starts with # and a space"):
        read_qrels(tmp_path / "qrels")


def test_gzip_is_told_by_content(tmp_path):
    (tmp_path / "qrels.txt").write_bytes(gzip.compress(TREC.encode()))
    assert read_qrels(tmp_path / "qrels.txt") == EXPECTED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 d1 1\nq1 0 d2\n", ":2: expected 4 columns as in the first line, found 3"),
        ("q1 0 d1 1\n\nq1 0 d2 1.5\n", ":3: relevance '1.5' is not a whole number"),
        ("q1 0 d1 1\nq1 0 d\0\x1cx 1\n", r":2: id 'd\x00\x1cx' is empty or contains white space or control characters"),
        ("q1 0 d1 high\n", ":1: relevance 'high' is not a whole number"),
        ("q1 0 d1 1_0\n", ":1: relevance '1_0' is not a whole number"),
        ("q1 d1\n", ":1: expected 4 columns"),
        ("q1 0 d1 1\nq1 0 d1 2\n", ":2: query q1, document d1: judged 2 here and 1 on an earlier line"),
        ("", ": contains no judgements"),
        ("query-id corpus-id score\n", ": contains no judgements"),
    ],
)
def test_mistakes_name_the_line(tmp_path, text, message):
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(DataError) as raised:
        read_qrels(tmp_path / "qrels")
    assert message in str(raised.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(DataError, match=r"cannot be opened \(No such file"):
        read_qrels(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b"q1 0 d1 1\nq1 0 d\xe9 1\n")
    with pytest.raises(DataError, match="latin:2: not UTF-8"):
        read_qrels(tmp_path / "latin")
    (tmp_path / "cut").write_bytes(gzip.compress(TREC.encode() * 100)[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        read_qrels(tmp_path / "cut")


def test_the_same_judgement_twice_is_one(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d1 1\n")
    assert read_qrels(tmp_path / "qrels") == {"q1": {"d1": 1}}


def test_positives_by_level():
    qrels = {"q1": {"d1": 1, "d2": 3, "d3": 2}, "q2": {"d1": 0}}
    assert positives(qrels) == {"q1": ["d1", "d2", "d3"]}
    assert positives(qrels, level=2) == {"q1": ["d2", "d3"]}


def test_what_is_written_is_read(tmp_path):
    judgements = [Judgement("q1", "d1", 1), Judgement("q1", "d2", 0), Judgement("q2", "d1", -2)]
    assert write_qrels(tmp_path / "qrels", judgements) == 3
    assert read_qrels(tmp_path / "qrels") == EXPECTED
    assert [judgement for _, judgement in iter_qrels(tmp_path / "qrels")] == judgements


@pytest.mark.parametrize("judgement", [("q 1", "d", 1), ("q", "", 1), ("q", "d", 1.0)])
def test_nothing_unreadable_is_written(tmp_path, judgement):
    with pytest.raises(DataError):
        write_qrels(tmp_path / "qrels", [Judgement(*judgement)])
    assert not (tmp_path / "qrels").exists()


@given(st.binary(max_size=80) | st.text(alphabet="q1 \t\n-score0\x1f\u2003", max_size=80).map(str.encode))
def test_no_bytes_give_another_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "qrels"
    path.write_bytes(data)
    try:
        qrels = read_qrels(path)
    except HardnegError as error:
        assert "\n" not in str(error)
    else:
        assert all(qrels.values())


COUNTS = {
    "qrels.dl19-passage.txt": (43, 9260),
    "qrels.dl20-passage.txt": (54, 11386),
    "qrels.msmarco-passage.dev-subset.txt": (6980, 7437),
}


def test_public_qrels(test_data):
    folder = test_data / "trec-dl" / "qrels"
    paths = sorted(folder.iterdir())
    assert len(paths) == 6
    for path in paths:
        qrels = read_qrels(path)
        if path.name in COUNTS:
            assert (len(qrels), sum(map(len, qrels.values()))) == COUNTS[path.name]
