"""The contract of orders of queries, and the built-in ones against it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import OneSource, Shuffled, TrainingQueries
from hardneg.batches.clusters import Clustered, TopicBalanced
from hardneg.batches.hardest_together import HardestTogether
from hardneg.records.types import RankedList
from hardneg.runtime.seeding import generator
from hardneg.testing.plugin_contract import PluginTests, rule

NEEDS = ("vectors", "run")
_QUERIES, _SIZE, _TOPICS = 90, 8, 5


class BatchOrderTests(PluginTests):
    """Set `plugin`; override `queries` for one that needs ids or lists of its own."""

    def queries(self, folder: Path) -> TrainingQueries:
        """Ninety queries of five topics: ids, positives, vectors, and lists with some of the others' positives."""
        topic, source = np.arange(_QUERIES) % _TOPICS, generator(5, "queries")
        centres = 4 * source.standard_normal((_TOPICS, 8))
        ids = [f"topic{topic[number]}/{number}" for number in range(_QUERIES)]
        others = [source.choice(np.flatnonzero(topic == topic[number]), 12, False) for number in range(_QUERIES)]
        return TrainingQueries(
            ids,
            {query_id: [f"d{number}"] for number, query_id in enumerate(ids)},
            (centres[topic] + source.standard_normal((_QUERIES, 8))).astype(np.float32),
            [RankedList([f"d{other}" for other in some], -np.arange(12, dtype=np.float32)) for some in others],
        )

    def _order(self, folder: Path, chosen: NDArray[np.int64], epoch: int = 0, seed: int = 1) -> NDArray[np.int64]:
        plugin, queries = self.make(folder), self.queries(folder)
        groups = plugin.groups(queries, _SIZE, seed=1)
        rule(
            isinstance(groups, np.ndarray) and groups.dtype == np.int64 and len(groups) == len(queries.query_ids),
            "`groups` are an int64 array with a row a query",
            getattr(groups, "dtype", type(groups)),
        )
        order: NDArray[np.int64] = plugin.order(groups, chosen, _SIZE, epoch=epoch, seed=seed)
        return order

    def _all(self, folder: Path) -> NDArray[np.int64]:
        return np.arange(len(self.queries(folder).query_ids))

    def test_says_what_it_needs_and_whether_queries_repeat(self, tmp_path: Path) -> None:
        """Recipes without it are refused."""
        cls = type(self.make(tmp_path))
        needs, repeats = getattr(cls, "needs", None), getattr(cls, "repeats", None)
        known = isinstance(needs, tuple) and set(needs) <= set(NEEDS)
        rule(known, f"`needs: ClassVar[tuple[str, ...]]`, of {', '.join(NEEDS)}", repr(needs))
        rule(isinstance(repeats, bool), "`repeats: ClassVar[bool]`", repr(repeats))

    def test_an_order_has_chosen_queries_alone(self, tmp_path: Path) -> None:
        """The trainer leaves out queries, such as those without negatives."""
        chosen = self._all(tmp_path)[3::2]
        rows = self._order(tmp_path, chosen)
        rule(rows.dtype == np.int64 and rows.ndim == 1, "an order is int64 [n]", f"{rows.dtype} {rows.shape}")
        others = np.setdiff1d(rows, chosen)
        rule(not len(others), "an order has chosen queries alone", f"places {others[:3].tolist()} too")

    def test_each_query_comes_unless_they_repeat(self, tmp_path: Path) -> None:
        """Queries repeat only to fill batches."""
        if type(self.make(tmp_path)).repeats:
            return
        for chosen in (self._all(tmp_path), self._all(tmp_path)[::4]):
            ordered, times = np.unique(self._order(tmp_path, chosen), return_counts=True)
            missing = np.setdiff1d(chosen, ordered)
            rule(not len(missing), "each chosen query comes in each epoch", f"{missing[:3].tolist()} do not")
            rule(times.sum() < len(chosen) + _SIZE * _TOPICS, "queries come twice to fill batches only", times.max())

    def test_epochs_are_of_one_length(self, tmp_path: Path) -> None:
        """The trainer computes from the length where each epoch begins."""
        for chosen in (self._all(tmp_path), self._all(tmp_path)[1:12]):
            lengths = {len(self._order(tmp_path, chosen, epoch)) for epoch in range(4)}
            rule(len(lengths) == 1 and 0 not in lengths, "each epoch has as many places", sorted(lengths))

    def test_an_order_depends_on_its_arguments_alone(self, tmp_path: Path) -> None:
        """Each process computes the order itself, and a resumed training again."""
        chosen = self._all(tmp_path)
        first, second = self._order(tmp_path, chosen, 3), self._order(tmp_path, chosen, 3)
        rule(first.tolist() == second.tolist(), "the same arguments give the same order")

    def test_epochs_and_seeds_differ(self, tmp_path: Path) -> None:
        """No two epochs show the same batches."""
        chosen = self._all(tmp_path)
        orders = [self._order(tmp_path, chosen, *which).tolist() for which in ((0, 1), (1, 1), (0, 2))]
        rule(orders[0] != orders[1], "another epoch has another order")
        rule(orders[0] != orders[2], "another seed gives another order")

    def test_few_queries_fill_a_batch(self, tmp_path: Path) -> None:
        """One query alone, and one less than a batch."""
        for count in (1, _SIZE - 1):
            ordered = {*self._order(tmp_path, self._all(tmp_path)[:count]).tolist()}
            fits = ordered <= {*range(count)} if type(self.make(tmp_path)).repeats else ordered == {*range(count)}
            rule(bool(ordered) and fits, "an order of few queries has them", sorted(ordered))


class TestShuffled(BatchOrderTests):
    plugin = Shuffled()


class TestTopicBalanced(BatchOrderTests):
    plugin = TopicBalanced(clusters=5)


class TestTopicBalancedByDefault(BatchOrderTests):
    plugin = TopicBalanced()


class TestClustered(BatchOrderTests):
    plugin = Clustered()


class TestOneSource(BatchOrderTests):
    plugin = OneSource()


class TestHardestTogether(BatchOrderTests):
    plugin = HardestTogether()


class TestHardestTogetherOfEmptyLists(BatchOrderTests):
    plugin = HardestTogether()

    def queries(self, folder):
        found = super().queries(folder)
        return replace(found, run=[type(one)([], np.empty(0, np.float32)) for one in found.run])
