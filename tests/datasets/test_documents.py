"""Folders of documents: forms, passages, ids, what is left out, and mistakes."""

import gzip
import json
import os
import re

import pytest
import yaml
from command_line import call

from hardneg.datasets import document_files
from hardneg.datasets.document_files import Text, read_file
from hardneg.datasets.documents import Documents
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records.errors import DataError, MissingDependency, UsageError
from hardneg.records.types import Document, Membership
from hardneg.runtime.progress import Silent

MARKDOWN = """---
title: not text
---
# Birds

All of *them* [fly](http://a.b).

## Owls

| when | where |
|---|---|
| night | woods |

<!-- a comment -->

```
# no heading
```
"""
HTML = """<html><head><title>T</title><style>p {}</style></head><body><nav>Home</nav>
<h1>Fish &amp; co</h1>
<p>They <b>swim</b>
fast.</p><script>x()</script>
<ul><li>cod</li></ul></body></html>"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "birds.md").write_text(MARKDOWN)
    (tmp_path / "fish.html").write_text(HTML)
    (tmp_path / "notes/a b.txt").write_text("First one. Second one.\r\n\r\nThird.")
    (tmp_path / "rows.csv").write_text('title,text\nT,"a, long\ntext"\n,more\n')
    (tmp_path / "rows.jsonl").write_text('{"text": "one", "title": "J"}\n\n{"text": "two"}\n')
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / ".hidden.txt").write_text("secret")
    return tmp_path


def documents(folder, **options):
    return list(Documents(str(folder), **options).load().documents())


def test_every_form_becomes_passages_with_file_and_line(folder):
    assert documents(folder, min_words=0) == [
        Document("birds.md:6", "All of them fly.", "Birds"),
        Document("birds.md:10", "when where\n\nnight woods\n\n# no heading", "Birds: Owls"),
        Document("fish.html:3", "They swim fast.\n\ncod", "Fish & co"),
        Document("notes/a%20b.txt:1", "First one. Second one.\n\nThird."),
        Document("rows.csv:2", "a, long\ntext", "T"),
        Document("rows.csv:4", "more"),
        Document("rows.jsonl:1", "one", "J"),
        Document("rows.jsonl:3", "two"),
    ]


def test_passages_end_with_sentences_and_overlap_in_sentences(tmp_path):
    (tmp_path / "a.txt").write_text("A b c. D e f.\nG h i. J k l. M.")
    assert [each[:2] for each in documents(tmp_path, words=6, min_words=0)] == [
        ("a.txt:1", "A b c. D e f."),
        ("a.txt:2", "G h i. J k l."),
        ("a.txt:2.2", "M."),
    ]
    assert [each.text for each in documents(tmp_path, words=6, min_words=0, overlap=3)] == [
        "A b c. D e f.",
        "D e f. G h i.",
        "G h i. J k l.",
        "J k l. M.",
    ]
    assert [each.text for each in documents(tmp_path, words=6, min_words=2)] == ["A b c. D e f.", "G h i. J k l. M."]
    assert [each.text for each in documents(tmp_path, words=2, min_words=0)][:3] == ["A b", "c.", "D e"]


def test_short_sections_are_joined_with_their_neighbour(tmp_path):
    (tmp_path / "a.md").write_text("# A\n\nShort.\n\n## B\n\nSome more words here.\n\n## C\n\nLast.\n")
    assert documents(tmp_path, min_words=3) == [
        Document("a.md:3", "Short.\n\nB\n\nSome more words here.\n\nC\n\nLast.", "A")
    ]
    titles = [each.title for each in documents(tmp_path, min_words=0)]
    assert titles == ["A", "A: B", "A: C"]


def test_a_stored_folder_has_groups_and_notes_and_no_queries(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("stored")
    collection = Documents(str(folder)).load()
    facts = write_collection(collection, out, Silent())
    assert (facts["documents"], facts["splits"], facts["groups"]) == (7, {}, {"documents": 7, "queries": 0})
    assert facts["notes"] == [
        "left out: 1 file .png, of no form that is read",
        "left out: 1 file without text, such as empty.txt",
    ]
    groups = StoredCollection.open(out).groups("document")
    assert (groups["birds.md:6"], groups["rows.csv:2"]) == ("birds.md", "rows.csv:2")
    assert Membership("rows.csv:4", "rows.csv:4") in list(collection.groups("document"))


def test_all_mistakes_come_at_once_each_with_its_line(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe bad")
    (tmp_path / "rows.jsonl").write_text('{"title": "no text"}\n{"text": "fine"}\n{"text": ""}\nnothing\n')
    (tmp_path / "rows.csv").write_text("body\nx\n")
    (tmp_path / "good.txt").write_text("Good.")
    with pytest.raises(DataError) as caught:
        documents(tmp_path)
    first, *lines = str(caught.value).splitlines()
    assert first == f"{tmp_path}: 5 problems"
    assert [line.strip().removeprefix(f"{tmp_path}/") for line in lines] == [
        "bad.txt:2: not UTF-8 (invalid start byte); save it as UTF-8, or leave it out by `glob`",
        "rows.csv:1: no column `text`; the first line names the columns, here: body",
        "rows.jsonl:1: no 'text' in this object",
        "rows.jsonl:3: `text` is empty; leave the row out, or fill it in",
        "rows.jsonl:4: not JSON: Expecting value (column 1)",
    ]
    checked = call("data check", f"documents:{tmp_path}").stdout
    assert all(line.strip() in checked for line in lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forms": ("mdx",)}, "no form 'mdx'; did you mean 'md'?"),
        ({"words": 0}, "words and min_words: give 1 or more words"),
        ({"overlap": 150}, "overlap: give 0 or more words, and fewer than `words`"),
    ],
)
def test_options_that_make_no_sense(folder, options, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        documents(folder, **options)


def test_folders_without_a_file_to_read(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        documents(tmp_path / "none")
    with pytest.raises(DataError, match=r"no file to read: none of csv, .* among "):
        documents(tmp_path)
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(DataError, match=r"there are 1 file \.docx"):
        documents(tmp_path)


def test_the_fingerprint_is_that_of_the_files_that_are_read(folder):
    before = Documents(str(folder)).fingerprint()
    (folder / "photo.png").write_bytes(b"other")
    assert Documents(str(folder)).fingerprint() == before
    (folder / "birds.md").write_text("# Birds\n")
    assert Documents(str(folder)).fingerprint() != before
    assert Documents(str(folder), glob="*.md").load().files == [folder / "birds.md"]
    assert 1 <= Documents(str(folder)).size_hint() < 9


def test_the_fingerprint_changes_with_the_library_that_reads(folder, monkeypatch):
    of_text = Documents(str(folder), glob="*.txt").fingerprint()
    before = Documents(str(folder), forms=("txt", "md")).fingerprint()
    monkeypatch.setattr(document_files, "_version", lambda library: "99")
    assert Documents(str(folder), forms=("txt", "md")).fingerprint() != before
    assert Documents(str(folder), glob="*.txt").fingerprint() == of_text


def test_pdf_pages_are_read_with_pypdf(tmp_path):
    writer = pytest.importorskip("pypdf").PdfWriter()
    writer.add_blank_page(width=72, height=72)
    writer.write(tmp_path / "scan.pdf")
    (tmp_path / "cut.pdf").write_bytes(b"%PDF-1.7 cut off")
    for name, reason in (("scan.pdf", "no text in it, maybe scanned pages"), ("cut.pdf", "not a PDF that can be read")):
        [(_, error)] = read_file(tmp_path / name)
        assert isinstance(error, DataError) and reason in str(error)


def test_a_pdf_page_is_the_line_of_its_passages(tmp_path, monkeypatch):
    pypdf = pytest.importorskip("pypdf")

    class Page:
        def __init__(self, text):
            self.text = text

        def extract_text(self):
            return self.text

    monkeypatch.setattr(pypdf, "PdfReader", lambda path: type("R", (), {"pages": [Page(""), Page("Second page.")]}))
    [(_, text)] = read_file(tmp_path / "a.pdf")
    assert isinstance(text, Text) and text.blocks == [(2, "Second page.", 0, False)]


def test_without_pypdf_pdf_files_are_counted_or_refused(folder, monkeypatch):
    (folder / "a.pdf").write_bytes(b"%PDF")
    monkeypatch.setattr("hardneg.datasets.documents.find_spec", lambda name: None)
    notes = Documents(str(folder)).load().notes()
    assert 'PDF files are read with pypdf: pip install "hardneg[pdf]"' in notes
    with pytest.raises(MissingDependency, match="pip install"):
        documents(folder, forms=("pdf",))


def test_stages_without_queries_run_and_others_say_what_is_missing(folder, tiny_model):
    stages = {"index": {"stage": "encode", "model": "start"}, "run": {"stage": "search", "index": "index"}}
    tree = {"dataset": f"documents:{folder}", "model": str(tiny_model), "stages": stages}
    (folder / "small.yaml").write_text(yaml.safe_dump(tree))
    line = f"recipe run {folder}/small.yaml --store {folder.parent}/store --device cpu --output {folder.parent}/out"
    message = "run: the dataset has documents and no queries; write some: stage write-queries"
    assert str(call(line).exception) == message
    assert call(f"{line} --until index").exit_code == 0


def test_files_that_are_not_read_by_name(tmp_path):
    for name in ("a.md", "queries.jsonl"):
        (tmp_path / name).write_text('{"text": "one two"}\n')
    assert [path.name for path in Documents(str(tmp_path), without=("queries.jsonl",)).load().files] == ["a.md"]


def own_cache(monkeypatch, folder):
    monkeypatch.setattr("hardneg.datasets.kept_passages.cache_folder", lambda: folder)


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
    assert sorted(parsed) == ["a b.txt", "birds.md", "empty.txt", "fish.html", "rows.csv", "rows.jsonl"]
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
    assert sorted(parsed) == ["birds.md", "new.txt"]
    groups = list(Documents(str(folder)).load().groups("document"))
    own_cache(monkeypatch, tmp_path_factory.mktemp("fresh"))
    assert documents(folder) == again != before
    assert list(Documents(str(folder)).load().groups("document")) == groups
    assert not {"fish.html:2", "rows.csv:2"} & {each.doc_id for each in again}
    assert any(each.doc_id.startswith("lines.csv:") for each in again)


def test_what_is_kept_goes_with_its_file(folder, parsed):
    kept = Documents(str(folder)).load().kept.folder
    documents(folder)
    assert len([*kept.iterdir()]) == 6
    (folder / "birds.md").write_text("Changed.")
    (folder / "fish.html").unlink()
    documents(folder)
    assert len([*kept.iterdir()]) == 5
    documents(folder, words=100)
    assert len([*kept.iterdir()]) == 5 and len([*kept.parent.iterdir()]) == 2


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_what_is_damaged_is_read_again(folder, parsed, damage):
    before, kept = documents(folder), Documents(str(folder)).load().kept.folder
    for path in kept.iterdir():
        data = path.read_bytes()
        path.write_bytes({"cut": data[: len(data) // 2], "changed": data.replace(b"o", b"0", 1), "empty": b""}[damage])
    del parsed[:]
    collection = Documents(str(folder)).load()
    assert list(collection.documents()) == before and len(parsed) == (5 if damage == "changed" else 6)
    assert f"{len(parsed)} kept files of passages were damaged: read again" in collection.notes()
    del parsed[:]
    assert documents(folder) == before and not parsed


def test_a_file_that_cannot_be_read_is_not_kept(folder, parsed):
    (folder / "rows.jsonl").write_text('{"text": "one"}\n{"title": "no text"}\n')
    for _ in range(2):
        with pytest.raises(DataError, match=r"rows\.jsonl:2"):
            documents(folder)
    assert parsed.count("rows.jsonl") == 2 and parsed.count("birds.md") == 1


def test_nothing_is_kept_of_a_reading_that_ended_early(folder, parsed):
    rows = Documents(str(folder)).load().documents()
    next(rows)
    rows.close()
    assert not [*Documents(str(folder)).load().kept.folder.glob("*")]


def test_a_cache_that_cannot_be_written_is_done_without(folder, parsed, tmp_path_factory, monkeypatch):
    before, file = documents(folder), tmp_path_factory.mktemp("file") / "no-folder"
    file.write_text("")
    own_cache(monkeypatch, file)
    del parsed[:]
    assert documents(folder) == before and len(parsed) == 6


def test_python_is_read_where_it_is_named_and_a_definition_is_a_passage(tmp_path):
    source = '''"""A module."""
LIMIT = 3


class Stack:
    """Holds items.

    In order.
    """

    def push(self, item):
        """Puts one on top. Nothing else."""
        self.items.append(item)

    def _bare(self):
        return 1


@cached
def plain(a):

    return a
'''
    (tmp_path / "a.py").write_text(source)
    (tmp_path / "b.txt").write_text("Some words.")
    assert [each.doc_id for each in documents(tmp_path, min_words=0)] == ["b.txt:1"]
    assert Documents(str(tmp_path)).load().left_out == {".py": 1}
    stack = 'class Stack:\n    """Holds items.\n    In order.\n    """\n    def push(self, item):\n        ...\n'
    push = 'def push(self, item):\n    """Puts one on top. Nothing else."""\n    self.items.append(item)'
    assert documents(tmp_path, forms=("py",)) == [
        Document("a.py:5", stack + "    def _bare(self):\n        return 1", "Stack"),
        Document("a.py:11", push, "Stack.push"),
        Document("a.py:20", "def plain(a):\n    return a", "plain"),
    ]
    opened = Documents(str(tmp_path), forms=("py",)).load()
    assert {each.group for each in opened.groups("document")} == {"a.py"}
    (tmp_path / "a.py").write_text("def f(:\n")
    with pytest.raises(DataError, match=r"a\.py:1: not Python \(.*\); mend it, or leave it out by `glob`"):
        documents(tmp_path, forms=("py",))


def test_a_passage_stands_at_the_line_of_its_first_word(tmp_path):
    (tmp_path / "a.txt").write_text("Yes it is.\nYes it is.\nall in\none long sentence")
    ids = [each.doc_id for each in documents(tmp_path, words=3, min_words=0)]
    assert ids == ["a.txt:1", "a.txt:2", "a.txt:3", "a.txt:4"]
    (tmp_path / "a.txt").unlink()
    rows = [{"text": "One two.\nThree four.\nFive six."}, {"text": "Seven."}]
    (tmp_path / "r.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "s.csv").write_text('text\n\n"One two.\nThree four."\nFive.\n')
    ids = [each.doc_id for each in documents(tmp_path, words=2, min_words=0)]
    assert ids == ["r.jsonl:1", "r.jsonl:1.2", "r.jsonl:1.3", "r.jsonl:2", "s.csv:3", "s.csv:4", "s.csv:5"]


def test_pages_of_a_pdf_are_the_numbers_of_all_their_passages(tmp_path, monkeypatch):
    pypdf = pytest.importorskip("pypdf")
    pages = [type("Page", (), {"extract_text": lambda self: "One two.\nThree four.\nFive six."})() for _ in range(2)]
    monkeypatch.setattr(pypdf, "PdfReader", lambda path: type("Reader", (), {"pages": pages}))
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    ids = [each.doc_id for each in documents(tmp_path, words=4, min_words=0)]
    assert ids == ["a.pdf:1", "a.pdf:1.2", "a.pdf:2"]


@pytest.mark.parametrize("error", [TypeError("no page"), AssertionError("mypy"), RecursionError("deep")])
def test_what_pypdf_raises_for_a_damaged_file_is_one_line(tmp_path, monkeypatch, error):
    pypdf = pytest.importorskip("pypdf")

    def fail(path):
        raise error

    monkeypatch.setattr(pypdf, "PdfReader", fail)
    [(_, result)] = read_file(tmp_path / "a.pdf")
    assert isinstance(result, DataError) and "not a PDF that can be read" in str(result)


def test_a_damaged_pdf_says_nothing_beside_its_line(tmp_path, caplog):
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4\nno more\n")
    [(_, result)] = read_file(tmp_path / "a.pdf")
    assert "not a PDF that can be read" in str(result) and not caplog.records


def test_text_without_blanks_is_cut_by_its_characters(tmp_path):
    (tmp_path / "a.txt").write_text("東京は日本の首都である。" * 30)
    passages = [each.text for each in documents(tmp_path, words=20, min_words=0)]
    assert len(passages) == 10 and all(text.count("。") == 3 for text in passages)


def test_a_head_needs_no_end(tmp_path):
    (tmp_path / "a.html").write_text("<head><title>T</title><meta name=x><style>p {}</style><body><p>Words.")
    (tmp_path / "b.html").write_text("<head><title>T</title><p>More.</p></head><p>Rest.")
    assert [each.text for each in documents(tmp_path)] == ["Words.", "More.\n\nRest."]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("title,text\nA,one, two\n", "a.csv:2: 3 fields, and 2 columns; put a text with commas in quotation marks"),
        ('"ti"tle,text\nA,b\n', "a.csv:1: not CSV: "),
        ("text,text\na,b\n", "a.csv:1: two columns `text`; give one of them another name"),
    ],
)
def test_a_csv_file_that_would_lose_words_is_refused(tmp_path, content, line):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=re.escape(line)):
        documents(tmp_path)


def test_packed_files_and_names_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"Words."))
    with pytest.raises(DataError, match=r"a\.txt: packed with gzip; unpack it"):
        documents(tmp_path)
    (tmp_path / os.fsdecode(b"\xe9.txt")).write_text("Words.")
    with pytest.raises(DataError, match=r"b'\\xe9\.txt': a name that is not UTF-8"):
        Documents(str(tmp_path)).load()


@pytest.mark.parametrize("pattern", ["", "/etc/*", "a**"])
def test_globs_that_leave_the_folder(folder, pattern):
    with pytest.raises(UsageError, match="documents: glob: "):
        documents(folder, glob=pattern)


def test_links_that_are_not_followed_are_told(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/a.txt").write_text("Words.")
    for name, target in (("b.txt", "a.txt"), ("folder", tmp_path), ("gone.txt", "nowhere")):
        (tmp_path / "pages" / name).symlink_to(target)
    opened = Documents(str(tmp_path / "pages")).load()
    assert [each.doc_id for each in opened.documents()] == ["a.txt:1", "b.txt:1"]
    assert opened.notes() == ["left out: 2 links to no file, such as folder"]
