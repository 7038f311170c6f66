"""What can be said of refreshes, and how devices and threads are divided."""

import pytest
import torch

from hardneg.runtime.distributed import World
from hardneg.training.options import Devices, RefreshOptions
from hardneg.training.refresh.folder import refresh_facts
from hardneg.training.refresh.mining import chunk, known_to_be_relevant


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RefreshOptions("every"), ["policy every: give every"]),
        (RefreshOptions("synchronous"), ["policy synchronous: give every"]),
        (RefreshOptions("every", 0, depth=0), ["every must be 1", "depth must be 1", "negatives must be 0 (depth)"]),
        (RefreshOptions("every", 10), []),
    ],
)
def test_options_that_make_no_sense(options, told):
    assert [line[: len(start)] for line, start in zip(options.problems(), told, strict=True)] == told


def test_five_parts_of_the_queries_are_all_of_them_and_the_last_has_the_remainder():
    parts = [chunk(103, number, 5) for number in range(5)]
    assert [len(part) for part in parts] == [20, 20, 20, 20, 23]
    assert [query for part in parts for query in part] == list(range(103))
    assert chunk(103, 7, 5) == parts[2]
    assert chunk(103, 9, 1) == range(103)


def test_the_last_positive_alone_is_known_where_the_published_program_is_followed():
    known = {"q1": ["d3", "d1"], "q2": ["d2"]}
    assert known_to_be_relevant(known, RefreshOptions(excluded="last")) == {"q1": ["d1"], "q2": ["d2"]}
    assert known_to_be_relevant(known, RefreshOptions()) == known


def test_threads_by_share():
    alone = World()
    assert Devices().threads(2, alone) == Devices().threads(1, alone) == (1, 1)
    assert Devices(3, 1).threads(16, alone) == (12, 4)
    assert Devices().threads(16, World(0, 2, 0, 2)) == (4, 8)
    assert Devices(0, 1).problems() == ["trainer must be 1 or above, not 0"]


def test_gpus_by_share():
    first, two = torch.device("cuda:0"), World(0, 2, 0, 2)
    assert Devices().mining(torch.device("cpu"), World(), 0) == ["cpu"]
    assert Devices().mining(first, World(), 1) == ["cuda:0"]
    assert Devices().mining(first, two, 8) == ["cuda:2", "cuda:3"]
    assert Devices(1, 2).mining(first, two, 8) == ["cuda:2", "cuda:3", "cuda:4", "cuda:5"]


def test_facts_of_a_run():
    made = {"queries": 7, "seconds": {"encode": 2.0, "queries": 0.25, "search": 1.0, "write": 0.5}}
    history = [{"step": 1, "loss": 1.0}, *({"step": 2 + i, "refresh": i // 2, "lag": i} for i in range(4))]
    steps = {"refreshes used": 2, "mean lag": 1.5, "largest lag": 3, "waiting's part of the time": 0.25}
    seconds = {"encode": 6.0, "queries": 0.75, "search": 3.0, "write": 1.5}
    steps |= {"refreshes made": 3, "documents encoded": 300, "queries searched": 21}
    assert refresh_facts(history, [made] * 3, 0.25, 100) == {
        **{f"seconds of inference: {name}": value for name, value in seconds.items()},
        **steps,
    }
    assert "mean lag" not in refresh_facts([{"step": 1}], [], 0.0, 100)
