"""The orders of queries by hand, and by what is wrong with their options."""

import sys

import numpy as np
import pytest

from hardneg.records import MissingDependency, PluginError, RankedList, UsageError
from hardneg.runtime import generator
from hardneg.training.batch_orders import (
    Clustered,
    HardestTogether,
    Shuffled,
    TopicBalanced,
    TrainingQueries,
    in_batches,
    joined,
    k_means,
    members,
    nearest,
    path_through,
)


def queries(count, **more):
    return TrainingQueries([f"q{i}" for i in range(count)], {f"q{i}": [f"p{i}"] for i in range(count)}, **more)


def shares(order, size, groups):
    """The share of the most frequent group in each batch."""
    return [np.bincount(groups[batch]).max() / size for batch in order.reshape(-1, size)]


def test_shuffled_is_the_order_of_old() -> None:
    chosen = np.array([1, 4, 5, 8])
    found = Shuffled().order(np.zeros(9, np.int64), chosen, 2, epoch=3, seed=7)
    assert found.tolist() == chosen[generator(7, "order", 3).permutation(4)].tolist()


def test_the_last_batch_is_filled_with_those_before_it() -> None:
    assert in_batches(np.arange(6), 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert in_batches(np.arange(5), 3).tolist() == [[0, 1, 2], [2, 3, 4]]
    assert in_batches(np.arange(2), 3).tolist() == [[0, 1, 0]]
    assert in_batches(np.arange(0), 3).shape == (0, 3)


def test_members_of_groups() -> None:
    found = members(np.array([2, 0, 2, 5, 0]), np.array([0, 1, 2, 3]))
    assert [part.tolist() for part in found] == [[1], [0, 2], [3]]


def test_k_means_finds_what_lies_together_and_does_not_depend_on_the_day() -> None:
    vectors = np.float32([[0, 0], [0, 1], [9, 9], [9, 8], [0, 0.5]])
    cluster, centroids = k_means("test", vectors, 2, 3)
    assert cluster[0] == cluster[1] == cluster[4] != cluster[2] == cluster[3]
    np.testing.assert_allclose(sorted(centroids.tolist()), [[0, 0.5], [9, 8.5]], atol=1e-6)
    assert k_means("test", vectors, 2, 3)[0].tolist() == cluster.tolist()


def test_what_clusters_cannot_be_made_of(monkeypatch) -> None:
    with pytest.raises(UsageError, match=r"topic-balanced: cannot form 9 clusters from 5 queries; use 1 to 5"):
        TopicBalanced(clusters=9).groups(queries(5, vectors=np.eye(5, dtype=np.float32)), 2, seed=0)
    with pytest.raises(PluginError, match="clusters must be at least 1, not 0"):
        TopicBalanced(clusters=0)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependency, match=r"clustered needs faiss: pip install"):
        Clustered().groups(queries(4, vectors=np.eye(4, dtype=np.float32)), 2, seed=0)


def test_as_few_clusters_as_one_and_as_many_as_queries() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert k_means("test", vectors, 1, 0)[0].tolist() == [0, 0, 0]
    assert sorted(k_means("test", vectors, 3, 0)[0].tolist()) == [0, 1, 2]
    assert Clustered().groups(queries(3, vectors=vectors), 8, seed=0).tolist() == [0, 0, 0]


def test_small_clusters_are_joined_with_the_nearest() -> None:
    """Of 1, 2, 4 and 3 vectors, at 0, 1, 10 and 4: the first joins the second, both then the fourth."""
    cluster, centroids = np.repeat([0, 1, 2, 3], [1, 2, 4, 3]), np.float32([[0], [1], [10], [4]])
    assert joined(cluster, centroids, 1).tolist() == cluster.tolist()
    assert joined(cluster, centroids, 2).tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert joined(cluster, centroids, 4).tolist() == [1, 1, 1, 0, 0, 0, 0, 1, 1, 1]
    assert joined(cluster, centroids, 99).tolist() == [0] * 10
    weighted = joined(np.repeat([0, 1, 2], [1, 9, 5]), np.float32([[0], [10], [4.0]]), 6)
    assert weighted.tolist() == [1] * 1 + [0] * 9 + [1] * 5
    assert joined(np.array([0, 1, 1, 2, 2]), np.float32([[0], [-5], [1]]), 2).tolist() == [1, 0, 0, 1, 1]


def test_the_path_goes_to_the_nearest_that_is_left() -> None:
    """0, then 1 (at 1), then 3 (at 3), then 2 (at -4); from 10 first to 11, not to the long vector at 14."""
    assert path_through(np.float32([[0], [1], [-4], [3]])).tolist() == [0, 1, 3, 2]
    assert path_through(np.float32([[10], [14], [11]])).tolist() == [0, 2, 1]


def test_a_topic_balanced_batch_has_one_cluster_and_clusters_are_as_likely_whatever_their_size() -> None:
    groups = np.repeat([0, 1, 2], [40, 200, 760])
    found = np.concatenate([TopicBalanced().order(groups, np.arange(1000), 20, epoch=e, seed=2) for e in range(60)])
    assert shares(found, 20, groups) == [1.0] * 3000
    drawn = np.bincount(groups[found[::20]])
    assert ((drawn - 1000) ** 2 / 1000).sum() < 13.8  # chi-square of two degrees: p > .001
    assert all(len(set(batch.tolist())) == 20 for batch in found.reshape(-1, 20))


def test_too_few_chosen_queries_of_a_cluster_are_filled_up_by_another_one() -> None:
    groups = np.repeat([0, 1], [3, 30])
    found = TopicBalanced().order(groups, np.arange(33), 8, epoch=0, seed=0).reshape(-1, 8)
    assert found.shape == (5, 8)
    of_small = [batch for batch in found if groups[batch[0]] == 0]
    assert of_small and all(sorted(batch[:3].tolist()) == [0, 1, 2] for batch in of_small)


