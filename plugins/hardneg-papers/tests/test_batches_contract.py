"""The orders of queries of this package against their contract."""

from dataclasses import replace

import numpy as np
from hardneg_papers.clusters import Clustered, TopicBalanced
from hardneg_papers.hardest_together import HardestTogether

from hardneg.testing import BatchOrderTests


class TestTopicBalanced(BatchOrderTests):
    plugin = TopicBalanced(clusters=5)


class TestTopicBalancedByDefault(BatchOrderTests):
    plugin = TopicBalanced()


class TestClustered(BatchOrderTests):
    plugin = Clustered()


class TestHardestTogether(BatchOrderTests):
    plugin = HardestTogether()


class TestHardestTogetherOfEmptyLists(BatchOrderTests):
    plugin = HardestTogether()

    def queries(self, folder):
        found = super().queries(folder)
        return replace(found, run=[type(one)([], np.empty(0, np.float32)) for one in found.run])
