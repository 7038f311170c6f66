"""Shards in an object store: a server on this machine that speaks S3."""

import pytest
from processes import free_port
from shard_folders import in_shards

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.remote import fetch_file, put_file, read_json
from hardneg.formats.vectors.shard_cache import ShardCache
from hardneg.indexes.open_store import open_store
from hardneg.records.errors import ArtifactError, MissingDependency, UsageError
from hardneg.testing.forms import FORMS, drawn_documents, drawn_queries, write_encoded


@pytest.fixture(scope="module")
def bucket():
    """The URL of an empty bucket."""
    import fsspec
    from moto.server import ThreadedMotoServer

    pytest.importorskip("s3fs")
    port = free_port()
    server, patch = ThreadedMotoServer("127.0.0.1", port), pytest.MonkeyPatch()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server.start()
    fsspec.filesystem("s3").mkdir("hardneg-tests")
    yield "s3://hardneg-tests"
    server.stop()
    patch.undo()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_shards_in_a_bucket_are_one_index(bucket, tmp_path, monkeypatch, form):
    cache = ShardCache(tmp_path / "cache", 1)
    cache.root.mkdir()
    monkeypatch.setattr(ShardCache, "own", lambda: cache)
    documents = drawn_documents(form, 200, 8, exact=False)
    queries = drawn_queries(form, documents, exact=False)
    whole = write_encoded(tmp_path / "whole", documents)
    expected = open_store(whole).search(queries, 15)
    for cuts in ([], [90], [20, 50, 51, 100, 130, 180]):
        shards = in_shards(whole, tmp_path / f"list{len(cuts)}", cuts, f"{bucket}/{form}-{len(cuts)}")
        found = open_store(shards).search(queries, 15)
        assert found.rows.tobytes() == expected.rows.tobytes()
        assert found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_in_a_bucket_is_told(bucket, tmp_path):
    assert read_json(f"{bucket}/nothing/shard.json") is None
    with pytest.raises(ArtifactError, match="nothing: is not there"):
        fetch_file(f"{bucket}/nothing", tmp_path / "x")
    (tmp_path / "y").write_text("y")
    with pytest.raises(ArtifactError, match="another-bucket-that-is-not/y: "):
        put_file(tmp_path / "y", "s3://another-bucket-that-is-not/y")


def test_a_url_that_cannot_be_used_is_told(tmp_path, monkeypatch):
    for url in ("ftp://host/x", "file::zip://x", "somewhere/x"):
        with pytest.raises(UsageError, match="no URL that can be used"):
            read_json(url)
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(MissingDependency, match=r"gs://x/y: .*pip install"):
        read_json("gs://x/y")


def test_a_file_is_seen_whole_or_not_at_all(tmp_path):
    whole = write_encoded(tmp_path / "whole", drawn_documents("vectors", 50, 4, exact=False))
    in_shards(whole, tmp_path / "list", [20], f"file://{tmp_path}/far")
    names = sorted(path.name for path in (tmp_path / "far/shard-00000").iterdir())
    assert names == ["docid", "index", "shard.json"]
    assert len(FlatVectors.open(tmp_path / "far/shard-00000")) == 20
