"""Keeps what the tables of a results page come from: a metrics.json without the scores of single queries.

    python benchmarks/result_data.py runs/NAME NAME.json --command "hardneg recipe run ..."

It has the means over queries of each seed, the intervals and the tests as they were, to six digits, and how many
queries and groups of queries there were.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.records import METRICS

KEPT = ("metrics", "intervals", "comparisons", "over_seeds", "significance_level", "equivalence_margin", "notes")


def small(content: Mapping[str, Any], command: str) -> dict[str, Any]:
    """What is kept of a metrics.json."""
    queries = {name for scores in content["per_query"].values() for values in scores.values() for name in values}
    groups = {"groups": len({*content["query_groups"].values()})} if "query_groups" in content else {}
    by_seed = {
        system: {
            seed: {name: sum(each.values()) / len(each) for name, each in scores.items()} for seed, scores in seeds
        }
        for system, seeds in ((system, seeds.items()) for system, seeds in content.get("per_seed", {}).items())
    }
    kept = {name: content[name] for name in KEPT if name in content}
    tested = {(test["system"], test["baseline"], test["metric"]) for test in kept.get("over_seeds", ())}
    kept["comparisons"] = [
        test for test in kept["comparisons"] if (test["system"], test["baseline"], test["metric"]) not in tested
    ]
    rounded: dict[str, Any] = _rounded({**kept, "per_seed": by_seed})
    return {"command": command, "queries": len(queries), **groups, **rounded}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--command", required=True)
    given = parser.parse_args()
    file = given.run / METRICS if given.run.is_dir() else given.run
    kept = small(json.loads(file.read_text("utf-8")), given.command)
    given.target.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in kept.items()]
    given.target.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
