"""`hardneg.start`: what a folder holds, in each form, and the recipe that it gets."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from recipes.recipes import NEEDS_DATASETS
from tiny import tiny_encoder, tiny_static
from typer.testing import CliRunner

import hardneg
from hardneg.cli.main import app
from hardneg.functions.starting import Beginning, FolderContents
from hardneg.recipes import load_recipe
from hardneg.records import DataError, HardnegError, UsageError

CORPUS = "".join(json.dumps({"_id": f"d{n}", "title": "", "text": f"text {n} of rivers"}) + "\n" for n in range(4))
QUERIES = '{"_id": "q1", "text": "how long"}\n{"_id": "q2", "text": "how wide"}\n'
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES}
TREC = "<top><num>7</num><title>where</title></top>\n"
TSV = {"collection.tsv": "0\tfirst\n1\tsecond\n"}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode())) if name.endswith(".gz") else path.write_text(text)
    return folder


def qrels(*splits: str) -> dict[str, str]:
    return {f"qrels/{split}.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n" for split in splits}


@pytest.mark.parametrize(
    ("files", "form", "judged", "own"),
    [
        ({"a.md": "# A\n\nWords.", "b.txt": "More."}, "documents", {}, None),
        ({"a.md": "# A\n\nWords.", "queries.tsv": "1\twhat\n2\twho\n"}, "documents", {}, ("queries.tsv", 2)),
        ({"a.md": "# A\n\nWords.", "queries.jsonl": QUERIES}, "documents", {}, ("queries.jsonl", 2)),
        ({"a.md": "# A\n\nWords.", "topics.new.txt": "7\twhere\n"}, "documents", {}, ("topics.new.txt", 1)),
        ({"corpus.jsonl.gz": CORPUS}, "beir", {}, None),
        (BEIR, "beir", {}, ("queries.jsonl", 2)),
        ({**BEIR, **qrels("train", "dev", "test")}, "beir", {"train": 1, "dev": 1, "test": 1}, None),
        pytest.param(TSV, "msmarco", {}, None, marks=NEEDS_DATASETS),
        pytest.param(
            {
                "corpus/a.jsonl": '{"id": "x", "contents": "y"}\n',
                "topics.test.txt": TREC,
                "qrels.test.txt": "7 0 x 1\n",
            },
            "pyserini",
            {"test": 1},
            None,
            marks=NEEDS_DATASETS,
        ),
    ],
)
def test_what_a_folder_holds(tmp_path, files, form, judged, own):
    seen = FolderContents.of(written(tmp_path, files))
    assert (seen.dataset["name"], dict(seen.judged)) == (form, judged)
    assert own == (None if seen.queries is None else (seen.queries.name, len(seen.own_queries)))
    options = {name: value for name, value in seen.dataset.items() if name not in ("name", "source")}
    unjudged = (
        {"without": [own[0]]} if own and form == "documents" else {} if form == "documents" else {"judged": False}
    )
    assert options == ({} if judged else unjudged)


def test_queries_are_no_documents(tmp_path):
    seen = FolderContents.of(written(tmp_path, {"a.md": "Words.", "queries.jsonl": QUERIES, "topics.x.txt": TREC}))
    assert seen.own_queries == ["how long", "how wide"]
    assert seen.dataset["without"] == ["queries.jsonl", "topics.x.txt"]
    assert "topics.x.txt: not read; queries are from queries.jsonl" in seen.left_out


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"picture.png": "x"}, r"no files to read; .*, only 1 \.png file"),
        ({"corpus.jsonl": CORPUS, **qrels("test")}, r"no queries\.jsonl or"),
        ({**BEIR, **qrels("train")}, r"a relevant document \(such queries: train 1\)"),
        ({"a.md": "Words.", "queries.tsv": "no tab\n"}, r"queries\.tsv:1: expected 2 columns"),
        ({"a.md": "Words.", "qrels.test.txt": "7 0 x 1\n"}, "no split has both topics and qrels"),
        ({"a.md": "Words.", "queries.tsv": ""}, r"queries\.tsv: contains no queries"),
        ({"a.md": "", "b.txt": " \n"}, "no text in 2 files; add documents"),
        ({**BEIR, "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\tdx\t1\n"}, r"test 0\).*1 query skipped, because"),
        ({**BEIR, "queries.jsonl": '{"_id": "q9", "text": "who"}\n', **qrels("train", "test")}, r"test 0\)"),
    ],
)
def test_a_folder_that_cannot_be_used_gets_one_line(tmp_path, files, message):
    with pytest.raises(DataError, match=message) as caught:
        Beginning.of(written(tmp_path, files))
    assert "\n" not in str(caught.value)


def test_judgements_of_queries_that_are_not_there_are_not_counted(tmp_path):
    more = {name: f"{text}q7\td1\t1\nq1\tdx\t1\n" for name, text in qrels("train", "test").items()}
    seen = FolderContents.of(written(tmp_path, {**BEIR, **more}))
    assert dict(seen.judged) == {"train": 1, "test": 1}
    assert f"1 query skipped, because the query or its documents are missing from {tmp_path}'" in str(seen.left_out)
    assert "test: 1 judgement of documents not in the corpus, used in evaluation only" in seen.left_out


def test_judgements_and_other_tables_beside_files_are_not_documents(tmp_path):
    files = {"a.md": "Words.", "queries.csv": "id,text\n1,what\n", "qrels.txt": "1 0 a.md:1 1\n"}
    files |= qrels("test")
    seen = FolderContents.of(written(tmp_path, files))
    assert seen.documents == 1 and seen.dataset["without"] == ["queries.csv", "qrels.txt"]
    assert [line.split(":")[0] for line in seen.left_out if "BEIR" in line] == ["queries.csv", "qrels.txt", "qrels"]


def test_a_glob_says_which_documents_are_read(tmp_path):
    folder = written(tmp_path, {"a.md": "# A\n\nWords.", "b.txt": "More.", "queries.tsv": "1\twhat\n"})
    seen = FolderContents.of(folder, "*.md")
    assert seen.dataset == {"name": "documents", "source": str(folder), "without": ["queries.tsv"], "glob": "*.md"}
    with pytest.raises(UsageError, match=r"read as beir, which has fixed file names"):
        FolderContents.of(written(tmp_path / "judged", {**BEIR, **qrels("test")}), "*.md")


def loaded(beginning: Beginning, path: Path):
    path.write_text(beginning.recipe(path))
    assert "# " + next(beginning.sentences())[:20] in path.read_text()
    return load_recipe(path, None, ())


def test_few_documents_are_split_by_passage(tmp_path):
    pages = {f"{number}.md": f"# A\n\nWords {number}." for number in range(50)}
    many = Beginning.of(written(tmp_path / "many", pages))
    assert "split_by" not in many.tree["stages"]["written"]
    assert many.tree["stages"]["trained"]["options"]["max_steps"] == 200
    (tmp_path / "many" / "0.md").unlink()
    few = Beginning.of(written(tmp_path / "many", {}))
    assert loaded(few, tmp_path / "x.yaml").stages["written"].split_by == "passage"
    assert any("`split_by: passage`" in sentence for sentence in few.sentences())
    rows = Beginning.of(written(tmp_path / "rows", {"a.csv": "text\n" + "Words.\n" * 50}))
    assert "split_by" not in rows.tree["stages"]["written"] and rows.contents.documents == 50
    rows = Beginning.of(written(tmp_path / "rows", {"a.csv": "text\nWords.\nMore.\n"}))
    assert rows.tree["stages"]["written"]["split_by"] == "passage"
    assert "only 2 passages: a split may get no queries, and the run then fails; add documents" in rows.sentences()


def test_judgements_of_train_are_trained_with(tmp_path):
    whole = Beginning.of(written(tmp_path / "whole", {**BEIR, **qrels("train", "dev", "test")}))
    recipe = loaded(whole, tmp_path / "x.yaml")
    assert recipe.stages["star"].negatives == "static-negatives" and whole.measurable
    assert recipe.plugins["static-negatives", "miner"].depth == 10
    assert any("`hardneg recommend` tests others" in sentence for sentence in whole.sentences())
    dev = Beginning.of(written(tmp_path / "dev", {**BEIR, **qrels("train", "dev")}))
    stages = loaded(dev, tmp_path / "z.yaml").stages
    assert not dev.measurable and stages["start-test"].split == stages["scores"].split == "dev"


def test_without_pyserini_there_is_no_row_of_bm25(tmp_path, monkeypatch):
    monkeypatch.setattr("hardneg.recipes.lookahead.absent", lambda extra: "pyserini not installed")
    beginning = Beginning.of(written(tmp_path / "pages", {"a.md": "Words."}))
    assert "bm25" not in loaded(beginning, tmp_path / "x.yaml").stages
    assert "no BM25 baseline: pyserini not installed" in beginning.sentences()


def test_the_command_looks_and_writes_and_runs_nothing(tmp_path, monkeypatch):
    written(tmp_path / "pages", {"a.md": "# A\n\nWords of a page."})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    ended = CliRunner().invoke(app, ["start", "pages"])
    assert ended.exit_code == 0, ended.output
    assert "to run it: hardneg recipe run pages.yaml --output runs/pages" in " ".join(ended.output.split())
    assert "pages.yaml: written; " in ended.output and "to run, up to" in ended.output
    assert yaml.safe_load(Path("pages.yaml").read_text())["dataset"]["source"] == str(tmp_path / "pages")
    assert not (tmp_path / "runs").exists() and not [*(tmp_path / "store").glob("*/manifest.json")]
    Path("pages.yaml").write_text("mine: 1\n")
    assert "pages.yaml" in str(CliRunner().invoke(app, ["start", "pages"]).exception)
    assert Path("pages.yaml").read_text() == "mine: 1\n"
    with pytest.raises(HardnegError, match=r"pages\.yaml"):
        hardneg.start("pages")


def test_a_recipe_that_was_edited_is_kept_and_may_be_run_as_it_is(tmp_path, monkeypatch):
    written(tmp_path / "pages", {"a.md": "Words."})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    Path("pages.yaml").write_text("title: mine\n")
    refused = CliRunner().invoke(app, ["start", "pages", "--run"])
    assert "pages.yaml: already exists and was not written by `hardneg start`; " in str(refused.exception)
    assert CliRunner().invoke(app, ["start", "pages", "--overwrite"]).exit_code == 0
    edited = Path("pages.yaml").read_text() + "# edited\n"
    Path("pages.yaml").write_text(edited)
    refused = CliRunner().invoke(app, ["start", "pages", "--run"])
    assert isinstance(refused.exception, UsageError) and str(refused.exception) == (
        "pages.yaml: already exists and has changed since `hardneg start` wrote it; `hardneg recipe run pages.yaml` "
        "runs it unchanged; give another --output, or --overwrite to replace it"
    )
    with pytest.raises(UsageError, match="has changed since `start` wrote it; give another path, or overwrite=True"):
        hardneg.start("pages")
    assert Path("pages.yaml").read_text() == edited


def test_nothing_is_written_where_documents_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(written(tmp_path / "pages", {"a.md": "Words."}))
    with pytest.raises(UsageError, match="read as a document next time"):
        hardneg.start(".")
    assert not Path("pages.yaml").exists()


@pytest.mark.parametrize(
    ("similarity", "own", "read", "temperature"),
    [("cosine", 20, 20, 0.05), ("cosine", 9000, 512, 0.05), ("dot", 20, 20, 1.0)],
)
def test_a_model_of_ones_own_reads_what_it_can_and_trains_at_its_rate(tmp_path, similarity, own, read, temperature):
    model = tiny_encoder(tmp_path / "model")
    config = model / "config_sentence_transformers.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "similarity_fn_name": similarity}))
    if similarity == "dot":  # of vectors that have any length
        modules = json.loads((model / "modules.json").read_text())
        (model / "modules.json").write_text(json.dumps([each for each in modules if "Normalize" not in each["type"]]))
    length = model / "sentence_bert_config.json"
    length.write_text(json.dumps({**json.loads(length.read_text()), "max_seq_length": own}))
    beginning = Beginning.of(written(tmp_path / "pages", {"a.md": "Words."}), model=str(model))
    recipe = loaded(beginning, tmp_path / "x.yaml")
    trained = beginning.tree["stages"]["trained"]
    assert (trained["options"]["max_steps"], trained["loss"]["temperature"]) == (200, temperature)
    assert (recipe.model.document_length, recipe.stages["trained"].options.learning_rate) == (read, 2e-5)
    told = f"model {model}: reads the first {read} tokens of each document; BM25 reads all of it"
    assert told in beginning.sentences()


def test_a_table_reads_documents_to_their_end(tmp_path):
    table = str(tiny_static(tmp_path / "table"))
    beginning = Beginning.of(written(tmp_path / "pages", {"a.md": "Words."}), model=table)
    recipe = loaded(beginning, tmp_path / "x.yaml")
    assert recipe.model.document_length is None and recipe.stages["trained"].options.learning_rate == 0.01
    assert f"model {table}: static word vectors, which read whole documents, like BM25" in beginning.sentences()
