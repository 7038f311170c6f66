"""Paths and addresses in what is handed on are cut to their last part."""

import pytest
from hardneg_hub.private_paths import dataset_name, without_paths


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/anna/models/mine", "mine"),
        ("~/models/mine/", "mine"),
        ("../runs/star", "star"),
        ("C:\\Users\\anna\\mine", "mine"),
        ("\\\\server\\share\\mine", "mine"),
        ("beir:/srv/data/nq", "beir:nq"),
        ("runs/star-demo/model", "model"),
        ("org/name", "org/name"),
        ("trained on /home/anna/nq, twice", "trained on nq, twice"),
        ("trained on ../anna/nq, twice", "trained on nq, twice"),
        ("from ./nq/", "from nq"),
        ("from anna@gpu01:/data to anna@gpu01.inside:nq/v2", "from data to v2"),
        ("anna@gpu01:/data", "data"),
        ("anna@10.0.0.5:~/nq", "nq"),
        ("mrr@10: BM25 / STAR, ndcg@10:a/b", "mrr@10: BM25 / STAR, ndcg@10:a/b"),
        ("s3://bucket/team/vectors?sig=1", "s3://.../vectors"),
        ("http://anna:secret@10.0.0.5:8080", "http://..."),
        ("https://host.inside/v1/embed#x", "https://.../embed"),
        ("hard/easy", "hard/easy"),
        ("R@100 / nDCG@10", "R@100 / nDCG@10"),
        ("TopK(depth=10)", "TopK(depth=10)"),
        ("/", "/"),
        ("..", ".."),
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
        ("msmarco:/srv/msmarco", "msmarco:msmarco"),
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
