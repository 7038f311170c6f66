"""Readers made from encoders: what they read, how they are saved, which are refused."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hardneg_reader.answering import WINDOW, Answer, Question, ReadOptions, read
from hardneg_reader.read import exact_match, f1, normalised
from hardneg_reader.reader import Reader, best_spans
from hardneg_reader.train_reader import ReaderSpec

from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.records import Document, ModelError
from hardneg.runtime import Silent

TEXTS = ["the old river ran by", "a blue engine", "it was a quiet violin of no use to us", "", "so it went on and on"]
DOCUMENTS = [Document(f"d{i}", text, "of things" if i % 2 else "") for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def reader(tiny_model: Path) -> Reader:
    return Reader.load(ReaderSpec(str(tiny_model), length=40, answer_length=3), seed=1, device="cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(DOCUMENTS, folder, Silent())
    return Corpus.open(folder)


def outputs(reader: Reader, rows: list[int]) -> tuple[torch.Tensor, ...]:
    tokens = reader.tokenise(["what ran"] * len(rows), [DOCUMENTS[row] for row in rows])
    with torch.inference_mode():
        found: tuple[torch.Tensor, ...] = reader.module(tokens.tokens.batch(np.arange(len(rows))))
    return found


def test_a_passage_is_read_alike_in_any_batch(reader: Reader) -> None:
    starts, ends, selected = outputs(reader, [0, 1, 2])
    alone = outputs(reader, [1])
    width = alone[0].shape[1]
    assert starts[1, :width].tolist() == pytest.approx(alone[0][0].tolist(), abs=1e-5)
    assert ends[1, :width].tolist() == pytest.approx(alone[1][0].tolist(), abs=1e-5)
    assert selected[1].item() == pytest.approx(alone[2].item(), abs=1e-5)
    assert starts.exp().sum(1).tolist() == pytest.approx([1, 1, 1])


def test_a_saved_reader_reads_alike(reader: Reader, tmp_path: Path) -> None:
    from transformers import AutoModelForQuestionAnswering

    reader.save(tmp_path / "reader")
    opened = Reader.open(tmp_path / "reader", "cpu")
    assert (opened.spec.length, opened.spec.answer_length) == (40, 3)
    for one, other in zip(outputs(reader, [0, 2]), outputs(opened, [0, 2]), strict=True):
        assert torch.equal(one, other)
    body = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "reader", local_files_only=True)
    assert torch.equal(body.qa_outputs.weight, reader.module.body.qa_outputs.weight)


def test_fresh_heads_are_those_of_the_seed(tiny_model: Path, reader: Reader) -> None:
    spec = ReaderSpec(str(tiny_model), length=40)
    same, other = (Reader.load(spec, seed, "cpu").module.state_dict() for seed in (1, 2))
    own = reader.module.state_dict()
    assert all(torch.equal(own[name], same[name]) for name in own)
    assert {name for name in own if not torch.equal(own[name], other[name])} >= {"selection.weight"}


def test_the_answer_is_the_best_span_of_the_selected_passage(reader: Reader, corpus: Corpus) -> None:
    question = Question("q", "what ran", np.array([2, 3, 0, 1]))
    options = ReadOptions((1, 2, 4, 9), precision="fp32")
    [(same, answers)] = read(reader, corpus, [question], options)
    assert same is question and answers[1] == answers[2]  # the second passage has no text
    starts, ends, selected = outputs(reader, [2, 3, 0, 1])
    rank = max((0, 2, 3), key=lambda i: float(selected[i]))
    chosen = answers[4]
    assert chosen == answers[9] and chosen.doc_id == f"d{[2, 3, 0, 1][rank]}"
    assert chosen.selected == pytest.approx(float(selected[rank]), abs=1e-5)
    assert chosen.span == pytest.approx(float(best_spans(starts, ends, 3)[0][rank]), abs=1e-5)
    assert chosen.text and chosen.text == TEXTS[int(chosen.doc_id[1:])][chosen.begin : chosen.end]
    assert answers[1].doc_id == "d2"


def test_windows_and_batches_do_not_matter(reader: Reader, corpus: Corpus) -> None:
    draw = np.random.default_rng(0)
    asked = [Question(f"q{i}", "what ran", draw.permutation(5)[: i % 5]) for i in range(2 * WINDOW + 3)]

    def questions() -> Iterator[Question]:
        yield from asked

    small = list(read(reader, corpus, questions(), ReadOptions((3,), "fp32", tokens_per_batch=64)))
    assert [question.query_id for question, _ in small] == [question.query_id for question in asked]
    for question, found in small:
        alone = next(read(reader, corpus, [question], ReadOptions((3,), "fp32")))[1]
        assert found[3].text == alone[3].text and found[3].doc_id == alone[3].doc_id
    assert small[0][1][3] == Answer() and small[0][1][3].text == ""


def test_scores_that_are_not_finite_are_told(tiny_model: Path, corpus: Corpus) -> None:
    broken = Reader.load(ReaderSpec(str(tiny_model), length=40), 1, "cpu")
    broken.module.selection.weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="a score that is not finite"):
        list(read(broken, corpus, [Question("q", "what ran", np.array([0, 1]))], ReadOptions((2,))))


def test_what_cannot_be_read_with_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="reads at most 512 tokens, but length is 513"):
        Reader.load(ReaderSpec(str(tiny_model), length=513), 0, "cpu")
    with pytest.raises(ModelError, match="no reader\\.json in it"):
        Reader.open(tiny_model, "cpu")
    copied = shutil.copytree(tiny_model, tmp_path / "odd")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "model_type": "vit"}))
    with pytest.raises(ModelError, match="cannot be opened"):
        Reader.load(ReaderSpec(str(copied)), 0, "cpu")


@pytest.mark.parametrize(
    ("answer", "compared"),
    [
        ("The  Beatles!", "beatles"),
        ("an apple, a day", "apple day"),
        ("theatre", "theatre"),
        ("U.S.", "us"),
        ("twenty-one", "twentyone"),
        ("May 18, 2018", "may 18 2018"),
        ("x\u2013the\u2013y", "x\u2013 \u2013y"),  # a dash that is not ASCII stays, an article beside it does not
        ("Röntgen", "röntgen"),
        ("the", ""),
    ],
)
def test_what_is_compared(answer: str, compared: str) -> None:
    assert normalised(answer) == compared


def test_one_of_the_answers_is_enough() -> None:
    assert exact_match("the Cyrus", ["Darius", "cyrus."]) == 1.0
    assert exact_match("Cyrus II", ["Darius", "cyrus."]) == 0.0
    assert exact_match("Cyrus", []) == 0.0


def test_f1_by_hand() -> None:
    assert f1("the old river", ["old river"]) == 1.0
    assert f1("old blue river", ["old river"]) == pytest.approx(0.8)  # 2 of 3 and 2 of 2
    assert f1("old old river", ["old old old"]) == pytest.approx(2 / 3)  # words count as often as they stand there
    assert f1("old blue river", ["sea", "river", "blue river"]) == pytest.approx(0.8)
    assert f1("sea", ["river"]) == f1("sea", []) == f1("", ["sea"]) == 0.0
    assert f1("the", ["a"]) == 1.0
