"""`hardneg doctor`: what this machine has, and what that means for a recipe."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from hardneg.cli.console import aligned, say_answer
from hardneg.cli.options import JSON, STORE, open_store
from hardneg.cli.planned_work import free_bytes
from hardneg.indexes.kernels.lucene.java import find_java, first_java, starts_alone
from hardneg.records.errors import ModelError
from hardneg.runtime.devices import bf16_on_cpu, cpu_name

if TYPE_CHECKING:
    from hardneg.encoders.open.contract import Contract

State = Literal["ok", "note", "missing", "broken"]
_GIB = 1 << 30
_BUILDS = re.compile(r"faiss[-_](cpu|gpu)")
_HUB_SECONDS = 3.0


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, what was found, and what it means. `broken`: the core cannot work."""

    subject: str
    state: State
    value: str
    meaning: str


def doctor(
    store: Path = STORE,
    as_json: bool = JSON,
    hub: bool = typer.Option(True, "--hub/--no-hub", help="Ask whether the Hugging Face hub answers."),
    model: str | None = typer.Option(None, "--model", help="Print only how this model is meant to be used."),
) -> None:
    """Report what this machine has and what that means for recipes; fails only if the core cannot work.

    Example: hardneg doctor --no-hub
    """
    if model is not None:
        files, family, contract = declared(model)
        told = [("files", str(files)), ("encoder", family), *contract_lines(contract)]
        return say_answer({"encoder": family, **asdict(contract)}, aligned(told), as_json)
    root = open_store(store).root
    findings = list(examine(root, hub))
    width = max(len(finding.subject) for finding in findings)
    lines = (
        f"{item.state:<7}  {item.subject:<{width}}  {item.value}\n{'':<{9 + width}}  {item.meaning}"
        for item in findings
    )
    rows = [{"found" if name == "value" else name: text for name, text in vars(each).items()} for each in findings]
    say_answer(rows, lines, as_json)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def examine(store: Path, hub: bool = True) -> Iterator[Finding]:
    """All findings, in the order they are printed; nothing heavy is imported but torch, and that only beside a GPU."""
    checks: list[Callable[[], Finding]] = [_python, _cores, _memory, _cpu, _gpu, lambda: _disk(store), _faiss, _java]
    checks += [lambda: _hub(hub)]
    for check in checks:
        try:
            yield check()
        except Exception as error:  # a check that fails is a finding, not the end
            name, reason = getattr(check, "__name__", "check").strip("_<>"), f"{type(error).__name__}: {error}"
            yield Finding(name, "note", f"failed ({reason})", "the others are not affected")
    try:
        yield from list(_requirements())
    except (ImportError, ValueError) as error:  # PackageNotFoundError is an ImportError
        yield Finding("versions", "note", f"could not be read ({error})", "install hardneg with pip to see them")


def _python() -> Finding:
    version = f"Python {sys.version.split()[0]}, {sys.executable}"
    return Finding("python", "ok", version, "plugins are those installed for this Python")


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    meaning = "enough for the demo presets" if count > 1 else "the demo presets take twice as long as on two cores"
    return Finding("cores", "ok" if count > 1 else "note", str(count), meaning)


