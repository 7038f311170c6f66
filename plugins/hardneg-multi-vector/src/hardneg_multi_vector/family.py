"""The encoder family `multi-vector`, which encodes texts as one vector per token and scores with MaxSim."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from hardneg.plugin import encoding, errors, model_files, model_specs, records, resolving, stores

if TYPE_CHECKING:
    from hardneg.plugin import encoders

SIDES: tuple[model_specs.Side, ...] = get_args(model_specs.Side)
SHORTEST = 3
SIMILARITIES = ("maxsim", "meanmaxsim")
CONFIG, SAVED, METADATA = "config_sentence_transformers.json", "hardneg.json", "artifact.metadata"
STANFORD = "HF_ColBERT"
"""The architecture that models of Stanford's ColBERT declare in `config.json`."""

_FILLED = 32  # default of sentence-transformers for queries in older formats
_OLDER = [f"{side}_{name}" for side in SIDES for name in ("length", "prefix")]
_OLDER += ["query_expansion", "do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"]
_OLDER += ["skiplist_words"]
_OF_ONE_VECTOR = ["pooling", "projection", "layer_norm", "activation", "truncate_dim", "twins"]
_OF_ONE_VECTOR += ["query_token_type", "document_token_type"]


@dataclass(frozen=True)
class LateInteractionContract:
    """The contract of a late-interaction model, as declared by its files.

    form: `sentence-transformers`, `pylate` (up to version 3) or `stanford`; "" for a model trained for other tasks.
    similarity: `maxsim` or `meanmaxsim`. prompts: all prompts by name, including those of queries and documents.
    lengths: maximum number of tokens, by side. filled: number of tokens that queries are padded to; 0 for no padding.
    options: module settings that older formats save outside the modules' own files.
    """

    form: str
    similarity: str
    prompts: Mapping[str, str]
    lengths: Mapping[model_specs.Side, int]
    filled: int
    options: Mapping[str, Any]


def _stanford(folder: Path, contract: Any) -> LateInteractionContract:
    metadata = model_files.read_json(folder / METADATA)
    filled = _count(metadata.get("query_maxlen") or _FILLED, folder)
    markers = {"query": ("query_token_id", "[unused0]"), "document": ("doc_token_id", "[unused1]")}
    prompts = {side: f"{metadata.get(name) or usual} " for side, (name, usual) in markers.items()}
    length = metadata.get("doc_maxlen")
    document = contract.document_length if length is None else _count(length, folder)
    lengths: dict[model_specs.Side, int] = {"query": filled, "document": document}
    return LateInteractionContract("stanford", "maxsim", prompts, lengths, filled, metadata)


def _transformer_options(files: model_files.ModelFolder, side: model_specs.Side) -> Mapping[str, Any]:
    """Return the options that sentence-transformers saved for the transformer of a side; empty if there are none."""
    paths = sorted(files.sides[side][0].glob("sentence_*_config.json"))
    return next((options for path in paths if (options := model_files.read_json(path))), {})


def _count(value: Any, folder: Path) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise errors.ModelError(f"model {folder}: {value!r} is not a number of tokens; copy the model again")


