"""What is wrong with the list of shards is told."""

import pytest
from indexes.shards.parts import COUNT
from shard_folders import in_shards

from hardneg.formats.vectors import FlatVectors, Shards
from hardneg.records import SHARDS, ArtifactError


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[:-9], "damaged"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "upgrade hardneg"),
        (lambda text: text.replace("shard-00001", "../elsewhere"), "is no folder's name"),
        (lambda text: text.replace("shard-00001", "s3://bucket/shard-00001"), "'s3://.*' is no folder's name"),
        (lambda text: text.replace('"rows": 150', '"rows": 151'), "150 vectors of dimension 8 instead of 151 of 8"),
    ],
)
def test_a_damaged_list_is_told(whole, tmp_path, change, told):
    shards = in_shards(whole["vectors"], tmp_path, [150])
    (shards / SHARDS).write_text(change((shards / SHARDS).read_text()))
    with pytest.raises(ArtifactError, match=told):
        FlatVectors.open(shards).read(0, COUNT)
    assert Shards.of(whole["vectors"]) is None
