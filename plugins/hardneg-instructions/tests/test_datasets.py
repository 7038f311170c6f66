"""The loaders against the kit of datasets, and what they read of the published columns."""

import json
from pathlib import Path

import pytest
from hardneg_instructions.bright import Bright
from hardneg_instructions.followir import FollowIR
from hardneg_instructions.promptriever import Promptriever
from published import bright, followir, followir_of_mteb, json_lines, parquet, promptriever_rows

from hardneg.plugin import Document, Judgement, Query, errors, qrels_files
from hardneg.testing import DatasetTests

INSTRUCTION = "A relevant document names Norway."


class TestPromptriever(DatasetTests):
    def make(self, folder: Path) -> Promptriever:
        return Promptriever(str(folder))

    def write(self, folder: Path) -> None:
        json_lines(folder / "train.jsonl", promptriever_rows())

    def change(self, folder: Path) -> None:
        json_lines(folder / "train.jsonl", promptriever_rows()[1:])


class TestFollowIR(DatasetTests):
    def make(self, folder: Path) -> FollowIR:
        return FollowIR(str(folder))

    def write(self, folder: Path) -> None:
        followir(folder)

    def change(self, folder: Path) -> None:
        (folder / "corpus.jsonl").write_text((folder / "corpus.jsonl").read_text().replace("river", "stream"))


class TestFollowIROfMteb(DatasetTests):
    def make(self, folder: Path) -> FollowIR:
        return FollowIR(str(folder / "mteb"))

    def write(self, folder: Path) -> None:
        followir_of_mteb(folder)


class TestBright(DatasetTests):
    def make(self, folder: Path) -> Bright:
        return Bright(str(folder), "biology")

    def write(self, folder: Path) -> None:
        bright(folder)


def test_an_instruction_stands_after_its_query_and_rules_passages_out(tmp_path: Path) -> None:
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", promptriever_rows())
    collection = Promptriever(str(tmp_path)).load()
    assert collection.splits() == ["train"]
    queries = list(collection.queries("train"))
    assert queries[:2] == [Query("0", "which river"), Query("0-instruct", f"which river {INSTRUCTION}")]
    documents = {document.doc_id: document for document in collection.documents()}
    written = [doc_id for doc_id in documents if doc_id.startswith("g.")]
    assert len(documents) == 20 * 3 + 20 and len(written) == 20
    assert documents["0N"] == Document("0N", "the river in Norway was seen again")
    judged = [item for item in collection.qrels("train") if item.query_id in ("0", "0-instruct")]
    assert judged == [
        Judgement("0", "0N", 1),
        Judgement("0", "0C", 1),
        Judgement("0-instruct", "0N", 1),
        Judgement("0-instruct", "0C", 0),
        Judgement("0-instruct", written[0], 0),
    ]
    assert collection.notes() == ["negative_passages were mined and count as unjudged documents"]


def test_a_template_leaves_instructions_out_and_says_so(tmp_path: Path) -> None:
    json_lines(tmp_path / "train.jsonl", promptriever_rows())
    collection = Promptriever(str(tmp_path / "train.jsonl"), template="{query}").load()
    assert {query.text for query in collection.queries("train")} == {row["only_query"] for row in promptriever_rows()}
    assert collection.notes()[1:] == ["20 instructions omitted by the template '{query}'"]
    other = Promptriever(str(tmp_path), template="{instruction} | {query}").load()
    assert list(other.queries("train"))[1].text == f"{INSTRUCTION} | which river"
    with pytest.raises(
        errors.PluginError, match=r"template: must contain {query}, and may contain {instruction}, not 'x{text}'"
    ):
        Promptriever("", template="x{text}")


