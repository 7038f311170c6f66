"""What the kinds of encoders share that lie in a folder or on the hub: what is known of them before they are opened."""

from typing import ClassVar

from hardneg.encoders.adapters.base import fetch_whole
from hardneg.encoders.configuration import Shape, model_shape
from hardneg.encoders.contract import known, resolve
from hardneg.encoders.identity import model_digest
from hardneg.encoders.source import look_up
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.types import Lookup


class FolderKind:
    """A kind whose models are files."""

    trainable: ClassVar[bool] = True

    def resolve(self, spec: ModelSpec) -> FullSpec:
        """The spec with what the model's folder says."""
        return resolve(*fetch_whole(spec))

    def known(self, spec: ModelSpec) -> FullSpec | None:
        """The same, if the files are on this machine and readable."""
        return known(spec)

    def digest(self, spec: ModelSpec) -> str:
        """That of the files' content and the options."""
        return model_digest(spec)

    def look_up(self, spec: ModelSpec) -> Lookup:
        """The files' bytes."""
        return look_up(spec)

    def shape(self, spec: ModelSpec) -> Shape:
        """By the configuration."""
        return model_shape(spec)
