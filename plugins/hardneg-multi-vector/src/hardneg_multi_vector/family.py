"""The family `multi-vector`: a vector for each token of a text, compared by MaxSim."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.encoders.families.adapters.adapter_source import adapter_of
from hardneg.encoders.open.configuration import own_length, transformer_options
from hardneg.encoders.open.contract import CONFIG, Contract, filled_values, own_prompts, saved_values
from hardneg.encoders.open.model_files import json_object, sides
from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import SHORTEST, SIDES, FullSpec, ModelSpec, Precision, Side
from hardneg.records.errors import ModelError
from hardneg.records.types import PluginSetting
from hardneg.store.digest import digest
from hardneg.store.identity import options_in_key

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

SIMILARITIES = ("maxsim", "meanmaxsim")
METADATA = "artifact.metadata"
STANFORD = "HF_ColBERT"
"""The architecture that a folder of Stanford's ColBERT names."""

_FILLED = 32  # by sentence-transformers for queries of older formats that set no length
_OLDER = [f"{side}_{name}" for side in SIDES for name in ("length", "prefix")]
_OLDER += ["query_expansion", "do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"]
_OLDER += ["skiplist_words"]
_OF_ONE_VECTOR = ["pooling", "projection", "layer_norm", "activation", "truncate_dim", "twins"]
_OF_ONE_VECTOR += ["query_token_type", "document_token_type"]


@dataclass(frozen=True)
class LateInteractionContract:
    """How a late-interaction model is used.

    form: `sentence-transformers`, `pylate` (its version 3 and before) or `stanford`; "" is a model that was trained for
        other tasks, whose token vectors can be used.
    prompts: all of them by name, with those of queries and documents. lengths: tokens that are read, by side.
    filled: the number of tokens that queries are padded to; 0: they are not.
    options: settings of modules that older formats keep outside of the modules' own files.
    """

    form: str
    similarity: str
    prompts: Mapping[str, str]
    lengths: Mapping[Side, int]
    filled: int
    options: Mapping[str, Any]


def read_late_interaction(folder: Path) -> LateInteractionContract:
    """Reads the contract from a model's folder.

    Source: `MultiVectorEncoder._parse_model_config` and `_maybe_load_stanford_metadata` of sentence-transformers 6.

    Raises:
        ModelError: a file is not readable, or a value has the wrong type.
    """
    config = json_object(folder / CONFIG)
    if STANFORD in (json_object(folder / "config.json").get("architectures") or ()):
        return _stanford(folder)
    model_type = config.get("model_type")
    form = {"MultiVectorEncoder": "sentence-transformers", "ColBERT": "pylate"}.get(str(model_type), "")
    options = {name: config[name] for name in _OLDER if name in config} if form else {}
    transformer = sides(folder)["query"][0]
    own = transformer_options(transformer) if form else {}
    older = options.get("query_expansion")
    if options and "query_expansion" not in options and options.get("do_query_expansion") is not False:
        older = {"strategy": "fixed", "length": options.get("query_length") or _FILLED}  # as PyLate fills queries
    expansion = own.get("query_expansion", older)
    filled = _count(expansion.get("length"), folder) if isinstance(expansion, dict) else 0
    lengths = {side: _length(folder, side, options) for side in SIDES}
    if filled:
        fixed = isinstance(expansion, dict) and expansion.get("strategy") == "fixed"
        lengths["query"] = filled if fixed else max(filled, lengths["query"])
    declared = config.get("similarity_fn_name")
    similarity = str(declared) if declared in SIMILARITIES else "maxsim"
    return LateInteractionContract(form, similarity, _prompts(config, folder), lengths, filled, options)


def _stanford(folder: Path) -> LateInteractionContract:
    metadata = json_object(folder / METADATA)
    filled = _count(metadata.get("query_maxlen") or _FILLED, folder)
    prompts = {
        "query": f"{metadata.get('query_token_id') or '[unused0]'} ",
        "document": f"{metadata.get('doc_token_id') or '[unused1]'} ",
    }
    length = metadata.get("doc_maxlen")
    document = own_length(folder, "document", trained=False)[0] if length is None else _count(length, folder)
    return LateInteractionContract(
        "stanford", "maxsim", prompts, {"query": filled, "document": document}, filled, metadata
    )


