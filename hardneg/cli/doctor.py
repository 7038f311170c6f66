"""`hardneg doctor`: a report on this machine or on a model."""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer

from hardneg.cli import adaptor, console, planned_work
from hardneg.records import BM25, MissingDependency, ModelError
from hardneg.runtime import bf16_on_cpu, cpu_name

_GIB = 1 << 30


class Finding(NamedTuple):
    """The result of one check: what was found and what it means. State `broken` means that the core cannot work."""

    subject: str
    state: Literal["ok", "note", "missing", "broken"]
    found: str
    meaning: str


def doctor(
    store: Path = adaptor.STORE,
    as_json: bool = adaptor.JSON,
    model: str | None = typer.Option(None, "--model", help="Report only on this model."),
) -> None:
    """Report what this machine has and what that means for recipes; exit with code 1 only if the core cannot work.

    Example: hardneg doctor

    Example: hardneg doctor --model packaged:all-MiniLM-L6-v2
    """
    if model is not None:
        declared = _declared(model)
        told = {name: value for name, value in declared.items() if value not in (None, "", {})}
        shown = ((name.replace("_", " "), _in_words(name, value)) for name, value in told.items())
        return console.say_answer(declared, console.aligned(shown), as_json)
    findings = list(examine(planned_work.open_store(store).root))
    width = max(len(finding.subject) for finding in findings)
    lines = (
        f"{each.state:<7}  {each.subject:<{width}}  {each.found}\n{'':<{9 + width}}  {each.meaning}"
        for each in findings
    )
    console.say_answer([finding._asdict() for finding in findings], lines, as_json)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def _in_words(name: str, value: Any) -> str:
    if name == "code":
        verbs = {True: "may depend", False: "do not depend"}
        return "; ".join(f"{file} is not run, and vectors {verbs[used]} on it" for file, used in value.items())
    if isinstance(value, Mapping):
        return ", ".join(f"{each} {text!r}" for each, text in value.items())
    return repr(value) if name.endswith("_prompt") else str(value)


def _declared(name: str) -> dict[str, Any]:
    """The declared properties of a local model. Raises ModelError if it needs a download."""
    from hardneg.encoders.open.contract import tokens_read
    from hardneg.encoders.open.resolved import resolve

    model = resolve(name)
    if model.location.folder is None and (commit := model.location.commit) is not None:
        there = f"is on the hub (commit {commit[:12]}), but not on this machine"
        raise ModelError(f"model {name!r}: {there}; run `hf download {name}`")
    contract = asdict(model.contract)
    lengths = {field: tokens_read(contract[field]) for field in ("query_length", "document_length")}
    return {"files": str(model.files.path), "encoder": getattr(model.family, "called", ""), **contract, **lengths}


def examine(store: Path) -> Iterator[Finding]:
    """Yield all findings in print order; store: the store's folder. torch is imported only if there is a GPU."""
    checks: dict[str, Callable[[], Finding | list[Finding]]] = {
        "memory": _memory, "cpu": _cpu, "gpu": _gpu, "store": lambda: _disk(store), "faiss": _faiss, BM25: _java,
        "versions": _versions,
    }  # fmt: skip
    yield Finding("python", "ok", f"Python {sys.version.split()[0]}, {sys.executable}", "runs hardneg and its plugins")
    for name, check in checks.items():
        try:
            found = check()
            yield from found if isinstance(found, list) else [found]
        except Exception as error:  # a failed check is a finding
            yield Finding(name, "note", f"failed ({type(error).__name__}: {error})", "other checks are not affected")


