"""The page as a function and as a command: what it may be given, and what it says where that is wrong."""

import http.client
import json
from pathlib import Path

import pytest
from hardneg_browse.browsed import opened
from hardneg_browse.sources import of_run_folder
from material import SmallCollection, small_sources
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.records import LOCK, DataError, UsageError
from hardneg.runtime import Silent
from hardneg.store import Store


@pytest.fixture(scope="module")
def beir(tmp_path_factory):
    """The small collection as a BEIR folder, and beside it its negatives and runs."""
    folder = tmp_path_factory.mktemp("called")
    small_sources(folder)
    made, data = SmallCollection(), folder / "data" / "qrels"
    data.mkdir(parents=True)
    rows = [{"_id": each.doc_id, "title": each.title, "text": each.text} for each in made.documents()]
    (data.parent / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": each.query_id, "text": each.text} for each in made.queries("train")]
    (data.parent / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (data / "train.tsv").write_text("".join(f"{each.query_id}\tp1\t1\n" for each in made.queries("train")))
    return folder


def get(address):
    connection = http.client.HTTPConnection(address.removeprefix("http://").partition("/")[0], timeout=60)
    connection.request("GET", "/?" + address.partition("?")[2])
    answer = connection.getresponse()
    cookie = answer.getheader("set-cookie").partition(";")[0]
    answer.read()
    connection.request("GET", "/", headers={"Cookie": cookie})
    return connection.getresponse().read().decode()


def test_a_function_serves_the_page_beside_a_program(beir, tmp_path):
    judge = [{"q/1?a=b&c": {"copy": 2.0, "p1": 1.0}}]
    files = {"dataset": beir / "data", "dropped": beir / "dropped.arrow"}
    own = {"marks": tmp_path / "marks.qrels", "store": tmp_path / "store"}
    found = hn.browse(beir / "mined.arrow", runs=[beir / "dense.trec", *judge], **files, **own)
    with found as page:
        assert "folic acid and kidneys" in get(page.address)
        assert page.marks == tmp_path / "marks.qrels"
    with pytest.raises(OSError):
        get(page.address)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.arrow"], "none.arrow: no such file"),
        (["{beir}"], "not the run folder of a finished recipe"),
        (["{beir}", "{beir}/dense.trec"], "give one folder, or files"),
        (["{beir}/dense.trec", "--dropped", "{beir}/dropped.arrow"], "--dropped: requires a file of negatives"),
        (["{beir}/mined.arrow", "--run", "{beir}/other.arrow"], "--run other: not a run"),
        (["{beir}/dense.trec", "--run", "{beir}/dense.trec"], "--run dense: not a run, or another run has this name"),
        (["{beir}/mined.arrow", "--dataset", "beir:{beir}/data", "--split", "x"], "--split x: no such split"),
    ],
)
def test_what_cannot_be_looked_at_is_one_line(beir, tmp_path, words, told):
    given = [word.replace("{beir}", str(beir)) for word in words]
    page = ["--export", str(tmp_path / "pages"), "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(app, ["browse", *given, *page])
    assert result.exit_code != 0 and told in str(result.exception) and "\n" not in str(result.exception)
    assert not (tmp_path / "pages").exists()


def test_a_command_exports_pages_and_replaces_only_its_own(beir, tmp_path):
    words = ["browse", str(beir / "mined.arrow"), "--run", str(beir / "dense.trec"), "--export"]
    result = CliRunner().invoke(app, [*words, str(tmp_path / "pages")])
    assert result.exit_code == 0 and "index.html: 4 queries" in result.output.replace("\n", "")
    assert CliRunner().invoke(app, [*words, str(tmp_path / "pages")]).exit_code == 0
    assert (tmp_path / "pages" / "index.html").is_file() and [path.name for path in tmp_path.iterdir()] == ["pages"]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "notes.txt").write_text("my own")
    result = CliRunner().invoke(app, [*words, str(tmp_path / "own")])
    assert isinstance(result.exception, UsageError) and (tmp_path / "own" / "notes.txt").read_text() == "my own"
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_a_finished_recipe_is_looked_at_through_the_store(beir, tmp_path, tiny_model, monkeypatch):
    """Two ways to mine, of one split, and runs of it; the run folder has their names, the store their files."""
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"dataset: beir:{beir / 'data'}\nmodel: {tiny_model}\nstages:\n"
        "  vectors: {stage: encode}\n"
        "  listed: {stage: search, index: vectors, split: train, depth: 5}\n"
        "  first: {stage: mine, runs: {dense: listed, scores: listed}, miner: {name: denoised, below: 9.0}}\n"
        "  second: {stage: mine, miner: {name: random, count: 3}, seed: 7}\n"
    )
    store, out = ["--store", str(tmp_path / "store")], tmp_path / "runs" / "r"
    result = CliRunner().invoke(app, ["recipe", "run", str(recipe), "--output", str(out), "--device", "cpu", *store])
    assert result.exit_code == 0 and (out / LOCK).is_file(), (result.output, result.exception)
    found = of_run_folder(out, Store(tmp_path / "store"))
    assert (list(found.negatives), list(found.dropped)) == (["first", "second"], ["first"])
    assert (list(found.runs), found.split) == (["listed"], "train")
    assert found.marks == tmp_path / "runs" / "r.marks.qrels" and found.dataset is not None
    monkeypatch.chdir(out)
    here = of_run_folder(Path(), Store(tmp_path / "store"))
    assert (here.title, here.marks) == ("r", found.marks)
    with pytest.raises(DataError, match="no split 'test' in this collection; available: train"):
        of_run_folder(out, Store(tmp_path / "store"), "test")
    result = CliRunner().invoke(app, ["browse", str(out), "--export", str(tmp_path / "pages"), *store])
    assert result.exit_code == 0 and "5 queries" in result.output


@pytest.mark.slow
def test_written_queries_are_looked_at_with_their_own_collection(beir, tmp_path, tiny_model):
    """Negatives of a written dataset: its queries and runs, and none of the recipe's own dataset."""
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"dataset: beir:{beir / 'data'}\nmodel: {tiny_model}\nstages:\n"
        "  written: {stage: write-queries, writers: [crop], dev_share: 0.0, test_share: 0.0, split_by: passage}\n"
        "  own-vectors: {stage: encode}\n"
        "  own-run: {stage: search, index: own-vectors, split: train, depth: 5}\n"
        "  vectors: {stage: encode, dataset: written}\n"
        "  listed: {stage: search, index: vectors, split: train, depth: 5, dataset: written}\n"
        "  kept: {stage: round-trip, run: listed, depth: 5, dataset: written}\n"
        "  again: {stage: search, index: vectors, split: train, depth: 5, dataset: kept}\n"
        "  mined: {stage: mine, runs: {dense: kept}, miner: topk, dataset: kept}\n"
    )
    store, out = ["--store", str(tmp_path / "store")], tmp_path / "out"
    result = CliRunner().invoke(app, ["recipe", "run", str(recipe), "--output", str(out), "--device", "cpu", *store])
    assert result.exit_code == 0, (result.output, result.exception)
    sources = of_run_folder(out, Store(tmp_path / "store"))
    assert (list(sources.negatives), sorted(sources.runs), sources.split) == (["mined"], ["again", "kept"], "train")
    with opened(sources, Silent()) as browsed:
        first = browsed.lists["mined"].query_ids[0]
        assert first.startswith("crop:") and browsed.text(first) and browsed.positives_of(first)
    page = tmp_path / "pages"
    assert CliRunner().invoke(app, ["browse", str(out), "--export", str(page), *store]).exit_code == 0
    assert "crop:" in (page / "index.html").read_text()
