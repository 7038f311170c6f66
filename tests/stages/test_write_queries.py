"""Stages `write-queries` and `round-trip`, and which of the queries of several writers stay."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import pytest
import yaml

from hardneg import registry
from hardneg.datasets.passage_writers import Heading
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import read_run
from hardneg.recipes import Options, Watcher, estimate, execute, load_recipe, make_plan
from hardneg.records import DataError, Document, RecipeError, Written
from hardneg.stages.write_queries import COPIES, JOINED, NAMING, Draft, SelectedQuery, mixed, select_queries
from hardneg.store import Store

WORDS = ["river", "harbor", "bridge", "tower", "garden", "market", "castle", "meadow", "valley", "forest", "island"]
WORDS += ["desert", "canyon", "glacier"]
STAGES = {
    "written": {"stage": "write-queries", "writers": ["heading", "inverse-cloze"], "dev_share": 0.2, "test_share": 0.2},
    "index": {"stage": "encode", "model": "start", "dataset": "written"},
    "run": {"stage": "search", "index": "index", "split": "train", "depth": 12, "dataset": "written"},
    "kept": {"stage": "round-trip", "run": "run", "depth": 5, "dataset": "written"},
    "mined": {"stage": "mine", "runs": {"dense": "kept"}, "miner": {"name": "topk", "depth": 5}, "dataset": "kept"},
}


def sentence(first, second, number):
    return f"Here the {WORDS[first % 14]} is beside the {WORDS[second % 14]} number {number}."


def write_files(folder):
    for file in range(12):
        sections = [
            f"## The {WORDS[file]} {WORDS[part]}\n\n{sentence(file, part, part)} {sentence(part, file + 1, file)}\n"
            for part in range(4)
        ]
        (folder / f"f{file}.md").write_text(f"# {WORDS[file]} {file}\n\n" + "\n".join(sections))


def recipe(folder, model, stages, **lengths):
    dataset = {"name": "documents", "source": str(folder), "min_words": 0}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({"dataset": dataset, "model": {"name": str(model), **lengths}, "stages": stages}))
    return make_plan(load_recipe(path))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("written")
    write_files(folder)
    plan = recipe(folder, tiny_model, STAGES)
    outcome = execute(plan, Store(folder / "store"), Options(device="cpu"), Watcher())
    return folder, {name: artifact for name, artifact in outcome.artifacts.items()}


def test_what_is_written_is_a_collection_with_splits_by_document(finished):
    artifacts = finished[1]
    source, written = (StoredCollection.open(artifacts[name].path) for name in ("dataset", "written"))
    assert (list(source.splits), list(written.splits)) == ([], ["train", "dev", "test"])
    assert list(written.corpus.doc_ids) == list(source.corpus.doc_ids)
    groups, by_split = source.groups("document"), {}
    before, after = ({each.doc_id: each for each in one.corpus.documents()} for one in (source, written))
    for split in written.splits:
        qrels = written.qrels(split)
        for query in written.queries(split):
            writer, doc_id = query.query_id.split(":", 1)[0], query.query_id.split(":", 1)[1].rpartition(":")[0]
            assert qrels[query.query_id] == {doc_id: 1}
            by_split.setdefault(groups[doc_id], set()).add(split)
            if writer == "heading":
                assert (query.text, after[doc_id].title) == (before[doc_id].title, "")
            else:
                assert query.text in before[doc_id].text
    assert all(len(splits) == 1 for splits in by_split.values()) and len(by_split) == 12
    facts = artifacts["written"].facts
    total = sum(counts["queries"] for counts in facts["splits"].values())
    assert facts["queries written by heading"] + facts["queries written by inverse-cloze"] == 48
    assert 40 < total == 48 - facts[COPIES]
    assert written.groups("query").keys() >= {query.query_id for query in written.queries("dev")}


def test_the_round_trip_keeps_queries_whose_passage_is_near_the_top(finished):
    artifacts = finished[1]
    written, kept = (StoredCollection.open(artifacts[name].path) for name in ("written", "kept"))
    run, qrels = read_run(artifacts["run"].path / "run.trec.gz"), written.qrels("train")
    staying = [query for query, ranked in run.items() if qrels[query].keys() & set(ranked.doc_ids[:5])]
    assert 0 < len(staying) < len(run)
    assert kept.queries("train").query_ids == staying
    assert kept.qrels("train") == {query: qrels[query] for query in staying}
    for split in ("dev", "test"):
        assert kept.qrels(split) == written.qrels(split)
    facts = artifacts["kept"].facts
    left = sum(count for name, count in facts.items() if name.startswith("queries dropped, by "))
    assert (facts["queries kept"], left) == (len(staying), len(run) - len(staying))
    assert (artifacts["kept"].path / "corpus.arrow").samefile(artifacts["written"].path / "corpus.arrow")


def test_stages_read_the_collection_that_they_name(finished):
    artifacts = finished[1]
    kept = StoredCollection.open(artifacts["kept"].path)
    rows = read_negatives(artifacts["mined"].path / "negatives.arrow")
    assert rows.query_ids == kept.queries("train").query_ids
    assert read_run(artifacts["kept"].path / "run.trec.gz").keys() == set(rows.query_ids)
    assert all(rows[row].positives == list(kept.qrels("train")[query]) for row, query in enumerate(rows.query_ids))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"mined": {"dataset": "run"}}, "stages.mined.dataset: 'run' is of type run, expected collection;"),
        ({"more": {"stage": "model", "model": "x/y", "dataset": "kept"}}, "dataset: this stage reads no dataset"),
        ({"kept": {"depth": 13}}, "stages.kept.depth: 'run' has only 12 documents per query"),
        ({"run": {"dataset": None}}, "stages.kept.dataset: 'run' has queries of another dataset"),
        ({"written": {"writers": ["crop", "crop"]}}, "writers: crop is listed twice"),
        ({"written": {"writers": []}}, "stages.written.writers: "),
        ({"written": {"dev_share": 0.9}}, "dev_share: dev_share + test_share must be below 1"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, tiny_model, changes, line):
    write_files(tmp_path)
    stages = {name: {**STAGES.get(name, {}), **changes.get(name, {})} for name in (*STAGES, *changes)}
    with pytest.raises(RecipeError) as caught:
        recipe(tmp_path, tiny_model, stages)
    assert line in str(caught.value)


def test_a_split_without_a_query_says_what_to_do(tmp_path, tiny_model):
    (tmp_path / "one.md").write_text("# Some words\n\nThe first sentence is here. The second sentence is there.\n")
    for split_by, words in (("group", "1 document.*; set `split_by"), ("passage", "1 passage.*; set the share")):
        stages = {"written": {"stage": "write-queries", "writers": "inverse-cloze", "split_by": split_by}}
        plan, store = recipe(tmp_path, tiny_model, stages), Store(tmp_path / "store")
        with pytest.raises(DataError, match=rf"written: only 1 query from {words}"):
            execute(plan, store, Options(device="cpu"), Watcher())


def test_a_writer_is_opened_once_and_tells_what_it_used(tmp_path, tiny_model, monkeypatch):
    (docs := tmp_path / "docs").mkdir()
    write_files(docs)
    opened = []

    class Counting(Heading):
        @contextmanager
        def writing(self, counts, device):
            opened.append(device)
            yield self
            counts["requests"] = 7

    load = registry.load_plugin
    monkeypatch.setattr(registry, "load_plugin", lambda *plugin: Counting if plugin[1] == "heading" else load(*plugin))
    written = {**STAGES["written"], "passages": 20, "per_passage": 3}
    plan, store = recipe(docs, tiny_model, {"written": written}, document_length=24), Store(tmp_path / "store")
    artifacts = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
    facts = artifacts["written"].facts
    assert facts["heading: requests"] == 7 and opened == ["cpu"]


def test_a_plan_counts_what_a_writer_writes(tmp_path, tiny_model):
    """Of 48 passages 30, two queries each: 20 % of the 60 are dev, 20 % test; what is made of them has as many."""
    write_files(tmp_path)
    written = {**STAGES["written"], "writers": "inverse-cloze", "passages": 30, "per_passage": 2}
    test = {**STAGES["run"], "split": "test", "dataset": "kept"}
    plan, store = recipe(tmp_path, tiny_model, {**STAGES, "written": written, "test": test}), Store(tmp_path / "store")
    rows = {row.step.name: row.items for row in estimate(plan, store, documents=48)}
    assert (rows["run"], rows["kept"], rows["mined"], rows["test"]) == (36, 36, 36, 12)
    most = recipe(tmp_path, tiny_model, {**STAGES, "written": {**written, "passages": 1000}})
    assert {row.step.name: row.items for row in estimate(most, store, documents=48)}["run"] == 96 - 2 * 19
    made = execute(plan, store, Options("written", device="cpu"), Watcher()).artifacts["written"]
    after = {row.step.name: row.items for row in estimate(plan, store)}
    assert after["run"] == made.facts["splits"]["train"]["queries"] != 36


def written_alone(folder, model, writers, **dataset):
    """The passages of a folder as they were cut, and the collection that is written of them, all in split train."""
    stage = {"stage": "write-queries", "writers": writers, "per_passage": 2, "dev_share": 0, "test_share": 0}
    tree = {"dataset": {"name": "documents", "source": str(folder), "min_words": 0, **dataset}}
    tree |= {"model": {"name": str(model)}, "stages": {"written": stage}}
    (folder / "small.yaml").write_text(yaml.safe_dump(tree))
    plan = make_plan(load_recipe(folder / "small.yaml"))
    made = execute(plan, Store(folder / "store"), Options(device="cpu"), Watcher()).artifacts
    return tuple(StoredCollection.open(made[name].path) for name in ("dataset", "written"))


@pytest.mark.parametrize("writer", ["inverse-cloze", "crop", "heading"])
def test_queries_of_a_copied_passage_are_written_once_and_relevant_to_all_copies(tmp_path, tiny_model, writer):
    write_files(tmp_path)
    for path in [*tmp_path.glob("*.md")][:5]:
        (tmp_path / f"{path.stem}-again.md").write_text(path.read_text())
    source, written = written_alone(tmp_path, tiny_model, [{"name": writer}])
    texts = {each.doc_id: (each.title, each.text) for each in source.corpus.documents()}
    now = {each.doc_id: (each.title, each.text) for each in written.corpus.documents()}
    copied = 0
    for query_id, relevant in written.qrels("train").items():
        own = query_id.partition(":")[2].rpartition(":")[0]
        alike = {doc_id for doc_id, text in texts.items() if text == texts[own]}
        assert alike <= relevant.keys() and {now[doc_id] for doc_id in alike} == {now[own]}
        assert own == min(alike, key=list(texts).index)
        copied += len(alike) > 1
    assert copied >= 5


@pytest.mark.parametrize("overlap", [12, 18])
def test_words_that_neighbours_share_ask_for_all_of_them(tmp_path, tiny_model, overlap):
    text = " ".join(f"Word {WORDS[each % 14]} {each} stands {WORDS[each // 14]} here." for each in range(40))
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(text)
    source, written = written_alone(tmp_path, tiny_model, ["inverse-cloze"], words=24, overlap=overlap)
    texts = {each.doc_id: each.text for each in source.corpus.documents()}
    queries = {query.query_id: query.text for query in written.queries("train")}
    shared = 0
    for query_id, relevant in written.qrels("train").items():
        assert relevant.keys() == {doc_id for doc_id, text in texts.items() if queries[query_id] in text}
        shared += len(relevant) > 1
    assert shared > 5


DOCUMENTS = [Document(f"d{number}", f"text {number}") for number in range(60)]


@dataclass(frozen=True)
class Echo:
    """Writes the ids of documents whose number is divided."""

    word: str
    divisor: int = 1
    version: ClassVar[int] = 1

    def write(self, documents, *, count, seed):
        for document in documents:
            fits = int(document.doc_id[1:]) % self.divisor == 0
            yield Written([f"{self.word} {number}" for number in range(count)] if fits else [], document)


def test_each_document_has_queries_of_one_writer_by_its_id_alone():
    writers = {"a": Echo("a"), "b": Echo("b")}
    results = list(mixed(writers, DOCUMENTS, 2, seed=1))
    assert [written.document for _, written in results] == DOCUMENTS
    assert all(written.queries == [f"{name} 0", f"{name} 1"] for name, written in results)
    counts = Counter(name for name, _ in results)
    assert 18 <= counts["a"] <= 42  # 30 and three standard deviations of 3.9
    turned = list(mixed(dict(reversed(writers.items())), DOCUMENTS[::-1], 2, seed=1))
    assert turned[::-1] == results
    assert list(mixed(writers, DOCUMENTS, 2, seed=2)) != results


def test_a_writer_that_can_write_nothing_leaves_its_turn():
    results = list(mixed({"a": Echo("a", 2), "b": Echo("b", 3)}, DOCUMENTS, 1, seed=1))
    for number, (name, written) in enumerate(results):
        fits = {each for each, divisor in (("a", 2), ("b", 3)) if number % divisor == 0}
        assert name in fits if fits else (name, written.queries) == ("", ())


def test_which_queries_stay():
    left_out = Counter()
    drafts = [
        Draft("q1", "What is in Passage 3?", "d1", "g1"),
        Draft("q2", "is it in guide/owls.md#3 or not", "guide/owls.md#3", "g1"),
        Draft("q3", "The passage of time", "d3", "g1"),
        Draft("q4", "time of the passage!", "d4", "g1"),
        Draft("q5", "the time, the passage of", "d3", "g1"),
        Draft("q6", "same words", "d5", "g1"),
        Draft("q7", "Words, same", "d6", "g2"),
        Draft("q8", "other words", "d6", "g2"),
    ]
    assert select_queries(drafts, [], left_out) == [
        SelectedQuery("q3", "The passage of time", ["d3", "d4"], "g1"),
        SelectedQuery("q8", "other words", ["d6"], "g2"),
    ]
    assert left_out == {NAMING: 2, JOINED: 2, COPIES: 2}


@pytest.mark.parametrize(
    ("doc_id", "text", "stays"),
    [
        ("e", "where owls live", True),
        ("19", "The lake of 1903", True),
        ("1903", "The lake of 1903", True),
        ("river", "a river", True),
        ("b2", "vitamin b2", True),
        ("ab123", "what is tagab123", True),
        ("ab123", "what is ab1234", True),
        ("ab123", "what is (ab123)?", False),
        ("MED-10", "what does MED-10 say", False),
    ],
)
def test_a_query_that_has_its_passages_id(doc_id, text, stays):
    left_out = Counter()
    assert bool(select_queries([Draft("q", text, doc_id, "g")], [], left_out)) == stays == (NAMING not in left_out)


def test_a_passage_that_keeps_the_title_is_relevant_too():
    left_out = Counter()
    drafts = [Draft("q1", "How owls hunt", "d1", "g1"), Draft("q2", "Where owls live", "d2", "g1")]
    titles = [Draft("", "How owls hunt", "d1", "g1"), Draft("", "how Owls hunt", "d3", "g1")]
    titles += [Draft("", "Where owls live", "d9", "g2"), Draft("", "Nobody asks", "d4", "g1")]
    assert select_queries(drafts, titles, left_out) == [SelectedQuery("q1", "How owls hunt", ["d1", "d3"], "g1")]
    assert left_out == {COPIES: 1}