def _length(folder: Path, side: Side, options: Mapping[str, Any]) -> int:
    transformer, declared = sides(folder)[side][0], options.get(f"{side}_length")
    if declared is not None and transformer_options(transformer).get(f"{side}_length") is None:
        return _count(declared, folder)
    return own_length(transformer, side, (folder / "modules.json").exists())[0]


def _prompts(config: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """By name; PyLate's markers stand before the prompts of queries and documents."""
    prompts = own_prompts(config, folder)
    for side in SIDES:
        if (marker := config.get(f"{side}_prefix")) is not None:
            prompts[side] = str(marker) + prompts[side].removeprefix(str(marker))
    return prompts


def _count(value: Any, folder: Path) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ModelError(f"model {folder}: {value!r} is no number of tokens: copy the model again")


@dataclass(frozen=True)
class LateInteraction(FolderFamily):
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
    later: ClassVar[frozenset[str]] = frozenset({"dimension", "query_expansion", "skiplist", "normalise"})
    form: ClassVar[Form] = "token-vectors"
    own: ClassVar[tuple[str, ...]] = ("MultiVectorEncoder", "ColBERT", STANFORD)

    def full(self, model: ResolvedModel) -> FullSpec:
        """The spec, filled in from the model's folder.

        Raises:
            ModelError: the folder is not readable, or does not support what the spec sets.
        """
        self.check_class(model.path)
        spec, contract, interaction = model.spec, model.contract, read_late_interaction(model.path)
        if self.query_expansion:
            contract = replace(contract, query_length=self.query_expansion)
        values = filled_values(spec, contract, adapter_of(spec, model.path))
        options = options_in_key(self)
        if options.get("query_expansion") == interaction.filled:
            del options["query_expansion"]
        setting = PluginSetting("multi-vector", options) if options or not interaction.form else None
        full = FullSpec(**values | {"encoder": setting})
        if problems := self._problems(spec, full, interaction):
            raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
        return full

    def contract(self, folder: Path) -> Contract:
        """The contract of a folder. Raises ModelError where it holds no whole model."""
        interaction = read_late_interaction(folder)
        own = {
            "similarity": interaction.similarity,
            **{f"{side}_prompt": interaction.prompts[side] for side in SIDES},
            **{f"{side}_length": interaction.lengths[side] for side in SIDES},
            **saved_values(folder),
        }
        return replace(super().contract(folder), **own, prompts=interaction.prompts, pooling="", odd=())

    def filled(self, interaction: LateInteractionContract) -> int:
        """The number of tokens that queries are padded to; 0: they are not."""
        return interaction.filled if self.query_expansion is None else self.query_expansion

    def _problems(self, spec: ModelSpec, full: FullSpec, interaction: LateInteractionContract) -> list[str]:
        lines = []
        if wrong := spec.changed(_OF_ONE_VECTOR):
            lines.append(f"{', '.join(wrong)}: not for token vectors, leave that out")
        if full.similarity not in SIMILARITIES:
            lines.append(f"similarity is {full.similarity!r}: token vectors have maxsim or meanmaxsim")
        if wrong := [f"{side}_length is {full.length(side)}" for side in SIDES if full.length(side) < SHORTEST]:
            lines.append(f"{', '.join(wrong)}: at least {SHORTEST} tokens are needed")
        if full.query_length < self.filled(interaction):
            lines.append(
                f"query_length is {full.query_length}: queries are filled up to {self.filled(interaction)} tokens"
            )
        if self.dimension is not None and (interaction.form or self.dimension < 1):
            says = "it has its own" if interaction.form else "give a number of dimensions"
            lines.append(f"encoder.dimension is {self.dimension}: {says}, or leave it out")
        if self.query_expansion is not None and self.query_expansion < 0:
            lines.append(f"encoder.query_expansion is {self.query_expansion}: give a number of tokens, 0 is none")
        return lines

    def content_digest(self, model: ResolvedModel) -> str:
        """The digest of the files' content and the options, also those of older formats outside of their modules."""
        name = super().content_digest(model)
        options = read_late_interaction(model.path).options if len(model.origins) == 1 else {}
        return digest([name, dict(options)]) if options else name

    def load(self, model: ResolvedModel, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in evaluation mode. Raises ModelError: it does not support what its spec sets."""
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.families.multi_vector.load_multi_vector import load_multi_vector
        from hardneg.encoders.families.multi_vector.token_vectors import VectorAToken

        module = load_multi_vector(self, model, device, precision)
        return Encoder(module, model.full, VectorAToken(model.full.similarity == "meanmaxsim"))
