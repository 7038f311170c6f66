"""Folders of documents: forms, passages, ids, what is left out, and mistakes."""

import gzip
import json
import os
import re

import pytest
import yaml
from command_line import call
from document_folder import documents, documents_in

from hardneg.datasets import document_files
from hardneg.datasets.documents import Documents
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records import DataError, Document, Membership, UsageError
from hardneg.runtime import Silent


@pytest.fixture
def folder(tmp_path):
    return documents_in(tmp_path)


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
        "left out: 1 .png file, not included in `forms`",
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
        "bad.txt:2: not UTF-8 (invalid start byte); save it as UTF-8, or exclude it with `glob`",
        "rows.csv:1: missing column `text`; the first line has body",
        "rows.jsonl:1: missing field 'text'",
        "rows.jsonl:3: `text` is empty; fill it in, or remove the row",
        "rows.jsonl:4: not JSON (Expecting value)",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forms": ("mdx",)}, "unknown form 'mdx'; did you mean 'md'?"),
        ({"words": 0}, "words must be at least 1, and min_words"),
        ({"overlap": 150}, "overlap must be at least 0 and less than words"),
    ],
)
def test_options_that_make_no_sense(folder, options, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        documents(folder, **options)


def test_folders_without_a_file_to_read(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        documents(tmp_path / "none")
    with pytest.raises(DataError, match=r"no files to read; .* matches no csv, "):
        documents(tmp_path)
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(DataError, match=r"only 1 \.docx file"):
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
    monkeypatch.setattr(document_files, "version", lambda library: "99")
    assert Documents(str(folder), forms=("txt", "md")).fingerprint() != before
    assert Documents(str(folder), glob="*.txt").fingerprint() == of_text


def test_stages_without_queries_run_and_others_say_what_is_missing(folder, tiny_model):
    stages = {"index": {"stage": "encode", "model": "start"}, "run": {"stage": "search", "index": "index"}}
    tree = {"dataset": f"documents:{folder}", "model": str(tiny_model), "stages": stages}
    (folder / "small.yaml").write_text(yaml.safe_dump(tree))
    line = f"recipe run {folder}/small.yaml --store {folder.parent}/store --device cpu --output {folder.parent}/out"
    message = "run: the dataset has no queries; generate some with stage write-queries"
    assert str(call(line).exception) == message
    assert call(f"{line} --until index").exit_code == 0


def test_files_that_are_not_read_by_name(tmp_path):
    for name in ("a.md", "queries.jsonl"):
        (tmp_path / name).write_text('{"text": "one two"}\n')
    assert [path.name for path in Documents(str(tmp_path), without=("queries.jsonl",)).load().files] == ["a.md"]


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
    with pytest.raises(DataError, match=r"a\.py:1: not Python \(.*\); fix it, or exclude it with `glob`"):
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


def test_text_without_blanks_is_cut_by_its_characters(tmp_path):
    (tmp_path / "a.txt").write_text("東京は日本の首都である。" * 30)
    passages = [each.text for each in documents(tmp_path, words=20, min_words=0)]
    assert len(passages) == 10 and all(text.count("。") == 3 for text in passages)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("title,text\nA,one, two\n", "a.csv:2: expected 2 columns, found 3; quote texts that contain commas"),
        ('"ti"tle,text\nA,b\n', "a.csv:1: not valid CSV ("),
        ("text,text\na,b\n", "a.csv:1: column `text` appears twice; rename one of them"),
    ],
)
def test_a_csv_file_that_would_lose_words_is_refused(tmp_path, content, line):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=re.escape(line)):
        documents(tmp_path)


def test_packed_files_and_names_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"Words."))
    with pytest.raises(DataError, match=r"a\.txt: compressed with gzip; decompress it"):
        documents(tmp_path)
    (tmp_path / os.fsdecode(b"\xe9.txt")).write_text("Words.")
    with pytest.raises(DataError, match=r"file name b'\\xe9\.txt' is not UTF-8"):
        Documents(str(tmp_path)).load()


@pytest.mark.parametrize("pattern", ["", "/etc/*", "a**"])
def test_globs_that_leave_the_folder(folder, pattern):
    with pytest.raises(UsageError, match="documents: invalid glob "):
        documents(folder, glob=pattern)


def test_links_that_are_not_followed_are_told(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/a.txt").write_text("Words.")
    for name, target in (("b.txt", "a.txt"), ("folder", tmp_path), ("gone.txt", "nowhere")):
        (tmp_path / "pages" / name).symlink_to(target)
    opened = Documents(str(tmp_path / "pages")).load()
    assert [each.doc_id for each in opened.documents()] == ["a.txt:1", "b.txt:1"]
    assert opened.notes() == ["left out: 2 links without a target file in the folder, such as folder"]
    (tmp_path / "private.txt").write_text("A password.")
    (tmp_path / "pages" / "a-link.txt").symlink_to("../private.txt")
    opened = Documents(str(tmp_path / "pages")).load()
    assert [each.doc_id for each in opened.documents()] == ["a.txt:1", "b.txt:1"]
    assert opened.notes() == ["left out: 3 links without a target file in the folder, such as a-link.txt"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a <!-- b", "a <!-- b"),
        ("<p>a <b", "a <b"),
        ("<p>a<![if IE]>b<![endif]><p>c", "ab c"),
        ("<p>a <![no]> b", "a <![no]> b"),
        *((f"<p>a{mark * 50_000}", f"a{mark * 50_000}".strip()) for mark in ("<!--", "<b ", "<![if", "</")),
    ],
)
def test_marks_of_html_that_nothing_closes_are_text(tmp_path, page, text):
    (tmp_path / "a.html").write_text(page)
    passages = [each.text for each in Documents(str(tmp_path), words=100_000).load().documents()]
    assert " ".join(" ".join(passages).split()) == text


SITE = """# Birds { #birds }

/// note | Read this
Owls fly [at night](night.md){.external-link target=_blank}.
///

:::tip[Look] 
Herons wade. {: .wide }

{* ../src/owl.py hl[1] *}

!!! warning "Do not feed"
    Gulls **bite**.

```yaml
::: kept
{* kept *}
```

A set {#x} in a line, and `{ .code }`
"""


def test_marks_of_sites_are_no_text(tmp_path):
    (tmp_path / "a.md").write_text(SITE)
    (document,) = Documents(str(tmp_path)).load().documents()
    assert document.title == "Birds"
    assert document.text.split("\n\n") == [
        "Read this Owls fly at night.",
        "Look Herons wade.",
        "Do not feed Gulls bite.",
        "::: kept\n{* kept *}",
        "A set {#x} in a line, and { .code }",
    ]


def test_documents_and_groups_parse_a_file_once(folder, monkeypatch):
    """Files of rows are streamed, and read again."""
    names = []

    def counting(path):
        names.append(path.name)
        return document_files.read_file(path)

    monkeypatch.setattr("hardneg.datasets.documents.read_file", counting)
    collection = Documents(str(folder)).load()
    first, groups = list(collection.documents()), list(collection.groups("document"))
    again = ["rows.csv", "rows.jsonl"]
    assert sorted(names) == sorted(["a b.txt", "birds.md", "empty.txt", "fish.html", *again, *again])
    assert [each.member_id for each in groups] == [each.doc_id for each in first]