def test_clusters_that_fill_batches_have_them_alone_and_what_remains_stays_near() -> None:
    """Clusters of 9, 3 and 8 along the way, batches of 4: four are pure, and the last has 1 + 3."""
    groups = np.repeat([0, 1, 2], [9, 3, 8])
    found = Clustered().order(groups, np.arange(20), 4, epoch=1, seed=0)
    assert sorted(found.tolist()) == list(range(20))
    batches = sorted(sorted(groups[batch].tolist()) for batch in found.reshape(-1, 4))
    assert batches == [[0] * 4, [0] * 4, [0, 1, 1, 1], [2] * 4, [2] * 4]


def test_what_is_left_of_all_clusters_is_filled_from_the_nearest() -> None:
    groups = np.repeat([0, 1, 2], [4, 4, 5])
    found = Clustered().order(groups, np.arange(13), 4, epoch=0, seed=0).reshape(-1, 4)
    assert [sorted(groups[batch].tolist()) for batch in found if (groups[batch] == 2).any()] == [[2] * 4] * 2
    assert len(np.unique(found)) == 13


def test_neighbours_are_those_whose_positives_are_ranked_high_either_way() -> None:
    """q0's list has p1 (rank 0) and p2 (2), q2's has p0 (0): q2 is as near to q0 as q1; ties go by place."""
    lists = (["p1", "x", "p2", "p0"], ["x", "y"], ["p0"], [])
    run = [RankedList(ids, np.zeros(len(ids), np.float32)) for ids in lists]
    plugin = HardestTogether(neighbours=2)
    assert plugin.groups(queries(4, run=run), 2, seed=0).tolist() == [[1, 2], [0, -1], [0, -1], [-1, -1]]
    shallow = HardestTogether(depth=2, neighbours=1).groups(queries(4, run=run), 2, seed=0)
    assert shallow.tolist() == [[1], [0], [0], [-1]]


def test_a_document_that_is_a_positive_of_both_makes_no_neighbours() -> None:
    shared = TrainingQueries(["a", "b"], {"a": ["d"], "b": ["d"]}, run=[RankedList(["d"], np.zeros(1, np.float32))] * 2)
    assert HardestTogether(neighbours=1).groups(shared, 2, seed=0).tolist() == [[-1], [-1]]


def test_neighbours_share_batches() -> None:
    """Pairs 0-1, 2-3, ... in batches of two; and one circle in batches of four."""
    pairs = nearest(np.array([[2 * i, 2 * i + 1, 0] for i in range(10)]), 20, 3)
    found = HardestTogether().order(pairs, np.arange(20), 2, epoch=5, seed=1).reshape(-1, 2)
    assert all(batch.min() % 2 == 0 and batch.max() == batch.min() + 1 for batch in found)
    circle = nearest(np.array([[i, (i + 1) % 12, 0] for i in range(12)]), 12, 2)
    found = HardestTogether().order(circle, np.arange(12), 4, epoch=0, seed=1).reshape(-1, 4)
    assert sorted(found.reshape(-1).tolist()) == list(range(12))
    assert sorted(sorted(batch.tolist()) for batch in found) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_wrong_numbers_are_told_together() -> None:
    with pytest.raises(PluginError, match="hardest-together: depth and neighbours must be at least 1"):
        HardestTogether(0, 0)


ALL, SIZE, TOPICS = np.arange(90), 8, 5
ORDERS = [Shuffled(), TopicBalanced(clusters=5), TopicBalanced(), Clustered(), HardestTogether()]


def drawn():
    """Ninety queries of five topics: ids, positives, vectors, and lists with some of the others' positives."""
    topic, source = ALL % TOPICS, generator(5, "queries")
    centres = 4 * source.standard_normal((TOPICS, 8))
    ids = [f"topic{topic[number]}/{number}" for number in ALL]
    others = [source.choice(np.flatnonzero(topic == topic[number]), 12, False) for number in ALL]
    return TrainingQueries(
        ids,
        {query_id: [f"d{number}"] for number, query_id in enumerate(ids)},
        (centres[topic] + source.standard_normal((len(ALL), 8))).astype(np.float32),
        [RankedList([f"d{other}" for other in some], -np.arange(12, dtype=np.float32)) for some in others],
    )


@pytest.mark.parametrize("plugin", ORDERS, ids=lambda plugin: type(plugin).__name__)
def test_every_order(plugin):
    """Chosen queries alone, each of them unless they are drawn; epochs of one length, by the arguments alone."""
    groups = plugin.groups(drawn(), SIZE, seed=1)
    assert groups.dtype == np.int64 and len(groups) == len(ALL)

    def order(chosen, epoch=0, seed=1):
        return plugin.order(groups, chosen, SIZE, epoch=epoch, seed=seed)

    for chosen in (ALL, ALL[3::2], ALL[1:12], ALL[:1], ALL[: SIZE - 1]):
        rows, times = np.unique(order(chosen), return_counts=True)
        assert not len(np.setdiff1d(rows, chosen)) and len({len(order(chosen, epoch)) for epoch in range(4)}) == 1
        if not isinstance(plugin, TopicBalanced):
            assert rows.tolist() == chosen.tolist() and times.sum() < len(chosen) + SIZE * TOPICS
    orders = [order(ALL, *which).tolist() for which in ((0, 1), (0, 1), (1, 1), (0, 2))]
    assert orders[0] == orders[1] and orders[0] != orders[2] and orders[0] != orders[3]
