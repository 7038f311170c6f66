"""Folders of documents: forms, passages, ids, what is left out, and mistakes."""

import pytest
import yaml
from command_line import call

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
        Document("a.md:3", "Short.\n\nB\n\nSome more words here.\n\nLast.", "A")
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
    assert isinstance(text, Text) and text.blocks == [(2, "Second page.", 0)]


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