def _memory() -> Finding:
    total, free = memory()
    few = free < 3 * _GIB
    more = ": close other programs first" if few else "; larger corpora no more"
    meaning = f"the demo presets need about 2 GB{more}"
    return Finding("memory", "note" if few else "ok", f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free", meaning)


def memory() -> tuple[int, int]:
    """Bytes of memory in all and available, within the limits of the control group."""
    import psutil

    in_use = psutil.virtual_memory()
    total, free = in_use.total, in_use.available
    group = Path("/sys/fs/cgroup")
    limits = [path.read_text().strip() for path in (group / "memory.max", group / "memory.current") if path.exists()]
    if len(limits) == 2 and limits[0].isdigit():
        total, free = min(total, int(limits[0])), min(free, int(limits[0]) - int(limits[1]))
    return total, free


def _cpu() -> Finding:
    bf16 = bf16_on_cpu()
    meaning = "auto precision and large searches compute in bf16" if bf16 else "auto precision is fp32 without a GPU"
    return Finding("cpu", "ok", f"{cpu_name()}, {'with' if bf16 else 'without'} units for bfloat16", meaning)


def _gpu() -> Finding:
    if not _graphics_card():
        return Finding("gpu", "note", "none", "recipes run on the CPU; the paper presets want a GPU")
    import torch

    if not torch.cuda.is_available():
        meaning = "recipes run on the CPU: check the driver, or install a torch build for this GPU"
        return Finding("gpu", "note", f"there is one, but torch {torch.__version__} cannot use it", meaning)
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("gpu", "ok", ", ".join(names), "used by default; `--device cpu` avoids it")


def _graphics_card() -> bool:
    return bool(
        shutil.which("nvidia-smi") or next(Path("/dev").glob("nvidia[0-9]*"), None) or Path("/dev/kfd").exists()
    )


def _disk(store: Path) -> Finding:
    free = free_bytes(store)
    if not os.access(next(folder for folder in (store, *store.parents) if folder.exists()), os.W_OK):
        return Finding("store", "note", f"{store} cannot be written", "no recipe can run: choose another with --store")
    meaning = "the demo takes 0.2 GB, MS MARCO's 8.8 million passages of 768 dimensions 27 GB a model"
    return Finding("store", "ok" if free > _GIB else "note", f"{free / 1e9:.1f} GB free at {store}", meaning)


def _faiss() -> Finding:
    if not importlib.util.find_spec("faiss"):
        meaning = 'nothing of a dense recipe needs it; Pyserini\'s searcher does: pip install "hardneg[cpu]"'
        return Finding("faiss", "missing", "not installed", meaning)
    builds = sorted({str(item.name) for item in importlib.metadata.distributions() if _BUILDS.match(str(item.name))})
    if len(builds) > 1:
        wanted = next((name for name in builds if ("gpu" in name) == bool(_graphics_card())), builds[0])
        command = f"pip uninstall -y {' '.join(builds)} && pip install {wanted}"
        meaning = f"both write into faiss/, so imports may fail, or find no GPU; install one alone: {command}"
        return Finding("faiss", "note", " and ".join(builds), meaning)
    meaning = "indexes made here can be opened with faiss and Pyserini"
    return Finding("faiss", "ok", builds[0] if builds else "installed", meaning)


def _java() -> Finding:
    from hardneg.records.errors import MissingDependency
    from hardneg.records.named_plugins import BM25

    if not importlib.util.find_spec("pyserini"):
        return Finding(BM25, "missing", "Pyserini is not installed", 'no BM25: pip install "hardneg[lucene]"')
    try:
        java = find_java()
    except MissingDependency as error:
        return Finding(BM25, "missing", "no fitting Java", str(error))
    speed = "" if java.has_vector else "; a JDK with jdk.incubator.vector is faster"
    if starts_alone():
        return Finding(BM25, "ok", f"Pyserini, Java {java.version} in {java.home}", f"BM25 works{speed}")
    first = first_java()
    alone = f"Java {first.version} in {first.home}, which does not fit" if first else "no Java that it finds"
    meaning = f"BM25 works{speed}; Pyserini alone would start {alone}: call hardneg.plugin.start_java() first"
    return Finding(BM25, "note", f"Pyserini, Java {java.version} in {java.home}", meaning)


def _hub(ask: bool) -> Finding:
    meaning = "models and datasets must be folders, packaged, or in the hub's cache; the demo presets need no more"
    switches = (os.environ.get(name, "").upper() for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    if {"1", "ON", "YES", "TRUE"}.intersection(switches):
        return Finding("hub", "note", "switched off by HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE", meaning)
    if not ask:
        return Finding("hub", "note", "not asked", meaning)
    import urllib.error
    import urllib.request

    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_HUB_SECONDS):
            pass
    except urllib.error.HTTPError:
        pass  # it answers
    except (OSError, ValueError) as error:
        return Finding("hub", "note", f"{address} does not answer ({getattr(error, 'reason', error)})", meaning)
    return Finding("hub", "ok", f"{address} answers", "the paper presets can fetch their models and datasets")


def _requirements() -> Iterator[Finding]:
    """One finding for what the core requires, one for each extra."""
    from packaging.requirements import Requirement

    extras = ["", *(importlib.metadata.metadata("hardneg").get_all("Provides-Extra") or [])]
    wanted: dict[str, list[Requirement]] = {"": []}
    for item in map(Requirement, importlib.metadata.requires("hardneg") or []):
        of = [extra for extra in extras if not item.marker or item.marker.evaluate({"extra": extra})]
        if of and item.name != "hardneg":
            wanted.setdefault(of[0], []).append(item)
    for extra, items in wanted.items():
        subject = f"versions [{extra}]" if extra else "versions"
        if not (problems := [problem for item in items if (problem := _unfit(item.name, item.specifier))]):
            yield Finding(
                subject, "ok", f"{len(items)} packages, all within the declared ranges", "they fit each other"
            )
        elif extra:
            meaning = f'only if you need it: pip install "hardneg[{extra}]"'
            yield Finding(subject, "missing", "; ".join(problems), meaning)
        else:
            yield Finding(subject, "broken", "; ".join(problems), "recipes cannot run: pip install hardneg")


def _unfit(name: str, specifier: Any) -> str:
    """Why the installed version of a distribution does not fit, empty where it does."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} is not installed"
    return "" if specifier.contains(version, prereleases=True) else f"{name} {version} is not {specifier}"


def declared(name: str) -> "tuple[Path, str, Contract]":
    """The folder, the family and the contract of a model whose files are on this machine; downloads nothing.

    Raises:
        ModelError: they are not.
    """
    from hardneg.encoders.open.resolved import resolve

    model = resolve(name)
    if model.folder is None and (commit := model.location.commit) is not None:
        there = f"on the hub (commit {commit[:12]}), not on this machine"
        raise ModelError(f"model {name!r}: {there}: fetch it with `hf download {name}`")
    return model.path, getattr(model.family, "called", ""), model.contract


def contract_lines(contract: "Contract") -> Iterator[tuple[str, str]]:
    """What a model says of itself: a word and its value."""
    from hardneg.encoders.open.contract import tokens_read

    yield "query prompt", _prompt(contract.query_prompt)
    yield "document prompt", _prompt(contract.document_prompt)
    others = {name: text for name, text in contract.prompts.items() if name not in ("query", "document")}
    for name, text in others.items():
        yield f"prompt {name}", f"{_prompt(text)}, kept and not used"
    yield "similarity", contract.similarity
    yield "normalised", "yes" if contract.normalised else "no"
    yield "pooling", contract.pooling or "none of its own"
    read_of = (tokens_read(length) for length in (contract.query_length, contract.document_length))
    yield "lengths", "{} tokens of a query, {} of a document".format(*read_of)
    cut = f", cut to {contract.truncate_dim}" if contract.truncate_dim else ""
    yield "dimensions", f"{contract.dimension or 'not declared'}{cut}"
    yield "dtype", contract.dtype
    for name, decides in contract.code.items():
        needed = "set code: native of the model if" if decides else "its configuration says that"
        yield "own code", f"{name}: not run; {needed} transformers' own computes the same"


def _prompt(text: str) -> str:
    return repr(text) if text else "none"
