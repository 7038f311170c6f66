"""The resolution of a model: from its name to its location, family, contract, digest and weights.

A model is resolved once. Later steps use only the resolved model and its family, not the name.
"""

from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg import registry
from hardneg.encoders import adapters
from hardneg.encoders.open import contract as contracts, model_files
from hardneg.encoders.open.model_files import ModelFolder, read_folder, read_json
from hardneg.encoders.protocol import EncoderFamily, Form, TextEncoder
from hardneg.encoders.spec import TOKEN_TYPES, FullSpec, ModelSpec, Precision
from hardneg.records import SPEC_FILE, HardnegError, Lookup, ModelError, PluginError, PluginSetting
from hardneg.runtime import FIXED, derive_seed
from hardneg.store import digest, file_digest, note_read, options_in_key

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_COUNTED: tuple[str, ...] = ("vocab.txt", "vocab.json", "merges.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab")
_COUNTED += ("bpe.codes", "config.json", "sentence_*_config.json", "model.safetensors.index.json", "tokenizer.json")
_COUNTED += ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
# Library versions, paths, and values that a spec overrides (for a tokenizer's last call see `file_identity`).
_IGNORED = {"__version__", "transformers_version", "_name_or_path", "name_or_path", "is_local", "local_files_only"}
_IGNORED |= {"tokenizer_file", "special_tokens_map_file", "max_seq_length", "model_max_length", "truncation", "padding"}
_OTHERS = {"SparseEncoder": "sparse", "SpladePooling": "sparse", "MultiVectorMask": "multi-vector"}
_OTHERS |= dict.fromkeys(("MultiVectorEncoder", "ColBERT", "HF_ColBERT"), "multi-vector")
"""Encoder families by the modules, saved classes and architectures that are unique to them."""


@dataclass(frozen=True)
class ResolvedModel:
    """A located model and its encoder family.

    spec: the given spec or, for an adapter's folder, the spec of the base model with the adapter. location: location of
    the files. family: the encoder family plugin. origins: spec and location as given, then as resolved if different.
    """

    spec: ModelSpec
    location: model_files.Location
    family: EncoderFamily
    origins: tuple[tuple[ModelSpec, model_files.Location], ...]

    @cached_property
    def files(self) -> ModelFolder:
        """The declared contents of the folder. Raises ModelError if files are damaged or not on this machine."""
        return read_folder(self.location.path)

    @property
    def known_family(self) -> EncoderFamily | None:
        """The encoder family; None if the spec sets none and the model must first be downloaded."""
        spec, location = self.origins[0]
        return None if spec.encoder is None and location.folder is None else self.family

    @cached_property
    def contract(self) -> contracts.Contract:
        """The contract that the folder declares. Raises ModelError if files are missing or declare no contract."""
        if not isinstance(self.family, FolderFamily):
            raise ModelError(f"model {self.spec.name!r}: its encoder family has no files that declare a contract")
        return self.family.contract(self.files)

    @property
    def facts(self) -> dict[str, list[str]]:
        """Facts for a manifest: the custom code that the model declares, if any."""
        here = self.location.folder is not None and isinstance(self.family, FolderFamily)
        return {"code not run": [*self.contract.code]} if here and self.contract.code else {}

    @cached_property
    def full(self) -> FullSpec:
        """The spec completed with the model's own values. Raises ModelError if these are not available."""
        return self.family.full(self)

    @property
    def known(self) -> FullSpec | None:
        """The full spec; None if completing it requires a download."""
        with suppress(ModelError, OSError):
            return self.full
        return None

    @property
    def dimension(self) -> int | None:
        """The vector dimension or the number of terms; None if the local files do not declare it."""
        if size := self.spec.truncate_dim or self.spec.projection:
            return size
        with suppress(ModelError, OSError):
            return self.contract.truncate_dim or self.contract.dimension
        return None

    @property
    def digest(self) -> str:
        """The model's digest: 32 hexadecimal digits that change if the encoding of any text may change."""
        return self.family.digest(self)

    def look_up(self) -> Lookup:
        """Return the size in bytes of local files and of files to download. Raises ModelError if there are none."""
        return self.family.look_up(self)

    @property
    def shape(self) -> contracts.Shape:
        """The shape that the files declare; by default the shape of BERT-base."""
        if not isinstance(self.family, FolderFamily):  # no weights here
            return contracts.Shape(getattr(self.family, "dimensions", None) or contracts.BASE.hidden, 0, 0)
        unseen = replace(contracts.BASE, vector=getattr(self.family, "dimension", None) or self.dimension)
        with suppress(HardnegError, OSError):
            weights = sum(path.stat().st_size for path in self.location.path.rglob(model_files.SAFE))
            config = read_json(model_files.network_folder(self.location.path) / "config.json")
            sizes = (config.get("hidden_size"), unseen.hidden), (config.get("num_hidden_layers"), unseen.layers)
            hidden, layers = (size if isinstance(size, int) and size > 0 else usual for size, usual in sizes)
            return contracts.Shape(
                hidden, 0 if self.family.tables else layers, weights or unseen.weights, unseen.vector
            )
        return unseen

    @property
    def remarks(self) -> list[str]:
        """Remarks to show to the user before the files are opened as a model of the family."""
        here = self.location.folder is not None and isinstance(self.family, FolderFamily)
        return self.family.remarks(self.files) if here else []  # type: ignore[attr-defined]


