"""PDF files in a folder of documents."""

import pytest
from document_folder import documents, documents_in

from hardneg.datasets.document_files import read_file
from hardneg.datasets.documents import Documents
from hardneg.records import DataError, MissingDependency


@pytest.fixture
def folder(tmp_path):
    return documents_in(tmp_path)


def test_pdf_pages_are_read_with_pypdf(tmp_path):
    writer = pytest.importorskip("pypdf").PdfWriter()
    writer.add_blank_page(width=72, height=72)
    writer.write(tmp_path / "scan.pdf")
    (tmp_path / "cut.pdf").write_bytes(b"%PDF-1.7 cut off")
    for name, reason in (("scan.pdf", "contains no text, possibly"), ("cut.pdf", "not a readable PDF")):
        [(_, error)] = read_file(tmp_path / name)
        assert isinstance(error, DataError) and reason in str(error)


def test_without_pypdf_pdf_files_are_counted_or_refused(folder, monkeypatch):
    (folder / "a.pdf").write_bytes(b"%PDF")
    monkeypatch.setattr("hardneg.datasets.documents.find_spec", lambda name: None)
    notes = Documents(str(folder)).load().notes()
    assert 'reading PDF files requires pypdf: pip install "hardneg[pdf]"' in notes
    with pytest.raises(MissingDependency, match="pip install"):
        documents(folder, forms=("pdf",))


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
    assert isinstance(result, DataError) and "not a readable PDF" in str(result)
