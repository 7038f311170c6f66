"""Check that a stage on a head and two one-core nodes finishes each block when a node joins and another is lost.

    python three_nodes.py

The nodes are simulated by Ray with processes of this machine. `three_nodes.sh` uses network namespaces.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hardneg_ray.engine import Ray
from hardneg_ray.testing import Squares
from ray.cluster_utils import Cluster

from hardneg.runtime import Silent
from hardneg.stages import StageContext

STAGE = Squares(count=120, size=2, pause=0.5)
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


class Recorded(Silent):
    """Progress that prints the notes of a run."""

    def note(self, text: str) -> None:
        print(text, flush=True)


def change_machines(cluster: Cluster, lost: object, context: StageContext[Squares]) -> None:
    """Add a node when a block is finished; remove the node `lost` when ten more are finished."""
    store = STAGE.make(context).store
    while not (done := len(store.finished())):
        time.sleep(0.1)
    cluster.add_node(**NODE)
    print(f"a third machine joined after {done} blocks", flush=True)
    while len(store.finished()) < done + 10:
        time.sleep(0.1)
    cluster.remove_node(lost, allow_graceful=False)
    print(f"one was lost after {len(store.finished())}", flush=True)


def main() -> None:
    """Run the stage and print the events. Raises AssertionError if a block is missing or the bytes differ."""
    head = {"num_cpus": 0, "object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    lost = cluster.add_node(**NODE)
    cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    with tempfile.TemporaryDirectory() as name:
        context = StageContext("squares", STAGE, Path(name), {}, {}, Recorded(), "cpu")
        with ThreadPoolExecutor(1) as beside:  # machines are added by the main thread only
            stage = beside.submit(Ray(address=cluster.address, num_cpus=1, losses=4).make, context)
            change_machines(cluster, lost, context)
            stage.result()
        blocks = STAGE.make(context)
        assert blocks.finished() == set(range(len(blocks.sizes)))
        assert (Path(name) / "squares").read_text() == "".join(f"{number**2}\n" for number in range(STAGE.count))
        print(f"{len(blocks.sizes)} blocks, each finished")
    cluster.shutdown()


if __name__ == "__main__":
    main()
