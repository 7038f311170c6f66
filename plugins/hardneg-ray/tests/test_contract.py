"""The contract of engines, by actors of a small cluster."""

import pytest
from hardneg_ray.engine import Ray
from hardneg_ray.testing import EngineTests

pytestmark = pytest.mark.slow  # its processes import torch


@pytest.mark.usefixtures("cluster")
class TestRay(EngineTests):
    plugin = Ray(actors=2, num_cpus=1, losses=2)
