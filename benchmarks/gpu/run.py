"""Runs the pieces one after the other, each in a process of its own; see gpu_checks.sh and README.md."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu.setting import Failed, Piece, Setting, Skipped

PLACES = {
    "encode": "encoding:speed",
    "encode-unpadded": "encoding:unpadded",
    "search-ids": "searching:ids",
    "search-memory": "searching:first_merge",
    "search-speed": "searching:speed",
    "search-shared": "searching:shared",
    "train-losses": "training:losses",
    "gradient-cache": "training:cache",
    "two-processes": "several:one_card",
    "two-cards": "several:two_cards",
    "two-processes-recipe": "together:one_card",
    "two-cards-recipe": "together:two_cards",
    "inferencer": "recipes:inferencer",
    "memory": "recipes:memory",
    "rerank": "reranking:scores",
    "out-of-memory": "short_memory:recovery",
    "train-speed": "training:speed",
    "trainer-tf32": "trainers:tf32",
    "adore-loss": "looping:adore_loss",
    "faiss": "libraries:faiss",
    "compressed": "approximate:compressed",
    "centroids": "looping:centroids",
    "cagra": "approximate:graph",
    "halves": "libraries:halves",
}
DEMOS, PAPERS = "recipe-", "paper-"


def names(small: bool) -> list[str]:
    """All pieces, in order."""
    from gpu.papers import presets

    from hardneg.recipe.yaml_load import shipped_recipes

    recipes = ["star-passage"] if small else list(shipped_recipes())
    papers = (f"{PAPERS}{name}" for name in presets(small))
    return [*PLACES, *(f"{DEMOS}{name}" for name in recipes), *papers]


def find(name: str, small: bool) -> Piece:
    """The piece of that name; what it needs is imported here."""
    for start, module in ((DEMOS, "gpu.recipes"), (PAPERS, "gpu.papers")):
        if name.startswith(start):
            piece: Piece = import_module(module).pieces(small)[name]
            return piece
    module, function = PLACES[name].split(":")
    found: Piece = getattr(import_module(f"gpu.{module}"), function)
    return found


def work(name: str, setting: Setting) -> dict[str, Any]:
    """What a piece comes to, in this process."""
    from hardneg.records.errors import MissingDependency

    begun = time.monotonic()
    found: dict[str, Any] = {"piece": name, "state": "done", "why": "", "figures": {}}
    try:
        found["figures"] = find(name, setting.small)(setting)
    except ModuleNotFoundError as error:
        found |= {"state": "skipped", "why": f"{error.name} is not installed"}
    except (MissingDependency, Skipped) as error:
        found |= {"state": "skipped", "why": str(error)}
    except Failed as error:
        found |= {"state": "failed", "why": str(error)}
    except Exception as error:
        traceback.print_exc()
        found |= {"state": "failed", "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {**found, "seconds": round(time.monotonic() - begun, 1)}


def start(name: str, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a piece comes to, in a process of its own, whose output goes to a file beside the result."""
    command = [sys.executable, "-m", "gpu.run", "--device", options.device, "--out", str(out), "--alone", name]
    command += [f"--{name}" for name in ("small", "full") if getattr(options, name)]
    failed = {"piece": name, "state": "failed", "figures": {}, "seconds": options.limit}
    with (out / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    try:
        lines = process.communicate(timeout=options.limit)[0].strip().splitlines()
    except subprocess.TimeoutExpired:
        return {**failed, "why": f"not done in {options.limit:g} s"}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
        process.wait()
    if process.returncode or not lines:
        return {**failed, "seconds": 0, "why": f"ended with code {process.returncode}: see {name}.log"}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def known(path: Path) -> dict[str, Any] | None:
    """What an earlier call came to, where that piece is done."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.get("state") == "done" else None


def keep(path: Path, result: dict[str, Any]) -> None:
    """Writes the result aside and renames it."""
    aside = path.with_suffix(".tmp")
    aside.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    os.replace(aside, path)


def row(result: dict[str, Any]) -> str:
    """A line of the table."""
    told = result["why"] or ", ".join(f"{name} {value}" for name, value in result["figures"].items())
    return f"{result['piece']:<28} {result['state']:<8} {result['seconds']:>7} s  {told}"


def main(arguments: list[str]) -> int:
    """Runs what is asked for and not done; 1 where a piece failed."""
    options = _options(arguments)
    out = options.out or Path("runs") / f"gpu-checks-{options.device}{'-small' * options.small}{'-full' * options.full}"
    out.mkdir(parents=True, exist_ok=True)
    out = out.resolve()
    if options.alone:
        folder = out / "work" / options.alone
        folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(work(options.alone, Setting(options.device, options.small, options.full, folder))))
        return 0
    results = []
    for name in options.pieces or names(options.small):
        path = out / f"{name}.json"
        result = known(path)
        if result is None:
            result = start(name, out, options)
            keep(path, result)
        results.append(result)
        print(row(result), flush=True)
    count = {state: sum(result["state"] == state for result in results) for state in ("done", "skipped", "failed")}
    print(", ".join(f"{number} {state}" for state, number in count.items()) + f"; results in {out}")
    return 1 if count["failed"] else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_checks.sh", description="All that a GPU is asked the first time.")
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help="those alone; all by default")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--small", action="store_true", help="sizes for a few minutes on a CPU")
    parser.add_argument("--full", action="store_true", help="the demo recipes uncut")
    parser.add_argument("--out", type=Path, help="where results are kept; below runs/ by default")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that a piece may take")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    strange = set(options.pieces) - set(names(options.small))
    if strange:
        parser.error(f"no piece is called {', '.join(sorted(strange))}; there are: {', '.join(names(options.small))}")
    if options.device.startswith("cuda") and not options.alone:
        import torch

        if not torch.cuda.is_available():
            parser.error("torch sees no GPU here; --small --device cpu asks the same in small")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