def resolve(model: str | ModelSpec, fetch: bool = False, family: EncoderFamily | None = None) -> ResolvedModel:
    """Resolve a model by name or spec: locate its files and determine its encoder family.

    fetch: whether to download missing files and complete the spec; a missing or unsuitable model is then an error.
    family: None uses the family in the spec, else the family that claims the folder, else `dense`.

    Raises PluginError if the family does not exist, or an option is invalid. Raises ModelError if the model cannot be
    fetched, or an adapter does not declare a base model.
    """
    spec = ModelSpec(model) if isinstance(model, str) else model
    if family is None and spec.encoder is not None:
        family = registry.configure("encoders", spec.encoder)
    if family is not None and not hasattr(family, "claims"):  # its models have no folder
        elsewhere = model_files.Location(spec.name, spec.revision)
        return ResolvedModel(spec, elsewhere, family, ((spec, elsewhere),))
    location = model_files.locate(spec.name, spec.revision, fetch)
    folder, origins = location.folder, [(spec, location)]
    if folder is not None and (folder / model_files.ADAPTER).is_file() and not (folder / "modules.json").is_file():
        origins.append(adapters.with_base(spec, location))
        folder = origins[-1][1].folder
    families: dict[str, Any] = {}
    for name in registry.plugin_names("encoders") if folder is not None and family is None else ():
        try:
            families[name] = registry.load_plugin("encoders", name)
        except PluginError as error:
            contracts.warn(f"{error}; ignored when detecting families")
    claiming = "dense"
    for name in sorted(families, key=lambda name: -getattr(families[name], "special", 1)):
        with suppress(ModelError, OSError, LookupError, TypeError, ValueError, AttributeError):
            if families[name].claims(folder):  # opening a damaged model reports its faults
                claiming = name
                break
    family = family or registry.configure("encoders", PluginSetting(claiming))
    resolved = ResolvedModel(*origins[-1], family, tuple(origins))
    if fetch:
        _ = resolved.full
    return resolved


@dataclass
class ResolvedModels:
    """The models of a recipe, each resolved once."""

    resolved: dict[str, ResolvedModel] = field(default_factory=dict)

    def of(self, spec: ModelSpec, fetched: bool = False) -> ResolvedModel:
        """Return the resolved model. fetched: whether to look again for missing files. Raises errors of `resolve`."""
        model = self.resolved.get(repr(spec))
        if model is None or (fetched and model.location.folder is None):
            model = self.resolved[repr(spec)] = resolve(spec)
        return model

    def full(self, spec: ModelSpec) -> ModelSpec:
        """Return the full spec, which resolves to the same model, or `spec` itself if a download is required."""
        model = self.of(spec)
        with suppress(ModelError, OSError):
            spec = model.full
            self.resolved[repr(spec)] = replace(model, spec=spec, origins=((spec, model.location),))
        return spec


