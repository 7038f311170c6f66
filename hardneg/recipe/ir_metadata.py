"""`ir-metadata.yml` of a run folder: what was computed, on which machine, by which software, with which data.

Source: Breuer, Keller and Schaer, ir_metadata: An Extensible Metadata Schema for IR Experiments, SIGIR 2022, version
0.1 of https://www.ir-metadata.org. `resources` is in no version of it; names there are those of the TIREx tracker.
"""

import importlib.metadata
import os
import platform
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hardneg
from hardneg.fields import input_files
from hardneg.recipe.yaml_load import is_shipped
from hardneg.records.layout import DATASET, LOCK
from hardneg.records.named_plugins import IR_DATASETS
from hardneg.records.private_paths import dataset_name, without_paths
from hardneg.runtime.devices import cpu_name
from hardneg.verbs.evaluate import Evaluate
from hardneg.verbs.fuse import Fuse
from hardneg.verbs.rerank import Rerank
from hardneg.verbs.write_queries import WriteQueries

if TYPE_CHECKING:
    from hardneg.recipe.load import Recipe
    from hardneg.store.artifacts import Artifact
    from hardneg.verbs.shared.stage_spec import StageSpec

TIES = "ascending document ids; the second of two equal scores is written as the next smaller float"
_LIBRARIES = (
    "accelerate", "datasets", "faiss-cpu", "faiss-gpu-cu12", "numpy", "ranx", "scipy", "sentence-transformers", "torch",
    "transformers",
)  # fmt: skip
_GIB = 1 << 30


def ir_metadata(recipe: "Recipe", artifacts: Mapping[str, "Artifact"]) -> dict[str, Any]:
    """The metadata of a finished recipe, as a tree for YAML; artifacts: by stage."""
    stages = {name: spec for name, spec in recipe.stages.items() if name in artifacts}
    preset = f" --preset {recipe.preset}" if recipe.preset else ""
    called = recipe.name if is_shipped(recipe.source) else shlex.quote(recipe.source.name)
    return {
        "schema-version": 0.1,
        "run-version": 1.0,
        "tag": "-".join(filter(None, [recipe.name, recipe.preset])),
        "platform": _platform(artifacts.values()),
        "research goal": {"description": without_paths(recipe.title), "evaluation": _evaluation(recipe)},
        "implementation": {
            "executable": {"cmd": f"hardneg recipe run {called}{preset}", "settings": LOCK},
            "source": {"lang": ["Python"]},
        },
        "method": {
            "automatic": True,
            "score ties": TIES,
            "retrieval": [_retrieval(name, spec) for name, spec in stages.items() if spec.artifact_type == "run"],
        },
        "actor": {"role": "experimenter"},
        "data": _data(recipe),
        "resources": _resources(artifacts),
    }


def _platform(artifacts: Iterable["Artifact"]) -> dict[str, Any]:
    """This machine, the GPUs that any step was made on, and the versions of what computes."""
    used = {usage["device"] for artifact in artifacts if (usage := artifact.facts.get("usage"))} - {"cpu"}
    cpu = {"model": cpu_name(), "architecture": platform.machine(), "number of cores": os.cpu_count() or 1}
    hardware = {"cpu": cpu, "ram": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / _GIB:.1f} GB"}
    distribution = platform.platform(terse=True)
    with suppress(OSError, KeyError):
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    toolkits = [f"hardneg=={hardneg.__version__}", *_installed(["pyserini"])]
    return {
        "hardware": {**hardware, "gpu": {"model": ", ".join(sorted(used))}} if used else hardware,
        "operating system": {"kernel": f"{platform.system()} {platform.release()}", "distribution": distribution},
        "software": {
            "libraries": {"python": [f"python=={platform.python_version()}", *_installed(_LIBRARIES)]},
            "retrieval toolkit": toolkits,
        },
    }


def _installed(names: Iterable[str]) -> list[str]:
    versions = []
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name}=={importlib.metadata.version(name)}")
    return versions


