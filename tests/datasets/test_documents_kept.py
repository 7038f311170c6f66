"""Passages that are kept beside a folder of documents, so that only what has changed is read again."""

import pytest
from document_folder import MARKDOWN, documents, documents_in

from hardneg.datasets.document_files import read_file
from hardneg.datasets.documents import Documents
from hardneg.records.errors import DataError

ROWS = ["rows.csv", "rows.jsonl"]
"""Files of rows, which are streamed, and not kept."""


@pytest.fixture
def folder(tmp_path):
    return documents_in(tmp_path)


def own_cache(monkeypatch, folder):
    monkeypatch.setattr("hardneg.datasets.documents.cache_folder", lambda: folder)


@pytest.fixture
def parsed(monkeypatch, tmp_path_factory):
    """The names of the files that were parsed since the list was last cleared."""
    own_cache(monkeypatch, tmp_path_factory.mktemp("cache"))
    names = []

    def counting(path):
        names.append(path.name)
        return read_file(path)

    monkeypatch.setattr("hardneg.datasets.documents.read_file", counting)
    return names


def test_documents_and_groups_parse_each_file_once(folder, parsed):
    collection = Documents(str(folder)).load()
    first, groups = list(collection.documents()), list(collection.groups("document"))
    whole = ["a b.txt", "birds.md", "empty.txt", "fish.html"]
    assert sorted(parsed) == sorted([*whole, *ROWS, *ROWS])
    assert [each.member_id for each in groups] == [each.doc_id for each in first]


def test_only_what_has_changed_is_parsed_again(folder, parsed, tmp_path_factory, monkeypatch):
    """One file changed, one new, one gone, one renamed: what is read is what a fresh read gives."""
    before = documents(folder)
    assert parsed and list(Documents(str(folder)).load().documents()) == before
    del parsed[:]
    (folder / "birds.md").write_text(MARKDOWN.replace("All of", "Most of"))
    (folder / "new.txt").write_text("A new one.")
    (folder / "fish.html").unlink()
    (folder / "rows.csv").rename(folder / "lines.csv")
    again = documents(folder)
    assert sorted(parsed) == ["birds.md", "lines.csv", "new.txt", "rows.jsonl"]
    groups = list(Documents(str(folder)).load().groups("document"))
    own_cache(monkeypatch, tmp_path_factory.mktemp("fresh"))
    assert documents(folder) == again != before
    assert list(Documents(str(folder)).load().groups("document")) == groups
    assert not {"fish.html:2", "rows.csv:2"} & {each.doc_id for each in again}
    assert any(each.doc_id.startswith("lines.csv:") for each in again)


def test_what_is_kept_goes_with_its_file(folder, parsed):
    kept = Documents(str(folder)).load().kept.folder
    documents(folder)
    assert len([*kept.iterdir()]) == 4
    (folder / "birds.md").write_text("Changed.")
    (folder / "fish.html").unlink()
    documents(folder)
    assert len([*kept.iterdir()]) == 3
    documents(folder, words=100)
    assert len([*kept.iterdir()]) == 3 and len([*kept.parent.iterdir()]) == 2


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_what_is_damaged_is_read_again(folder, parsed, damage):
    before, kept = documents(folder), Documents(str(folder)).load().kept.folder
    for path in kept.iterdir():
        data = path.read_bytes()
        path.write_bytes({"cut": data[: len(data) // 2], "changed": data.replace(b"o", b"0", 1), "empty": b""}[damage])
    del parsed[:]
    collection = Documents(str(folder)).load()
    assert list(collection.documents()) == before and len(parsed) == (5 if damage == "changed" else 6)
    del parsed[:]
    assert documents(folder) == before and parsed == ROWS


def test_a_file_that_cannot_be_read_is_not_kept(folder, parsed):
    (folder / "rows.jsonl").write_text('{"text": "one"}\n{"title": "no text"}\n')
    for _ in range(2):
        with pytest.raises(DataError, match=r"rows\.jsonl:2"):
            documents(folder)
    assert parsed.count("rows.jsonl") == 2 and parsed.count("birds.md") == 1


def test_a_cache_that_cannot_be_written_is_done_without(folder, parsed, tmp_path_factory, monkeypatch):
    before, file = documents(folder), tmp_path_factory.mktemp("file") / "no-folder"
    file.write_text("")
    own_cache(monkeypatch, file)
    del parsed[:]
    assert documents(folder) == before and len(parsed) == 6
