"""Private content that is cut off or stops a push."""

import json
from pathlib import Path
from typing import Any

import pytest
from finished import spoil
from hardneg_hub.prepare import prepare
from hardneg_hub.private_paths import dataset_name, without_paths
from hardneg_hub.upload import Upload

from hardneg.records import ArtifactError, DataError, HardnegError, ModelError
from hardneg.store import Store


def prepared(folder: Path, store: Store, **wanted: Any) -> Upload:
    return prepare(folder, "org/tiny", store, folder, **wanted)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mine, of {home}/models", "config.json: contains {home}, which is private"),
        ("mine, of {store}/0123", "config.json: contains {store}, which is private"),
        ("/srv/models/bert", "config.json: contains /srv/models/bert, which is private"),
        ("hf_abcdefghijklmnop", "config.json: contains what looks like a token, which is private"),
    ],
)
def test_what_is_private_in_a_models_files_stops_the_push(run, store, tmp_path, text, told):
    folder, places = (run / "model").rename(tmp_path / "alone"), {"home": Path.home(), "store": store.root}
    spoil(folder / "config.json", text.format(**places))
    with pytest.raises(DataError) as error:
        prepared(folder, store)
    assert told.format(**places) in str(error.value)


def test_a_file_that_has_changed_since_is_refused(run, store):
    spoil(run / "model" / "config.json", "mine")
    with pytest.raises(ArtifactError, match=r"config\.json: has changed since it was written"):
        prepared(run, store)


def test_a_file_that_is_gone_is_refused(run, store):
    (run / "model" / "modules.json").unlink()
    with pytest.raises(ArtifactError, match=r"modules\.json: is missing"):
        prepared(run, store)


def test_strangers_stay_and_are_named(run, store):
    (run / "model" / ".env").write_text("SECRET=1")
    (run / "model" / "checkpoint-5").mkdir()
    (run / "model" / "checkpoint-5" / "optimizer.pt").write_bytes(b"pickle")
    (run / "model" / "notes.txt").write_text("to do")
    upload = prepared(run, store)
    assert upload.notes[0] == "not uploaded: .env, checkpoint-5/optimizer.pt, notes.txt"
    assert not {".env", "notes.txt"} & set(upload.files)


def test_a_folder_without_a_manifest_gives_its_modules_alone(run, tmp_path):
    folder = (run / "model").rename(tmp_path / "alone")
    (folder / "training_args.bin").write_bytes(b"pickle")
    (folder / "secrets.yaml").write_text("token: x")
    upload = prepared(folder, Store(tmp_path / "none"))
    places = set(upload.files)
    assert {"1_Pooling/config.json", "model.safetensors", "README.md"} < places
    assert not {"training_args.bin", "secrets.yaml", "recipe.lock.yaml"} & places
    assert "training_args.bin" in upload.notes[0] and 'SentenceTransformer("org/tiny")' in upload.card


def test_weights_in_a_pickle_are_refused(run, tmp_path):
    folder = (run / "model").rename(tmp_path / "alone")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin: is a pickle, which may contain code"):
        prepared(folder, Store(tmp_path / "none"))


def test_a_link_out_of_the_folder_is_refused(run, tmp_path):
    folder = (run / "model").rename(tmp_path / "alone")
    (tmp_path / "elsewhere.json").write_text(json.dumps({"a": 1}))
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DataError, match="a broken link, or one that leaves"):
        prepared(folder, Store(tmp_path / "none"))


def test_a_folder_of_nothing_is_told_what_could_be_there(tmp_path):
    with pytest.raises(HardnegError, match="contains no run, model, index or negatives"):
        prepared(tmp_path, Store(tmp_path / "none"))


def test_an_own_card_is_kept_and_gets_what_the_run_tells(run, store):
    (run / "model" / "README.md").write_text("---\nlicense: mit\n---\n\n# Ours\n\nRead this.\n")
    card = prepared(run, store).card
    assert "license: mit" in card and "# Ours\n\nRead this." in card and "model-index:" in card
    rows = [line.split(" | ")[0] for line in card.partition("## Scores")[2].splitlines() if line.startswith("| ")]
    assert rows[1:] == ["| ---", "| STAR", "| start"] and "This model is STAR" in card
    assert card.count("value:") == 1  # the metadata has the model alone
    assert "Negatives `static`: mined by `TopK(depth=10, exclude_copies=True)` from `start-train`" in card


def test_metadata_that_is_none_is_told(run, store):
    (run / "model" / "README.md").write_text("---\na: [\n---\n# Ours\n")
    with pytest.raises(DataError, match="invalid card metadata"):
        prepared(run, store)


def test_a_folder_given_from_where_one_is_tells_no_more(run, store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert prepared(Path("run"), store) == prepared(run, store)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/anna/models/mine", "mine"),
        ("../runs/star", "star"),
        ("C:\\Users\\anna\\mine", "mine"),
        ("\\\\server\\share\\mine", "mine"),
        ("beir:/srv/data/nq", "beir:nq"),
        ("org/name", "org/name"),
        ("trained on /home/anna/nq, twice", "trained on nq, twice"),
        ("from ./nq/", "from nq"),
        ("from anna@gpu01:/data to anna@gpu01.inside:nq/v2", "from data to v2"),
        ("anna@10.0.0.5:~/nq", "nq"),
        ("mrr@10: BM25 / STAR, ndcg@10:a/b", "mrr@10: BM25 / STAR, ndcg@10:a/b"),
        ("s3://bucket/team/vectors?sig=1", "s3://.../vectors"),
        ("http://anna:secret@10.0.0.5:8080", "http://..."),
        ("https://host.inside/v1/embed#x", "https://.../embed"),
        ("TopK(depth=10)", "TopK(depth=10)"),
        ("/", "/"),
    ],
)
def test_places_are_cut_to_their_last_part(text, shown):
    assert without_paths({"a": [text, 3, None]}) == {"a": [shown, 3, None]}


def test_the_name_of_the_users_own_folder_is_no_last_part(monkeypatch):
    monkeypatch.setenv("HOME", "/home/anna")
    assert without_paths(["/home/anna", "~anna", "model of /home/anna"]) == ["folder", "folder", "model of folder"]


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("beir:data/scifact", "beir:scifact"),
        ("hf:mteb/scifact", "hf:mteb/scifact"),
        ("ir-datasets:beir/scifact/test", "ir-datasets:beir/scifact/test"),
        ("hf:/home/anna/tables", "hf:tables"),
        ("pydocs", "pydocs"),
        ({"name": "beir", "source": "~/nq", "withheld": 3}, {"name": "beir", "source": "nq", "withheld": 3}),
    ],
)
def test_datasets_on_the_hub_keep_their_names(setting, shown):
    assert dataset_name(setting) == shown


def test_a_local_table_of_the_hubs_form_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "team" / "secret").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert dataset_name("hf:team/secret") == "hf:secret"