def _memory() -> Finding:
    total, free = memory()
    few = free < 3 * _GIB
    meaning = f"the demo presets need about 2 GB{'; close other programs first' if few else ''}"
    return Finding("memory", "note" if few else "ok", f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free", meaning)


def memory() -> tuple[int, int]:
    """Return the total and the available memory in bytes, limited by the control group."""
    import psutil

    in_use = psutil.virtual_memory()
    limits = [path for path in map(Path("/sys/fs/cgroup").joinpath, ("memory.max", "memory.current")) if path.exists()]
    most, taken = [*(path.read_text().strip() for path in limits), "", ""][:2]
    if not most.isdigit():
        return in_use.total, in_use.available
    return min(in_use.total, int(most)), min(in_use.available, int(most) - int(taken))


def _cpu() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    bf16 = bf16_on_cpu()
    meaning = "automatic precision and large searches use bf16" if bf16 else "automatic precision is fp32 without a GPU"
    units = f"{'with' if bf16 else 'without'} bfloat16 support"
    return Finding("cpu", "ok" if cores > 1 else "note", f"{cpu_name()}, cores: {cores}, {units}", meaning)


def _gpu() -> Finding:
    cards = (card for pattern in ("nvidia[0-9]*", "kfd") for card in Path("/dev").glob(pattern))
    if not (any(cards) or shutil.which("nvidia-smi")):
        return Finding("gpu", "note", "none", "recipes run on the CPU; the paper presets need a GPU")
    import torch

    if not torch.cuda.is_available():
        meaning = "recipes run on the CPU; check the driver, or install a torch build for this GPU"
        return Finding("gpu", "note", f"found, but torch {torch.__version__} cannot use it", meaning)
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("gpu", "ok", ", ".join(names), "used by default; `--device cpu` avoids it")


def _disk(store: Path) -> Finding:
    free = planned_work.free_bytes(store)
    if not os.access(next(folder for folder in (store, *store.parents) if folder.exists()), os.W_OK):
        return Finding("store", "note", f"{store} is not writable", "no recipe can run; set another store with --store")
    meaning = "the demo needs 0.2 GB; MS MARCO (8.8 million passages, 768 dimensions) needs 27 GB per model"
    return Finding("store", "ok" if free > _GIB else "note", f"{free / 1e9:.1f} GB free at {store}", meaning)


def _faiss() -> Finding:
    if importlib.util.find_spec("faiss"):
        return Finding("faiss", "ok", "installed", "for compressed indexes, and for hardneg's indexes in Pyserini")
    return Finding(
        "faiss", "missing", "not installed", 'compressed indexes and dense Pyserini need it: pip install "hardneg[cpu]"'
    )


def _java() -> Finding:
    from hardneg.indexes.lucene import find_java, starts_alone

    if not importlib.util.find_spec("pyserini"):
        return Finding(BM25, "missing", "Pyserini is not installed", 'no BM25: pip install "hardneg[lucene]"')
    try:
        java = find_java()
    except MissingDependency as error:
        return Finding(BM25, "missing", "no suitable Java", str(error))
    found, meaning = f"Pyserini, Java {java.version} in {java.home}", "BM25 works"
    meaning += "" if java.has_vector else "; a JDK with jdk.incubator.vector is faster"
    if starts_alone():
        return Finding(BM25, "ok", found, meaning)
    return Finding(BM25, "note", found, f"{meaning}; before using Pyserini alone, call hardneg.plugin.start_java()")


def _versions() -> list[Finding]:
    """Return one finding for the core's requirements and one for each extra with a problem."""
    from packaging.requirements import Requirement

    extras = ["", *(importlib.metadata.metadata("hardneg").get_all("Provides-Extra") or [])]
    unfit: dict[str, list[str]] = {"": []}
    for item in map(Requirement, importlib.metadata.requires("hardneg") or []):
        of = [extra for extra in extras if not item.marker or item.marker.evaluate({"extra": extra})]
        if not of or item.name == "hardneg":
            continue
        problems = unfit.setdefault(of[0], [])
        try:
            version = importlib.metadata.version(item.name)
            fits = item.specifier.contains(version, prereleases=True)
            problems += [] if fits else [f"{item.name} {version} is not {item.specifier}"]
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{item.name} is not installed")
    findings = [Finding("versions", "broken", "; ".join(unfit.pop("")), "pip install --upgrade hardneg")]
    for extra, problems in unfit.items():
        meaning = f'only if you need it: pip install "hardneg[{extra}]"'
        findings.append(Finding(f"versions [{extra}]", "missing", "; ".join(problems), meaning))
    fit = Finding("versions", "ok", "in the declared ranges", "all requirements are met")
    return [each if each.found else fit._replace(subject=each.subject) for each in findings]