@dataclass(frozen=True)
class LateInteraction(resolving.FolderFamily):
    """Late interaction as in ColBERT: one vector per token, compared by MaxSim.

    Folders saved by sentence-transformers' `MultiVectorEncoder`, PyLate or Stanford's ColBERT need no conversion. Any
    other transformer becomes an encoder that returns the token vectors of its last layer.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020).

    Args:
        dimension: dimension of token vectors after a new random orthonormal projection; none adds no projection.
        query_expansion: query length in tokens after padding with [MASK]; 0 disables padding; none uses the folder's.
        skiplist: document tokens that are not scored: `punctuation`, `none`, or `own` for the folder's list.
        normalise: whether to scale token vectors to norm 1; none uses the folder's setting, or true for a new encoder.
    """

    dimension: int | None = None
    query_expansion: int | None = None
    skiplist: Literal["own", "none", "punctuation"] = "own"
    normalise: bool | None = None
    called: ClassVar[str] = "multi-vector"
    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"dimension", "query_expansion", "skiplist", "normalise"})
    form: ClassVar[encoding.Form] = "token-vectors"
    own: ClassVar[tuple[str, ...]] = ("MultiVectorEncoder", "ColBERT", STANFORD)

    def full(self, model: resolving.ResolvedModel) -> model_specs.FullSpec:
        """Return the full spec. Raises ModelError if the folder cannot be read or does not support the spec."""
        spec, full, interaction = model.spec, super().full(model), self.interaction(model.files, model.contract)
        if self.query_expansion and spec.query_length is None:
            full = replace(full, query_length=self.query_expansion)
        options = stores.plugin_identity(self.called, self)["options"]
        if options.get("query_expansion") == interaction.filled:
            del options["query_expansion"]
        setting = records.PluginSetting("multi-vector", options) if options or not interaction.form else None
        full = replace(full, encoder=setting)
        if problems := self._problems(spec, full, interaction):
            raise errors.ModelError(f"model {spec.name!r}: " + "; ".join(problems))
        return full

    def interaction(self, files: model_files.ModelFolder, contract: Any) -> LateInteractionContract:
        """Return the late-interaction contract of a folder. contract: the result of `FolderFamily.contract`.

        Source: `MultiVectorEncoder._parse_model_config` and `_maybe_load_stanford_metadata` of sentence-transformers 6.

        Raises ModelError if a file cannot be read, or a value has the wrong type.
        """
        config, folder = model_files.read_json(files.path / CONFIG), files.path
        if STANFORD in (model_files.read_json(folder / "config.json").get("architectures") or ()):
            return _stanford(folder, contract)
        forms = {"MultiVectorEncoder": "sentence-transformers", "ColBERT": "pylate"}
        form = forms.get(str(config.get("model_type")), "")
        options = {name: config[name] for name in _OLDER if name in config} if form else {}
        own = _transformer_options(files, "query") if form else {}
        older = options.get("query_expansion")
        if options and "query_expansion" not in options and options.get("do_query_expansion") is not False:
            older = {"strategy": "fixed", "length": options.get("query_length") or _FILLED}  # as PyLate fills queries
        expansion = own.get("query_expansion", older)
        filled = _count(expansion.get("length"), folder) if isinstance(expansion, dict) else 0
        lengths: dict[model_specs.Side, int] = {"query": contract.query_length, "document": contract.document_length}
        for side in SIDES:
            declared = options.get(f"{side}_length")
            if declared is not None and _transformer_options(files, side).get(f"{side}_length") is None:
                lengths[side] = _count(declared, folder)
        if filled:
            fixed = isinstance(expansion, dict) and expansion.get("strategy") == "fixed"
            lengths["query"] = filled if fixed else max(filled, lengths["query"])
        said, prompts = config.get("similarity_fn_name"), dict(contract.prompts)
        for side in SIDES:  # PyLate's markers precede the prompts
            if (marker := config.get(f"{side}_prefix")) is not None:
                prompts[side] = str(marker) + prompts[side].removeprefix(str(marker))
        similarity = str(said) if said in SIMILARITIES else "maxsim"
        return LateInteractionContract(form, similarity, prompts, lengths, filled, options)

    def contract(self, files: model_files.ModelFolder) -> Any:
        """Return the contract of a folder. Raises ModelError if the folder does not contain a complete model."""
        contract = super().contract(files)
        interaction = self.interaction(files, contract)
        own: dict[str, Any] = {"similarity": interaction.similarity}
        own |= {f"{side}_prompt": interaction.prompts[side] for side in SIDES}
        own |= {f"{side}_length": interaction.lengths[side] for side in SIDES}
        saved = (files.path / SAVED).is_file()  # by hardneg, with these values
        return replace(contract, **({} if saved else own), prompts=interaction.prompts, pooling="")

    def filled(self, interaction: LateInteractionContract) -> int:
        """Return the number of tokens that queries are padded to; 0 for no padding."""
        return interaction.filled if self.query_expansion is None else self.query_expansion

    def _problems(
        self, spec: model_specs.ModelSpec, full: model_specs.FullSpec, interaction: LateInteractionContract
    ) -> list[str]:
        lines = []
        if wrong := spec.changed(_OF_ONE_VECTOR):
            lines.append(f"{', '.join(wrong)} cannot be set for token vectors")
        if full.similarity not in SIMILARITIES:
            lines.append(f"similarity is {full.similarity!r}; set maxsim or meanmaxsim for token vectors")
        if wrong := [f"{side}_length is {full.length(side)}" for side in SIDES if full.length(side) < SHORTEST]:
            lines.append(f"{', '.join(wrong)}; at least {SHORTEST} tokens are needed")
        if full.query_length < (filled := self.filled(interaction)):
            lines.append(
                f"query_length is {full.query_length}, but queries are padded to {filled} tokens; set at least {filled}"
            )
        if self.dimension is not None and (interaction.form or self.dimension < 1):
            says = "but the folder has its own; omit it" if interaction.form else "but must be at least 1, or omitted"
            lines.append(f"encoder.dimension is {self.dimension}, {says}")
        if self.query_expansion is not None and self.query_expansion < 0:
            lines.append(
                f"encoder.query_expansion is {self.query_expansion}; set a number of tokens, or 0 for no expansion"
            )
        return lines

    def content_digest(self, model: resolving.ResolvedModel) -> str:
        """Return a digest of files, spec and options, including settings that older formats save outside modules."""
        name = super().content_digest(model)
        options = self.interaction(model.files, model.contract).options if len(model.origins) == 1 else {}
        return stores.digest([name, dict(options)]) if options else name

    def load(
        self, model: resolving.ResolvedModel, device: str | None = None, precision: Any = None
    ) -> "encoders.Encoder":
        """Open the model in evaluation mode. Raises ModelError if the model does not support the spec."""
        from hardneg.plugin import encoders
        from hardneg_multi_vector.encoding import VectorAToken, load

        module = load(self, model, device, precision)
        return encoders.Encoder(module, model.full, VectorAToken(model.full.similarity == "meanmaxsim"))
