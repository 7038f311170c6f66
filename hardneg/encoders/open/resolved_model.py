"""A model that was located once, and the base of the families of encoders whose models are folders or on the hub."""

from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from hardneg.encoders.families.adapters.adapter_base import adapter_of
from hardneg.encoders.families.adapters.adapter_source import look_up_adapter
from hardneg.encoders.families.static.static_files import table_files
from hardneg.encoders.open.configuration import Shape, model_shape, warn
from hardneg.encoders.open.contract import CONFIG, Contract, filled, read_contract, saved_class
from hardneg.encoders.open.model_digest import digest_of, model_content
from hardneg.encoders.open.model_files import json_object
from hardneg.encoders.open.source import Location
from hardneg.encoders.protocol import EncoderFamily
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.records.errors import ModelError, PluginError
from hardneg.records.types import Lookup, PluginSetting
from hardneg.registry.plugins import configure, load_plugin, plugin_names


@dataclass(frozen=True)
class ResolvedModel:
    """A model that was located once.

    spec: its description; of an adapter alone, that of its base with the adapter. location: of the files of
    `spec.name`. family: the plugin that knows such models. origins: the spec as it was written with its location, and
    `spec` with `location` where that is another one.
    """

    spec: ModelSpec
    location: Location
    family: EncoderFamily
    origins: tuple[tuple[ModelSpec, Location], ...]

    @classmethod
    def of(
        cls, origins: tuple[tuple[ModelSpec, Location], ...], family: EncoderFamily | None, whole: bool
    ) -> "ResolvedModel":
        """The model of the last of its origins; whole: its spec is filled in at once, as loading needs it.

        family: None is the one that claims the folder.

        Raises:
            ModelError: only with `whole`: the folder holds no whole model, or does not support what the spec sets.
        """
        spec, location = origins[-1]
        model = cls(spec, location, family or claiming(location.folder), origins)
        if whole:
            _ = model.full
        return model

    @property
    def folder(self) -> Path | None:
        """The folder of its files; None where they are not on this machine, and for a model without files."""
        return self.location.folder

    @cached_property
    def path(self) -> Path:
        """The same. Raises ModelError where there is none."""
        return self.location.path

    @property
    def known_family(self) -> EncoderFamily | None:
        """Its family, where the spec names it or the model is on this machine; None where it is not known yet."""
        spec, location = self.origins[0]
        return None if spec.encoder is None and location.folder is None else self.family

    @cached_property
    def contract(self) -> Contract:
        """How its folder declares that it is used.

        Raises:
            ModelError: its files are not on this machine, incomplete or not readable; or its family has no files.
        """
        if not isinstance(self.family, FolderFamily):
            raise ModelError(f"model {self.spec.name!r}: its family has no files that declare how it is used")
        return self.family.contract(self.path)

    @property
    def facts(self) -> dict[str, list[str]]:
        """What a manifest tells of it: the code of its own that it names, if any."""
        here = self.folder is not None and isinstance(self.family, FolderFamily)
        return {"code not run": [*self.contract.code]} if here and self.contract.code else {}

    @cached_property
    def full(self) -> FullSpec:
        """The spec, filled in with the model's own values. Raises ModelError where these are not available."""
        return self.family.full(self)

    @property
    def known(self) -> FullSpec | None:
        """The same; None where it is not known without a download."""
        try:
            return self.full
        except (ModelError, OSError):
            return None

    @property
    def dimension(self) -> int | None:
        """The size of a vector, or the number of terms; None where the local files do not declare it."""
        if size := self.spec.truncate_dim or self.spec.projection:
            return size
        try:
            return self.contract.truncate_dim or self.contract.dimension
        except (ModelError, OSError):
            return None

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that identify the model; others whenever its encoding of a text may differ.

        Raises:
            ModelError: there is no such model, or it is of another family than the spec says.
        """
        return self.family.digest(self)

    def look_up(self) -> Lookup:
        """The files to read. Raises ModelError where there are none."""
        return self.family.look_up(self)

    @property
    def shape(self) -> Shape:
        """The shape that decides its cost."""
        return self.family.shape(self)

    @property
    def remarks(self) -> list[str]:
        """Remarks for the user before its files become a model of its family."""
        if self.folder is None or not isinstance(self.family, FolderFamily):
            return []
        return self.family.remarks(self.folder)


def claiming(folder: Path | None) -> EncoderFamily:
    """The family that claims a folder, with its default options; the most special ones claim first."""
    families: dict[str, Any] = {}
    for name in plugin_names("encoders") if folder is not None else ():
        try:
            family = load_plugin("encoders", name)
        except PluginError as error:
            warn(f"{error}; it claims no model's folder")
        else:
            families |= {name: family} if hasattr(family, "claims") else {}
    for name in sorted(families, key=lambda name: -getattr(families[name], "special", 1)):
        with suppress(ModelError, OSError, LookupError, TypeError, ValueError, AttributeError):  # opening it tells
            if families[name].claims(folder):
                return cast(EncoderFamily, configure("encoders", PluginSetting(name)))
    return cast(EncoderFamily, configure("encoders", PluginSetting("dense")))


class FolderFamily:
    """A family whose models are files.

    called: its name among encoders. own: classes of sentence-transformers and architectures that only its folders have.
    tables: whether folders with a table of token vectors are its own.
    special: families with a higher number claim folders first.
    """

    called: ClassVar[str]
    own: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[bool] = False
    special: ClassVar[int] = 0
    trainable: ClassVar[bool] = True

    @classmethod
    def claims(cls, folder: Path) -> bool:
        """Whether a folder declares this family, by a table, the class that saved it or its architecture."""
        if cls.tables:
            return table_files(folder) is not None
        names = json_object(folder / "config.json").get("architectures") or ()
        return any(name in cls.own for name in (json_object(folder / CONFIG).get("model_type"), *names))

    def check_class(self, folder: Path) -> None:
        """Refuses a folder that was saved by a class of another family."""
        table = not self.tables and table_files(folder) is not None
        if table or saved_class(folder) not in ("SentenceTransformer", *self.own):
            other = "static model" if table else saved_class(folder)
            raise ModelError(f"model {folder}: a {other}, not a {self.called} encoder: use another model or encoder")

    def contract(self, folder: Path) -> Contract:
        """The contract of a folder. Raises ModelError where it holds no whole model."""
        return read_contract(folder)

    def full(self, model: ResolvedModel) -> FullSpec:
        """The spec, filled in from the model's folder.

        Raises:
            ModelError: the folder is of another family, holds no whole model, or does not support what the spec sets.
        """
        self.check_class(model.path)
        return filled(model.spec, model.contract, adapter_of(model.spec, model.path))

    def remarks(self, folder: Path) -> list[str]:
        """Remarks for the user before a model in a folder becomes one of this family."""
        return []

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """Whether sentence-transformers alone opens a folder with the same vectors.

        others: the fields that a spec sets and the folder does not.
        """
        return True

    def digest(self, model: ResolvedModel) -> str:
        """The digest of the files' content and the options; of a model on the hub, of its commit.

        Raises:
            ModelError: there is no such model, it is of another family, or the hub cannot be reached.
        """
        if model.folder is not None:
            self.check_class(model.folder)
        for spec, location in model.origins:
            if location.commit is not None:
                return digest_of(model_content(location), spec)
        return self.content_digest(model)

    def content_digest(self, model: ResolvedModel) -> str:
        """The digest of a folder."""
        return digest_of(model_content(model.location), model.full)

    def look_up(self, model: ResolvedModel) -> Lookup:
        """The size of the files, with those of an adapter."""
        files, adapter = model.location.look_up(), look_up_adapter(model.spec.adapter)
        return Lookup(files.there + adapter.there, files.ahead + adapter.ahead, files.note or adapter.note)

    def shape(self, model: ResolvedModel) -> Shape:
        """The shape in the configuration."""
        return model_shape(model.spec.name, model.folder)
