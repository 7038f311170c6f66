import gzip

import pytest

from hardneg.replacing import replace_text, replacing


@pytest.mark.parametrize("name", ["a.txt", "sub/a.txt.gz"])
def test_old_or_new_never_half(tmp_path, name):
    path = tmp_path / name
    with replacing(path) as file:
        file.write(b"old")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"ne")
        raise ZeroDivisionError
    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == b"old"
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_gzip_has_neither_name_nor_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        replace_text(tmp_path / name, "é")
    content = (tmp_path / "a.gz").read_bytes()
    assert content == (tmp_path / "b.gz").read_bytes() and content[3:8] == bytes(5)
    assert gzip.decompress(content) == "é".encode()
