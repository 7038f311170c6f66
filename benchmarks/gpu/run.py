"""Runs the pieces, each in a process forked from one that has imported all; see gpu_checks.sh and README.md."""

import argparse
import json
import os
import signal
import sys
import tarfile
import time
import tomllib
import traceback
from contextlib import suppress
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from gpu.setting import Failed, Piece, Setting, Skipped

from hardneg.records import MissingDependency

ROOT = Path(__file__).parents[2]
PLACES = {
    "ceilings": "ceilings:rates",
    "encode-peers": "peers:encode",
    "train-peers": "peers:pairs",
    "search-peers": "peers:search",
    "adore-search": "peers:adore_search",
    "maxsim": "peers:maxsim",
    "search-ids": "searching:ids",
    "train-losses": "training:losses",
    "gradient-cache": "training:cache",
    "faiss": "libraries:faiss",
    "memory": "recipes:memory",
    "out-of-memory": "short_memory:recovery",
    "rerank": "reranking:scores",
    "adore-loss": "looping:adore_loss",
    "trainer-tf32": "trainers:tf32",
    "encode": "encoding:speed",
    "encode-unpadded": "encoding:unpadded",
    "search-memory": "searching:first_merge",
    "search-speed": "searching:speed",
    "two-processes": "several:one_card",
    "two-cards": "several:two_cards",
    "two-processes-recipe": "together:one_card",
    "two-cards-recipe": "together:two_cards",
    "inferencer": "recipes:inferencer",
    "train-speed": "training:speed",
    "compressed": "approximate:compressed",
    "centroids": "looping:centroids",
    "cagra": "approximate:graph",
    "halves": "libraries:halves",
}
"""The most valuable first: a call may be cut short."""
DEMOS, PAPERS = "recipe-", "paper-"
_LEAST = 5.0  # seconds with which no piece is worth starting


def names(small: bool) -> list[str]:
    """All pieces, in order."""
    recipes = ["star-passage"] if small else [path.stem for path in sorted((ROOT / "recipes").glob("*.yaml"))]
    return [*PLACES, *(f"{start}{name}" for start in (DEMOS, PAPERS) for name in recipes)]


def install(folder: Path) -> None:
    """Gives a tree that is not installed its entry points, for this process and those that it starts."""
    with suppress(metadata.PackageNotFoundError):
        metadata.distribution("hardneg")
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    made = folder / "hardneg-0.dist-info"
    made.mkdir(parents=True, exist_ok=True)
    groups = project["entry-points"] | {"console_scripts": project["scripts"]}
    lines = list[str]()
    for group, named in groups.items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in named.items())]
    (made / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: hardneg\nVersion: 0\n", "utf-8")
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(folder)]).strip(os.pathsep)


def find(name: str) -> Piece:
    """The piece of that name; what it needs is imported here."""
    for start, module, function in ((DEMOS, "gpu.recipes", "demo"), (PAPERS, "gpu.papers", "paper")):
        if name.startswith(start):
            return partial(getattr(import_module(module), function), name=name.removeprefix(start))
    module, function = PLACES[name].split(":")
    found: Piece = getattr(import_module(f"gpu.{module}"), function)
    return found


def work(name: str, setting: Setting) -> dict[str, Any]:
    """What a piece comes to, in this process."""
    begun = time.monotonic()
    found: dict[str, Any] = {"piece": name, "state": "done", "why": "", "figures": {}}
    try:
        found["figures"] = find(name)(setting)
    except ModuleNotFoundError as error:
        found |= {"state": "skipped", "why": f"{error.name} is not installed"}
    except (MissingDependency, Skipped) as error:
        found |= {"state": "skipped", "why": str(error)}
    except Failed as error:
        found |= {"state": "failed", "why": str(error), "figures": error.figures}
    except Exception as error:
        traceback.print_exc()
        found |= {"state": "failed", "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {**found, "seconds": round(time.monotonic() - begun, 1)}


def start(name: str, setting: Setting, out: Path, limit: float) -> dict[str, Any]:
    """What a piece comes to, in a forked process, whose output goes to a file; it is ended after `limit` seconds."""
    (out / "logs").mkdir(exist_ok=True)
    setting.folder.mkdir(parents=True, exist_ok=True)
    begun, answer = time.monotonic(), setting.folder / "result.json"
    answer.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.setsid()
        log = os.open(out / "logs" / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        answer.write_text(json.dumps(work(name, setting)), encoding="utf-8")
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(0)
    code = None
    while code is None and time.monotonic() < begun + limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ended else None
        time.sleep(0.05 if code is None else 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # with all that it has started
    failed = {"piece": name, "state": "failed", "figures": {}, "seconds": round(time.monotonic() - begun, 1)}
    if code is None:
        os.kill(child, signal.SIGKILL)  # where it had no session of its own yet
        os.waitpid(child, 0)
        return {**failed, "why": f"not done in {limit:g} s"}
    if code or not answer.exists():
        return {**failed, "why": f"ended with code {code}: see logs/{name}.log"}
    result: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    return result


def known(out: Path) -> dict[str, dict[str, Any]]:
    """What earlier calls came to, of the pieces that are done; a line that was cut short is left out."""
    found, path = {}, out / "results.jsonl"
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            result = json.loads(line)
            found[result["piece"]] = result
    return {name: result for name, result in found.items() if result["state"] == "done"}


def keep(out: Path, result: dict[str, Any]) -> None:
    """Adds the result, a line; the next one begins anew even where the last was cut short."""
    path = out / "results.jsonl"
    ended = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * (not ended) + json.dumps(result) + "\n")


def row(result: dict[str, Any]) -> str:
    """A line of the table."""
    told = result["why"] or ", ".join(f"{name} {value}" for name, value in result["figures"].items())
    return f"{result['piece']:<28} {result['state']:<8} {result['seconds']:>7} s  {told}"


def main(arguments: list[str]) -> int:
    """Runs what is asked for and not done; 1 where a piece failed."""
    begun, options = time.monotonic(), _options(arguments)
    out = options.out or Path("runs") / f"gpu-checks-{options.device}{'-small' * options.small}{'-full' * options.full}"
    out.mkdir(parents=True, exist_ok=True)
    out = out.resolve()
    install(out / "entry-points")
    for module in ("torch", "transformers", "sentence_transformers", "accelerate", "hardneg.plugin"):
        import_module(module)  # once for all pieces; no device is touched
    results = []
    for name in options.pieces or names(options.small):
        done = known(out)
        if (result := done.get(name)) is None:
            ceilings = done.get("ceilings", {}).get("figures", {})
            setting = Setting(options.device, options.small, options.full, out / "work" / name, ceilings)
            left = options.until - (time.monotonic() - begun)
            if left < _LEAST:
                print(f"{name}: no time is left")
                continue
            result = start(name, setting, out, min(options.limit, left))
            keep(out, result)
        results.append(result)
        print(row(result), flush=True)
    with tarfile.open(out / "logs.tar.gz", "w:gz") as packed:
        packed.add(out / "logs", "logs")
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
    parser.add_argument("--until", type=float, default=float("inf"), help="seconds that all may take")
    options = parser.parse_args(arguments)
    strange = set(options.pieces) - set(names(options.small))
    if strange:
        parser.error(f"no piece is called {', '.join(sorted(strange))}; there are: {', '.join(names(options.small))}")
    if options.device.startswith("cuda"):
        import torch

        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asks without starting CUDA, which no fork survives
        if not torch.cuda.is_available():
            parser.error("torch sees no GPU here; --small --device cpu asks the same in small")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