def test_a_query_is_in_one_split_with_and_without_its_instruction(tmp_path: Path) -> None:
    json_lines(tmp_path / "train.jsonl", promptriever_rows())
    collection = Promptriever(str(tmp_path), dev=0.3, test=0.3).load()
    splits = {split: {query.query_id for query in collection.queries(split)} for split in collection.splits()}
    assert [*splits] == ["train", "dev", "test"] and sum(map(len, splits.values())) == 40 and all(splits.values())
    assert all({f"{i}-instruct" for i in ids if "-" not in i} <= ids for ids in splits.values())
    with pytest.raises(errors.DataError, match="option dev needs split train and no split dev"):
        json_lines(tmp_path / "dev.jsonl", promptriever_rows())
        Promptriever(str(tmp_path), dev=0.3).load()


def test_one_id_of_two_passages_is_refused(tmp_path: Path) -> None:
    rows = promptriever_rows()
    rows[3]["positive_passages"][0]["text"] = "another text"
    json_lines(tmp_path / "train.jsonl", rows)
    with pytest.raises(
        errors.DataError, match=r"train.jsonl:4: positive_passages: document '1N' differs from an earlier row"
    ):
        list(Promptriever(str(tmp_path)).load().documents())


def test_both_forms_of_followir_are_one_collection(tmp_path: Path) -> None:
    forms = [FollowIR(str(followir(tmp_path / "a"))).load(), FollowIR(str(followir_of_mteb(tmp_path / "b"))).load()]
    for collection in forms:
        assert collection.splits() == ["test", "original", "changed"]
        assert sum(1 for _ in collection.documents()) == 6
        queries = {
            split: {query.query_id: query.text for query in collection.queries(split)} for split in collection.splits()
        }
        assert queries["original"] == {"310-og": "which river Any river.", "311-og": "which violin Any."}
        assert queries["changed"]["310-changed"] == "which river Only of Norway."
        assert queries["test"] == queries["original"] | queries["changed"]
        relevant = {item[:2] for item in collection.qrels("test") if item.relevance}
        assert relevant == {
            ("310-og", "d0"), ("310-og", "d1"), ("311-og", "d2"), ("311-og", "d3"), ("310-changed", "d0"),
            ("311-changed", "d2"),
        }  # fmt: skip
        assert {item.query_id for item in collection.qrels("changed")} == {"310-changed", "311-changed"}


def test_mistakes_name_file_and_line(tmp_path: Path) -> None:
    followir(tmp_path)
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "310", "text": "which river"}) + "\n")
    with pytest.raises(errors.DataError, match=r"queries.jsonl:1: column 'instruction_og' must contain text"):
        list(FollowIR(str(tmp_path)).load().queries("original"))
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "x"}\n{"_id"')
    with pytest.raises(errors.DataError, match=r"corpus.jsonl:2: cannot be read \("):
        list(FollowIR(str(tmp_path)).load().documents())
    (tmp_path / "qrels_og" / "test.jsonl").write_text('{"query-id": "310", "corpus-id": "d1", "score": 0.5}\n')
    with pytest.raises(errors.DataError, match=r"test.jsonl:1: column 'score' must contain a whole number, not 0.5"):
        list(FollowIR(str(tmp_path)).load().qrels("original"))
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(errors.DataError, match=r"missing table corpus \(Parquet or JSON Lines\)"):
        FollowIR(str(tmp_path)).load()


def test_bright_excludes_documents_of_a_query(tmp_path: Path) -> None:
    collection = Bright(str(bright(tmp_path)), "biology").load()
    assert isinstance(collection, qrels_files.HasExcluded)
    assert list(collection.excluded()) == [
        qrels_files.Exclusion("1", "moss.txt"),
        qrels_files.Exclusion("1", "old%20oak.txt"),
    ]
    assert [document.doc_id for document in collection.documents()] == ["moss.txt", "fern.txt", "old%20oak.txt"]
    assert list(collection.qrels("test")) == [Judgement("0", "moss.txt", 1), Judgement("1", "fern.txt", 1)]
    with pytest.raises(errors.DataError, match="no domain 'physics'; available: biology, pony"):
        Bright(str(tmp_path), "physics").load()