class FolderFamily:
    """Base class for encoder families with models in folders.

    called: plugin name. own: sentence-transformers classes and architectures that are unique to this family. tables:
    whether the family claims exactly the folders with a table of token vectors. special: priority; families with a
    higher number are asked first.
    """

    called: ClassVar[str]
    form: ClassVar[Form]
    own: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[bool] = False
    special: ClassVar[int] = 0
    trainable: ClassVar[bool] = True

    @classmethod
    def claims(cls, folder: Path) -> bool:
        """Return whether a folder belongs to this family, based on its token table, saved class or architecture."""
        files = read_folder(folder)
        if cls.tables:
            return contracts.table_files(files) is not None
        names = read_json(folder / "config.json").get("architectures") or ()
        return any(name in cls.own for name in (files.saved_class, *names))

    def check_class(self, files: ModelFolder) -> None:
        """Raise ModelError if the saved class or the modules show that a folder belongs to another family."""
        architectures = read_json(files.path / "config.json").get("architectures") or ()
        modules, saved = files.modules.values(), files.saved_class
        others = [name for name in (saved, *architectures, *modules) if name in _OTHERS and not self.own]
        for family in (_OTHERS[name] for name in others if not self.tables):
            if where := registry.not_installed("encoders", family):
                raise ModelError(f"model {files.path}: belongs to the family {family}, {where}")
        table = not self.tables and contracts.table_files(files) is not None
        if table or saved not in (*self.own, "SentenceTransformer"):
            wrong = f"a {'static model' if table else saved}, not a {self.called} encoder; use another model or encoder"
            raise ModelError(f"model {files.path}: {wrong}")
        if family := next((_OTHERS[name] for name in others if name in modules and not self.tables), ""):
            raise ModelError(f"model {files.path}: has the modules of a {family} encoder; set encoder: {family}")

    def contract(self, files: ModelFolder) -> contracts.Contract:
        """Return the contract of a folder. Raises ModelError if the folder does not contain a complete model."""
        return contracts.read_contract(files)

    def full(self, model: ResolvedModel) -> FullSpec:
        """Return the full spec. Raises ModelError if the folder is incomplete or does not fit the family or spec."""
        self.check_class(model.files)
        return contracts.filled(model.spec, model.contract, model.files, inner=self.form != "token-vectors")

    def remarks(self, files: ModelFolder) -> list[str]:
        """Return remarks to show to the user before a folder is opened as a model of this family."""
        return []

    def opens_alone(self, files: ModelFolder, others: Set[str]) -> bool:
        """Return whether sentence-transformers alone computes the same vectors. others: names of overridden fields."""
        return True

    def digest(self, model: ResolvedModel) -> str:
        """Return a digest of the options and either the hub commit or the files. Raises ModelError if unavailable."""
        if model.location.folder is not None:
            self.check_class(model.files)
        for spec, location in model.origins:
            if location.commit is not None:
                return digest_of(model_content(location), spec)
        return self.content_digest(model)

    def content_digest(self, model: ResolvedModel) -> str:
        """Return the digest of a folder's module files and the full spec. Raises ModelError if files are missing."""
        return digest_of(module_contents(model.location.path), model.full)

    def look_up(self, model: ResolvedModel) -> Lookup:
        """Return the size in bytes of local files and of files to download, adapters included."""
        files, adapter = model.location.look_up(), adapters.look_up_adapter(model.spec.adapter)
        return Lookup(files.there + adapter.there, files.ahead + adapter.ahead, files.note or adapter.note)


def digest_of(content: list[Any], spec: ModelSpec) -> str:
    """Return the digest, 32 hexadecimal digits, of a model's spec and the content of its files.

    For a folder, the spec must be complete, so that the model's own values count. For a hub commit, the spec is used as
    given, since the commit determines the rest; a download then does not change the digest.
    """
    plain: dict[str, Any] = {"encoder": None} if spec.encoder == PluginSetting("dense") else {}
    plain |= {"dtype": "auto"} if spec.dtype == "fp32" else {}  # `auto` rounds float32 weights
    adapter = {} if spec.adapter is None else {"adapter": adapters.adapter_identity(spec.adapter)}
    return digest([content, options_in_key(replace(spec, **plain), {"name", "revision"}) | adapter])


def model_content(location: model_files.Location) -> list[Any]:
    """Return what identifies a model's files: the hub id and commit, or digests of the modules.

    Paths, dates, README and library versions do not count. Raises ModelError if the model does not exist or is
    incomplete, or the hub cannot be reached.
    """
    if location.commit is not None:
        return [location.name, location.commit]
    read_folder(location.path).check()
    return module_contents(location.path)


