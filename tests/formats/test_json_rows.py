"""JSON arrays read as streams."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardneg.formats import text_lines
from hardneg.formats.text_lines import id_field, read_array
from hardneg.records import DataError

OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=9) | st.integers() | st.lists(st.text())))


@settings(max_examples=100)
@given(OBJECTS, st.sampled_from([None, 1]), st.integers(1, 40))
def test_an_array_comes_back_however_it_is_cut(tmp_path_factory, rows, indent, size):
    path = tmp_path_factory.mktemp("array") / "rows.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=False), "utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "_CHUNK", size)
        assert [row for _, row in read_array(path)] == rows


def test_lines_of_objects(tmp_path):
    path = tmp_path / "rows.json.gz"
    path.write_bytes(gzip.compress(b'\n[\n {"a": 1},\n {"a":\n 2}\n]\n'))
    assert list(read_array(path)) == [(3, {"a": 1}), (4, {"a": 2})]
    path.write_text(" [ ] ")
    assert list(read_array(path)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "rows.json:1: this file must hold one JSON array"),
        (b'{"a": 1}', "rows.json:1: this file must hold one JSON array"),
        (b'[\n{"a": 1},\n{"a": "b', "rows.json:3: not JSON: Unterminated string"),
        (b'[\n{"a": 1}\n', "rows.json:3: cut off"),
        (b'[{"a": 1}\n{"a": 2}]', "rows.json:2: not JSON: a comma is missing"),
        (b'[{"a": 1}, 2]', "rows.json:1: a JSON value that is not an object"),
        (b'[{"a": 1}]\n[]', "rows.json:2: not JSON: there is more"),
        (b'[{"a": 1},\n\n{"a"; 2}' + b" " * 99, "rows.json:3: not JSON: Expecting ':'"),
        (b'[{"a": 1},\n{"a": "\xff"}]', "rows.json:2: not UTF-8"),
        (gzip.compress(b'[{"a": 1}]' * 99, mtime=0)[:-9], "rows.json:1: cannot be read: Compressed file ended"),
    ],
)
def test_mistakes(tmp_path, text, message):
    (tmp_path / "rows.json").write_bytes(text)
    with pytest.raises(DataError) as raised:
        list(read_array(tmp_path / "rows.json"))
    assert message in str(raised.value)


def test_whole_numbers_are_ids(tmp_path):
    assert id_field(tmp_path, 1, {"id": 7}, "docid", "id") == "7"
    with pytest.raises(DataError, match="id 'a b' is empty or holds white space"):
        id_field(tmp_path, 1, {"id": "a b"}, "docid", "id")
    with pytest.raises(DataError, match="no 'docid' in this object"):
        id_field(tmp_path, 1, {}, "docid", "id")
