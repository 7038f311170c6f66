"""The kind `dense`: a transformer with one vector a text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hardneg.encoders.folder_kind import FolderKind
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import ModelSpec

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.fastest import Precision


@dataclass(frozen=True)
class Dense(FolderKind):
    """A transformer with a pooling: one vector a text, compared by the inner product."""

    called: ClassVar[str] = "dense"
    version: ClassVar[int] = 1
    form: ClassVar[Form] = "vectors"

    def load(self, spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> "Encoder":
        """The model that the spec describes, in evaluation mode.

        Raises:
            ModelError: the model is not there, or it cannot do what the spec says.
        """
        from hardneg.encoders.adapters.base import fetch_whole
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.fastest import weights_dtype
        from hardneg.encoders.files import check_files
        from hardneg.encoders.load import load_module

        spec, folder = fetch_whole(spec)
        check_files(folder)
        full, dtype = self.full(spec, folder), weights_dtype(spec, precision)
        return Encoder(load_module(full, folder, device, dtype, learns=precision is None), full)
