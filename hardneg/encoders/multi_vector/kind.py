"""The kind `multi-vector`: a vector for each token of a text, compared by MaxSim."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.digest import digest
from hardneg.encoders.adapters.base import adapter_of, fetch_whole
from hardneg.encoders.configuration import Shape
from hardneg.encoders.contract import OWN, Contract, saved_values
from hardneg.encoders.folder_kind import FolderKind
from hardneg.encoders.identity import model_digest
from hardneg.encoders.multi_vector.contract import SIMILARITIES, LateInteractionContract, read_late_interaction
from hardneg.encoders.prompts import whole_prompts
from hardneg.encoders.protocol import Form
from hardneg.encoders.source import HubCommit, at_hand, locate
from hardneg.encoders.spec import KINDS, SHORTEST, FullSpec, ModelSpec
from hardneg.errors import ModelError
from hardneg.types import PluginSetting

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.fastest import Precision

_OF_ONE_VECTOR = ["pooling", "projection", "layer_norm", "activation", "truncate_dim", "twins"]
_OF_ONE_VECTOR += ["query_token_type", "document_token_type"]


@dataclass(frozen=True)
class LateInteraction(FolderKind):
    """Late interaction, as ColBERT has it: a vector for each token, compared by MaxSim.

    A folder of sentence-transformers' `MultiVectorEncoder`, of PyLate or of Stanford's ColBERT is taken as it is. Of
    any other transformer the last layer's token vectors are taken, as the options say.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020).

    Args:
        dimension: size that token vectors are projected to, by directions that are a right angle apart; none: as large
            as they are.
        query_expansion: up to how many tokens queries are filled with [MASK]; 0: not at all; none: as the folder says.
        skiplist: tokens of documents that are not scored; `own` is what the folder says.
        normalise: whether token vectors have norm 1; none: as the folder says.
    """

    dimension: int | None = None
    query_expansion: int | None = None
    skiplist: Literal["own", "none", "punctuation"] = "own"
    normalise: bool | None = None
    called: ClassVar[str] = "multi-vector"
    version: ClassVar[int] = 1
    form: ClassVar[Form] = "token-vectors"
    classes: ClassVar[tuple[str, ...]] = ("SentenceTransformer", "MultiVectorEncoder", "ColBERT")

    def full(self, spec: ModelSpec, folder: Path) -> FullSpec:
        """The spec with what the model's folder says.

        Raises:
            ModelError: the folder is not readable, or cannot be used as the spec says.
        """
        self.check_class(folder)
        told = read_late_interaction(folder)
        own = self._own(folder, told)
        if self.query_expansion:
            own["query_length"] = self.query_expansion
        values = {item.name: getattr(spec, item.name) for item in fields(spec)}
        values |= {name: own[name] for name in OWN if values[name] is None}
        asked = {f"{kind}_prompt": values[f"{kind}_prompt"] for kind in KINDS}
        values |= whole_prompts(spec.name, asked, spec.task, told.prompts)
        values |= {"adapter": adapter_of(spec, folder), "task": None, "encoder": self._setting(told)}
        full = FullSpec(**values)
        if problems := self._problems(spec, full, told):
            raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
        return full

    def contract(self, folder: Path) -> Contract:
        """What a folder says. Raises ModelError where it holds no whole model."""
        told = read_late_interaction(folder)
        whole = super().contract(folder)
        return replace(whole, **self._own(folder, told), prompts=told.prompts, pooling="", odd=())

    def _own(self, folder: Path, told: LateInteractionContract) -> dict[str, Any]:
        """The folder's own values of a spec; what hardneg has written of its own model comes first."""
        return {
            "similarity": told.similarity,
            **{f"{kind}_prompt": told.prompts[kind] for kind in KINDS},
            **{f"{kind}_length": told.lengths[kind] for kind in KINDS},
            **saved_values(folder),
        }

    def shape(self, spec: ModelSpec) -> Shape:
        """By the configuration, and the size of what token vectors are projected to."""
        folder = at_hand(spec)
        try:
            own = self.contract(folder).dimension if folder else None
        except (ModelError, OSError):
            own = None
        return replace(super().shape(spec), vector=self.dimension or own)

    def filled(self, told: LateInteractionContract) -> int:
        """Up to how many tokens queries are filled; 0: they are not."""
        return told.filled if self.query_expansion is None else self.query_expansion

    def _setting(self, told: LateInteractionContract) -> PluginSetting | None:
        """Itself, with the options that say something else than the folder does; none where that says it all."""
        options = {name: value for name, value in asdict(self).items() if value != getattr(LateInteraction, name)}
        if options.get("query_expansion") == told.filled:
            del options["query_expansion"]
        return PluginSetting("multi-vector", options) if options or not told.form else None

    def _problems(self, spec: ModelSpec, full: FullSpec, told: LateInteractionContract) -> list[str]:
        found = []
        if asked := [name for name in _OF_ONE_VECTOR if getattr(spec, name) != getattr(ModelSpec, name)]:
            found.append(f"{', '.join(asked)}: not for token vectors, leave that out")
        if full.similarity not in SIMILARITIES:
            found.append(f"similarity is {full.similarity!r}: token vectors have maxsim or meanmaxsim")
        if asked := [f"{kind}_length is {full.length(kind)}" for kind in KINDS if full.length(kind) < SHORTEST]:
            found.append(f"{', '.join(asked)}: at least {SHORTEST} tokens are needed")
        if full.query_length < self.filled(told):
            found.append(f"query_length is {full.query_length}: queries are filled up to {self.filled(told)} tokens")
        if self.dimension is not None and (told.form or self.dimension < 1):
            says = "it has its own" if told.form else "give a number of dimensions"
            found.append(f"encoder.dimension is {self.dimension}: {says}, or leave it out")
        if self.query_expansion is not None and self.query_expansion < 0:
            found.append(f"encoder.query_expansion is {self.query_expansion}: give a number of tokens, 0 is none")
        return found

    def digest(self, spec: ModelSpec) -> str:
        """By the files' content and the options."""
        found, name = locate(spec), model_digest(spec, self.full)
        if isinstance(found, HubCommit) or not (options := read_late_interaction(found).options):
            return name
        return digest([name, dict(options)])

    def load(self, spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> "Encoder":
        """The model that the spec describes, in evaluation mode.

        Raises:
            ModelError: the model is not there, or it cannot do what the spec says.
        """
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.fastest import weights_dtype
        from hardneg.encoders.files import check_files
        from hardneg.encoders.multi_vector.load import load_multi_vector
        from hardneg.encoders.multi_vector.token_vectors import VectorAToken

        spec, folder = fetch_whole(spec)
        check_files(folder)
        full, dtype = self.full(spec, folder), weights_dtype(spec, precision)
        module = load_multi_vector(self, full, folder, device, dtype, learns=precision is None)
        return Encoder(module, full, VectorAToken(full.similarity == "meanmaxsim"))
