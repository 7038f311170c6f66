"""JSON arrays read as streams."""

import gzip

import pytest

from hardneg.formats.text_lines import id_field, read_array
from hardneg.records import DataError


def test_numbers_of_objects(tmp_path):
    path = tmp_path / "rows.json.gz"
    path.write_bytes(gzip.compress(b'\n[\n {"a": 1.5},\n {"a":\n ["\xc3\xbc"]}\n]\n'))
    assert list(read_array(path)) == [(1, {"a": 1.5}), (2, {"a": ["ü"]})]
    path.write_bytes(b"\xef\xbb\xbf [ ] ")
    assert list(read_array(path)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "rows.json: not JSON: this file must contain one JSON array"),
        (b'{"a": 1}', "rows.json: not JSON: this file must contain one JSON array"),
        (b'[\n{"a": 1},\n{"a": "b', "rows.json: not JSON after object 1: parse error: premature EOF; fetch"),
        (b'[{"a": 1}\n{"a": 2}]', "rows.json: not JSON after object 1: parse error: after array element"),
        (b'[{"a": 1}, 2]', "rows.json:2: a JSON value that is not an object"),
        (b'[{"a": 1}]\n[]', "rows.json: not JSON after object 1: parse error: trailing garbage"),
        (gzip.compress(b'[{"a": 1}]' * 99, mtime=0)[:-9], "rows.json: cannot be read after object 0: Compressed file"),
    ],
)
def test_mistakes(tmp_path, text, message):
    (tmp_path / "rows.json").write_bytes(text)
    with pytest.raises(DataError) as raised:
        list(read_array(tmp_path / "rows.json"))
    assert message in str(raised.value)


def test_whole_numbers_are_ids(tmp_path):
    assert id_field(tmp_path, 1, {"id": 7}, "docid", "id") == "7"
    with pytest.raises(DataError, match="id 'a b' is empty or contains white space"):
        id_field(tmp_path, 1, {"id": "a b"}, "docid", "id")
    with pytest.raises(DataError, match="no 'docid' in this object"):
        id_field(tmp_path, 1, {}, "docid", "id")