def module_contents(folder: Path) -> list[Any]:
    """Return digests of a model's module files, with module classes and routes."""
    files = read_folder(folder)
    contents: list[Any] = [list(files.modules.values()), *([files.routes] if files.routes else [])]
    for module in files.modules:
        digests, base = list[list[Any]](), model_files.network_folder(module)
        for place in dict.fromkeys((module, base)):
            note_read(place)
            found = (path for pattern in _COUNTED for path in place.glob(pattern) if path.is_file())
            paths = sorted([*model_files.weight_files(place), *found])
            digests.append([[path.name, file_identity(path)] for path in paths])
        contents += [digests[0], *([adapters.adapter_content(module), more] for more in digests[1:])]
    return contents


def file_identity(path: Path) -> Any:
    """Return a digest of a file's bytes or, for JSON, of the values that no spec overrides, except paths and versions.

    A tokenizer's saved truncation and padding count only if they are on the left and the configuration sets no side.
    """
    if path.suffix != ".json" or path.name == "vocab.json":
        return file_digest(path)
    note_read(path)
    content = read_json(path, object)
    if isinstance(content, dict):
        last = {name: content.get(name) for name in ("truncation", "padding") if path.name == "tokenizer.json"}
        content = {key: value for key, value in content.items() if key not in _IGNORED}
        config = read_json(path.with_name("tokenizer_config.json")) if last else {}
        for name, call in last.items():
            if f"{name}_side" not in config and isinstance(call, dict) and call.get("direction") == "Left":
                content[name] = "Left"
    try:
        return digest(content)
    except ValueError:  # of infinite numbers in some configurations
        return file_digest(path)


def read_spec(folder: Path) -> ModelSpec:
    """Return the spec of a model saved by hardneg, with prompts and lengths. Raises ModelError for other models."""
    path = folder / SPEC_FILE
    if not path.is_file():
        raise ModelError(f"model {folder}: not saved by hardneg (no {SPEC_FILE}); give a spec with its lengths")
    own, content = contracts.saved_values(folder), read_json(path)
    own |= {name: content[name] for name in TOKEN_TYPES if name in content}
    return ModelSpec(str(folder), **own, adapter=adapters.saved_adapter(content.get("adapter"), path))


def load_encoder(model: ModelSpec | Path, device: str | None = None, precision: Precision | None = None) -> TextEncoder:
    """Open a model by spec, or by folder if hardneg saved the model.

    Fields that the spec does not set come from the folder. device: None selects the best available device. precision:
    precision for encoding; None opens the model for training.

    Raises ModelError if the model does not exist, or does not support the spec.
    """
    spec = read_spec(model) if isinstance(model, Path) else model
    if problems := spec.problems():
        raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
    resolved = resolve(spec, fetch=True)
    if (folder := resolved.location.folder) is None:
        return resolved.family.load(resolved, device, precision)
    with opening(f"model {spec.name!r}", folder):
        encoder = resolved.family.load(resolved, device, precision)
        if hasattr(encoder, "check_fit"):
            encoder.check_fit()
    return encoder


def load_learner(model: ModelSpec | Path, device: str | None = None, precision: Precision | None = None) -> "Encoder":
    """Open a model for training, like `load_encoder`. Also raises ModelError if the model is not trainable."""
    return learner(load_encoder(model, device, precision))


def learner(encoder: TextEncoder) -> "Encoder":
    """Return the encoder unchanged. Raises ModelError if the encoder is not trainable."""
    from hardneg.encoders.encoder import Encoder

    if not isinstance(encoder, Encoder):
        raise ModelError(f"model {encoder.spec.name!r} has no local weights to train; use another model")
    return encoder


@contextmanager
def quiet() -> Iterator[None]:
    """Silence progress bars and warnings of transformers, since hardneg checks models itself."""
    from transformers.utils import logging

    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def opening(what: str, folder: Path | str, seed: int = FIXED) -> Iterator[None]:
    """Seed the initialisation of missing weights, and convert errors in the block to ModelErrors about `what`."""
    import torch

    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights that the files lack") >> 1)
        try:
            yield
        except (HardnegError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # libraries raise many classes of errors on a model's files
            lines = (str(error).strip() or type(error).__name__).splitlines()
            reason = " ".join(" ".join(lines[:2]).split())
            raise ModelError(f"{what} cannot be opened ({reason}); check {folder}") from error
