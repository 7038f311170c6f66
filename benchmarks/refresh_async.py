"""What refreshing beside the training saves: an asynchronous run against a synchronous one, and what it costs a step.

    pip install "hardneg[demo]"
    python benchmarks/refresh_async.py [--steps 120] [--refreshes 3] [--documents 6000] [--batch 24] [--rounds 3]

The same model, corpus, queries, loss and number of steps. `synchronous` waits at multiples of so many steps for as many
refreshes; on a CPU both parts have all threads in turn. `beside` mines in a second process and shares the threads 1:1;
how many refreshes it comes to is told, for that is what it gives up. `never` mines once and trains on: its steps are
those of a trainer that is alone, with all threads and with the threads that it has beside an inferencer. Contestants
take turns; each figure is the median of the rounds. The clock runs from the start of the stage to its end; the second
process loads its program meanwhile (some seconds), as it does in any run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.store import Store

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WAYS = ("synchronous", "beside", "never", "never, half the threads")


def recipe(options: argparse.Namespace) -> dict[str, Any]:
    """A stage a way, on the same data."""
    every = options.steps // options.refreshes
    model = {"name": options.model, "query_length": 32, "document_length": 128}
    training = {"batch_size": options.batch, "max_steps": options.steps, "learning_rate": 1e-5, "warmup_steps": 1}
    stage = {"stage": "train-refreshed", "loss": "nll", "options": {**training, "checkpoint_every": options.steps}}
    mined = {"depth": min(200, options.documents // 4), "negatives": min(20, options.documents // 4)}
    policies = {
        "synchronous": {"policy": "synchronous", "every": every},
        "beside": {"policy": "every", "every": every},
        "never": {"policy": "synchronous", "every": options.steps + 1},
    }
    stages = {name: {**stage, "refresh": {**policy, **mined}} for name, policy in policies.items()}
    return {"dataset": {"name": "pydocs", "max_passages": options.documents}, "model": model, "stages": stages}


def once(folder: Path, way: str) -> None:
    """Runs one way in this process, and prints seconds, seconds by step, and facts as JSON."""
    import torch

    from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan

    name, _, half = way.partition(", ")
    if half:
        torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    plan = make_plan(load_recipe(folder / "recipe.yaml"))
    store, run = Store(folder / "store"), Options(until=name, force=(name,), device="cpu")
    timed = Timed()
    facts = execute(plan, store, run, Watcher(progress=timed)).artifacts[name].facts
    print(json.dumps({"seconds": facts["seconds"], "step": timed.median(), "facts": dict(facts)}))


class Timed:
    """A progress display that notes when each step of the training ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def task(self, *rest: Any, **named: Any) -> "Timed":
        return self

    def __enter__(self) -> "Timed":
        return self

    def __exit__(self, *rest: object) -> None:
        pass

    def advance(self, count: int = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        self.ends.append(time.perf_counter())

    def note(self, text: str) -> None:
        pass

    def median(self) -> float:
        """Seconds of a step; those with a refresh or a checkpoint before them are the few that are slow."""
        gaps = [later - sooner for sooner, later in zip(self.ends, self.ends[1:], strict=False)]
        return statistics.median(gaps) if gaps else float("nan")


def measure(folder: Path, options: argparse.Namespace) -> dict[str, list[Mapping[str, Any]]]:
    """All ways by turns, each in a process of its own."""
    found: dict[str, list[Mapping[str, Any]]] = {way: [] for way in WAYS}
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    for number in range(options.rounds + 1):  # the first one is for caches and the dataset, and does not count
        for way in WAYS:
            command = [sys.executable, __file__, "--folder", str(folder), "--way", way]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            if number:
                found[way].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def show(found: Mapping[str, list[Mapping[str, Any]]]) -> None:
    """One line a way, and the two ratios."""
    middle = {way: statistics.median(one["seconds"] for one in rows) for way, rows in found.items()}
    step = {way: statistics.median(one["step"] for one in rows) for way, rows in found.items()}
    print(f"{'':26}{'seconds':>9}{'s a step':>10}{'refreshes':>11}{'mean lag':>10}{'waited':>8}")
    for way, rows in found.items():
        facts = [row["facts"] for row in rows]
        used, lag, waited = (
            statistics.median(fact[name] for fact in facts)
            for name in ("refreshes used", "mean lag", "waiting's part of the time")
        )
        print(f"{way:26}{middle[way]:9.1f}{step[way]:10.3f}{used:11g}{lag:10.1f}{waited:8.0%}")
    print(f"time, beside / synchronous: {middle['beside'] / middle['synchronous']:.2f}")
    print(f"step, beside an inferencer / alone with all threads: {step['beside'] / step['never']:.2f}")
    print(f"step, beside an inferencer / alone with as many threads: {step['beside'] / step[WAYS[-1]]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"steps": 120, "refreshes": 3, "documents": 6000, "batch": 24, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--model", default="packaged:all-MiniLM-L6-v2")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        once(options.folder, options.way)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(json.dumps(recipe(options)))
        show(measure(folder, options))


if __name__ == "__main__":
    main()