def _evaluation(recipe: "Recipe") -> dict[str, Any]:
    """Measures, the rows that others are compared with, and the tests, of all stages that evaluate."""
    specs = [spec for spec in recipe.stages.values() if isinstance(spec, Evaluate)]
    evaluated: dict[str, Any] = {
        "reported measures": list(dict.fromkeys(name for spec in specs for name in spec.metrics)),
        "baseline": list(dict.fromkeys(row for spec in specs for row in spec.baselines)),
    }
    if any(len(spec.runs) > 1 for spec in specs):
        evaluated["significance test"] = [
            {"name": name, "correction method": "holm-bonferroni"} for name in ("t-test", "permutation")
        ]
    return {name: value for name, value in evaluated.items() if value}


def _retrieval(name: str, spec: "StageSpec") -> dict[str, Any]:
    """One stage that ranks, with what its recipe sets."""
    component: dict[str, Any] = {"name": name, "method": spec.verb}
    if isinstance(spec, Rerank):
        component["reranks"] = spec.run
    if isinstance(spec, Fuse):
        component["interpolates"] = list(spec.runs.values())
    options = spec.model_dump(mode="json", exclude_defaults=True, exclude={"stage", "run", "runs"})
    files = [file for _, _, file in input_files(spec)]
    return component | {name: without_paths(value, files) for name, value in options.items() if value is not None}


def _data(recipe: "Recipe") -> dict[str, Any]:
    loaders = {stage: spec.loader for stage, spec in recipe.collections.items()}
    sources = {stage: str(loader.options.get("source") or "") for stage, loader in loaders.items()}
    whole = {stage: ":".join(filter(None, [loader.name, sources[stage]])) for stage, loader in loaders.items()}
    names = {stage: dataset_name(name) for stage, name in whole.items()}
    tested = {"name": names[DATASET]}
    writing = [spec for spec in recipe.stages.values() if isinstance(spec, WriteQueries)]
    writers = ", ".join(dict.fromkeys(writer.name for spec in writing for writer in spec.writers))
    written = {"topics": f"written from its passages by {writers}"} if writers else {}
    evaluated = ((name, spec) for name, spec in recipe.stages.items() if isinstance(spec, Evaluate))
    if any(spec.on_written_queries(recipe.view(name)) for name, spec in evaluated):
        tested |= written
    if loaders[DATASET].name == IR_DATASETS:
        tested["ir_datasets"] = sources[DATASET]
    trains = any(spec.artifact_type in ("model", "reranker") for spec in recipe.stages.values())
    trained = [{"name": name, **(written if name == names[DATASET] else {})} for name in dict.fromkeys(names.values())]
    return {"test collection": tested} | ({"training data": trained} if trains else {})


def _resources(artifacts: Mapping[str, "Artifact"]) -> dict[str, Any]:
    """What each step took when it was made: seconds, bytes, and joules where the machine counts them."""
    steps = {name: artifact.facts for name, artifact in artifacts.items()}
    seconds = {name: f"{facts['seconds']:.1f} s" for name, facts in steps.items() if facts.get("seconds")}
    usages = [facts.get("usage") or {} for facts in steps.values()]
    resources: dict[str, Any] = {
        "runtime": {"wallclock": f"{sum(facts.get('seconds') or 0 for facts in steps.values()):.1f} s"},
        "ram": {"used process": {"max": f"{max((each.get('peak_memory', 0) for each in usages), default=0) >> 20} MB"}},
    }
    if most := max((each.get("peak_gpu_memory", 0) for each in usages), default=0):
        resources["gpu"] = {"used process": {"max": f"{most >> 20} MB"}}
    for device in ("cpu", "gpu"):
        if joules := sum((each.get("joules") or {}).get(device, 0.0) for each in usages):
            resources.setdefault(device, {})["energy used system"] = f"{joules:.0f} J"
    return resources | {"steps": seconds}
