"""The contract of a model: its declared similarity, prompts, lengths and pooling, read only from JSON files."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from hardneg.encoders import adapters
from hardneg.encoders.open import model_files
from hardneg.encoders.open.model_files import ModelFolder, read_json
from hardneg.encoders.spec import SIDES, FullSpec, ModelSpec, Side, whole_prompts
from hardneg.records import SPEC_FILE, ModelError

USUAL = 512
"""The length limit of models that declare none, and the upper bound for models that are not trained for retrieval."""

UNBOUNDED = 1 << 30
"""The length limit of a model that does not truncate."""

OWN = ("similarity", "query_prompt", "document_prompt", "query_length", "document_length")
"""Fields of a spec that the model's folder can declare."""

_OPTIONS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# Models whose positions start after the padding index.
_AFTER_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text"}
_AFTER_PADDING |= {"roberta-prelayernorm", "ibert", "xmod", "esm", "luke", "mluke"}
_MODES = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
_TABLE, _ROWS = "StaticEmbedding", ("embedding.weight", "embeddings")  # sentence-transformers' names, and model2vec's
_SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@dataclass(frozen=True)
class Shape:
    """The shape of a model: hidden size, number of layers, bytes of weights, and vector dimension if known."""

    hidden: int = 768
    layers: int = 12
    weights: int = 440_000_000
    vector: int | None = None


BASE = Shape()


@dataclass(frozen=True)
class Contract:
    """The properties that a model's files declare.

    similarity: `cosine` or `dot`, or a distance, which an inner-product index does not support. prompts: all prompts by
    name. pooling: sentence-transformers pooling modes; "" without pooling. normalised: whether vectors have norm 1.
    dimension: vector dimension; None if undeclared. truncate_dim: dimension to truncate vectors to. dtype: dtype of the
    weight files. code: by name of custom code (which is never run), whether vectors may depend on it.
    """

    similarity: str
    query_prompt: str
    document_prompt: str
    query_length: int
    document_length: int
    prompts: Mapping[str, str]
    default_prompt_name: str | None
    pooling: str
    normalised: bool
    dimension: int | None
    truncate_dim: int | None
    dtype: str
    code: Mapping[str, bool] = field(default_factory=dict)


def read_contract(files: ModelFolder) -> Contract:
    """Read the contract that the files in a model's folder declare.

    Raises ModelError if a file is missing, unreadable, or not in the sentence-transformers format.

    Source: `SentenceTransformer.encode_query`, `encode_document`, `similarity` and `_parse_model_config`, version 6.
    """
    files.check()
    with model_files.in_form(files.path):
        folders, config = files.sides["document"], files.config
        network = read_json(model_files.network_folder(folders[0]) / "config.json")
        (declared, prompts), (pooling, dimension) = own_values(files), _head(files, network)
        normalised, kept = files.modules[folders[-1]] == "Normalize", config.get("truncate_dim")
        cut = kept is not None and kept < (dimension or kept + 1)
        values: dict[str, Any] = {
            "similarity": "cosine" if declared == "dot" and normalised and not cut else declared,
            **{f"{side}_prompt": prompts[side] for side in SIDES},
            **{f"{side}_length": _own_length(files, side) for side in SIDES},
            **(saved_values(files.path) if (files.path / SPEC_FILE).is_file() else {}),
        }
        return Contract(
            **values,
            prompts=prompts,
            default_prompt_name=config.get("default_prompt_name"),
            pooling=pooling,
            normalised=normalised,
            dimension=dimension,
            truncate_dim=kept,
            dtype=str(network.get("dtype") or network.get("torch_dtype") or "float32"),
            code=own_code(files),
        )


def own_values(files: ModelFolder) -> tuple[str, dict[str, str]]:
    """Return the declared similarity (by default cosine, or dot for sparse encoders) and the prompts by name.

    The prompts include `query` and `document`, which may be empty. Raises ModelError if the prompts are malformed.
    """
    similarity, prompts = files.config.get("similarity_fn_name"), files.config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise ModelError(f"{files.path / model_files.CONFIG}: prompts must map names to strings; copy the model again")
    if similarity not in _SIMILARITIES:
        similarity = "dot" if files.saved_class == "SparseEncoder" else "cosine"
    return similarity, {"query": "", "document": ""} | {name: text or "" for name, text in prompts.items()}


def _own_length(files: ModelFolder, side: Side) -> int:
    """Return the maximum length of a query or document in tokens.

    Source: `Transformer` of sentence-transformers 6, `__init__` and `preprocess`.
    """
    folder, trained = files.sides[side][0], files.trained
    config = read_json(model_files.network_folder(folder) / "config.json")
    positions, padding = config.get("max_position_embeddings"), config.get("pad_token_id", 1)
    shifted = str(config.get("model_type")) in _AFTER_PADDING and isinstance(padding, int)
    offset = int(padding) + 1 if shifted else 0
    bound = positions - offset if isinstance(positions, int) and positions > 0 else UNBOUNDED
    saved = (read_json(folder / f"sentence_{name}_config.json") for name in _OPTIONS)
    options: dict[str, Any] = next((content for content in saved if content), {}) if trained else {}
    texts = (options.get("processing_kwargs") or {}).get("text") or {}
    tokenizer = options.get("processor_kwargs") or options.get("tokenizer_args") or {}
    names = ((texts, "max_length"), (options, f"{side}_length"), (tokenizer, "model_max_length"))
    declared = ((content.get(name), name) for content, name in (*names, (options, "max_seq_length")))  # specific first
    value, name = next(((value, name) for value, name in declared if value is not None), (None, ""))
    most = UNBOUNDED
    if value is None:
        name, most = "model_max_length", bound + offset
        value = read_json(folder / "tokenizer_config.json").get(name)
        value = UNBOUNDED if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
        raise ModelError(f"model {folder}: {name} is {value!r}; it must be a number of tokens")
    length = int(min(value, most))
    usual = length >= UNBOUNDED or (not trained and min(length, bound) > USUAL)
    return USUAL if usual else min(length, bound)


def _head(files: ModelFolder, network: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return the pooling of documents and the dimension of their vectors; network: the transformer's config.json."""
    first, *rest = files.sides["document"]
    pooling, times, sizes = "", 1, [(files.path, files.config.get("truncate_dim")), (first, network.get("hidden_size"))]
    for path in rest:
        content = read_json(path / "config.json")
        if files.modules[path] == "Pooling":
            modes = content.get("pooling_mode")  # versions before 6 have another format
            if modes is None:
                ends = {"cls": "_token", "lasttoken": ""}
                named = [mode for mode in _MODES if content.get(f"pooling_mode_{mode}{ends.get(mode, '_tokens')}")]
                modes = named or ["mean"]
            modes = [modes] if isinstance(modes, str) else [str(mode) for mode in modes]
            sizes.append((path, content.get("embedding_dimension", content.get("word_embedding_dimension"))))
            pooling, times = "+".join(modes), len(modes)
        elif files.modules[path] == "SpladePooling":
            pooling, times = str(content.get("pooling_strategy", "max")), 1
            sizes.append((first, network.get("vocab_size")))
        if (size := content.get("out_features")) is not None:
            sizes, times = [*sizes, (path, size)], 1
    for path, size in sizes:
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ModelError(f"model {path}: {size!r} is not a number of dimensions; copy the model again")
    dimension = sizes[-1][1]
    return pooling, None if dimension is None else dimension * times or None


def saved_values(folder: Path) -> dict[str, Any]:
    """Return the values of `OWN` that hardneg saved in a model's folder. Raises ModelError if the file is damaged."""
    path = folder / SPEC_FILE
    try:
        content = read_json(path, object)
        values = {name: content[name] for name in OWN}
        problems = ModelSpec(str(folder), **values).problems()
    except (TypeError, LookupError, AttributeError) as error:
        raise ModelError(f"{path}: not a valid spec of a saved model ({error!r}); re-save the model") from error
    if problems:
        raise ModelError(f"{path}: {'; '.join(problems)}; re-save the model")
    return values


@dataclass(frozen=True)
class TableFiles:
    """The files of a static model.

    whole: the model's folder. weights: files that contain the table. tokenizer: a file of the tokenizers library.
    normalised: whether vectors have norm 1, for a folder without modules.
    """

    whole: ModelFolder
    weights: tuple[Path, ...]
    tokenizer: Path
    normalised: bool = True

    def check(self) -> None:
        """Raise ModelError if the weights or the tokenizer are missing, or if only one side has a table."""
        folder, names = self.whole.path, self.whole.modules
        if self.whole.trained and any(names[paths[0]] != _TABLE for paths in self.whole.sides.values()):
            raise ModelError(f"model {folder}: only one side has a table of token vectors; use another model")
        if not self.weights:
            raise ModelError(f"model {folder}: no weights found; copy the model again")
        if not self.tokenizer.is_file():
            raise ModelError(f"model {folder}: no {self.tokenizer.name} found; copy the model again")

    def dimension(self) -> int | None:
        """Return the vector dimension in the safetensors headers, if any. Raises ModelError if a file is incomplete."""
        from safetensors import SafetensorError, safe_open

        for path in (path for path in self.weights if path.suffix == ".safetensors"):
            try:
                with safe_open(path, framework="np") as file:
                    sizes = [file.get_slice(name).get_shape() for name in file.keys() if name in _ROWS]  # noqa: SIM118
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path}: not a complete safetensors file ({error}); copy the model again") from error
            if sizes and len(sizes[0]) == 2:
                return int(sizes[0][1])
        return None


def table_files(files: ModelFolder) -> TableFiles | None:
    """Return the files of a static sentence-transformers, model2vec or wordllama model; None for other models."""
    folder, tables = files.path, [path for path, class_name in files.modules.items() if class_name == _TABLE]
    if files.trained:
        weights = model_files.weight_files(tables[0]) if tables else []
        return TableFiles(files, (*weights,), tables[0] / "tokenizer.json") if tables else None
    config = read_json(folder / "config.json")
    if config.get("model_type") == "model2vec":
        tokenizer, normalised = folder / "tokenizer.json", bool(config.get("normalize"))
        return TableFiles(files, (*model_files.weight_files(folder),), tokenizer, normalised)
    packed, tokenizers = (sorted(folder.glob(name)) for name in ("weights/*_256.safetensors", "tokenizers/*.json"))
    return TableFiles(files, tuple(packed[:1]), tokenizers[0]) if packed and tokenizers else None


def own_code(files: ModelFolder) -> dict[str, bool]:
    """Return, by name of the custom code that a model declares for transformers, whether vectors may depend on it.

    Vectors do not depend on the network's custom code if the configuration already turns off causal attention.
    """
    code: dict[str, bool] = {}
    folders = (path for path, class_name in files.modules.items() if class_name in model_files.TRANSFORMERS)
    for network in map(model_files.network_folder, folders):
        config, tokenizer = (read_json(network / name) for name in ("config.json", "tokenizer_config.json"))
        causal = config.get("is_causal") is not False
        for auto_map, decides in ((config.get("auto_map"), causal), (tokenizer.get("auto_map"), True)):
            named = auto_map.values() if isinstance(auto_map, dict) else [auto_map]
            flat = (name for each in named for name in (each if isinstance(each, list) else [each]))
            code |= {str(name): decides for name in flat if name}
    return code


def check_code(name: str, code: Mapping[str, bool], setting: str | None) -> None:
    """Raise ModelError if vectors may depend on custom code and `setting` (spec.code) is not native; otherwise warn."""
    named = f"model {name!r} declares custom code ({', '.join(code)}), which is not run"
    if any(code.values()) and setting != "native":
        advice = "if transformers' own code computes the same vectors, set code: native; otherwise"
        raise ModelError(f"{named}; {advice} {model_files.WAYS_ROUND}")
    warn(f"{named}; transformers' own code is used")


@cache
def warn(message: str) -> None:
    """Log a warning, unless the same message was logged before."""
    logging.getLogger(__name__).warning(message)


def filled(spec: ModelSpec, contract: Contract, files: ModelFolder | None = None, inner: bool = True) -> FullSpec:
    """Complete a spec with the model's own values.

    files: the model's folder, which may contain an adapter. inner: whether texts are compared by inner product.

    Raises ModelError if the model uses a distance or custom code, or lacks a prompt that the spec names.
    """
    modules = files.modules.items() if files else ()
    inside = [path for path, name in modules if name == "Transformer" and (path / model_files.ADAPTER).is_file()]
    adapter = adapters.adapter_in(inside[0], spec) if inside else spec.adapter
    if contract.code:
        check_code(spec.name, contract.code, spec.code)
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    values |= {name: getattr(contract, name) for name in OWN if values[name] is None}
    written = {f"{side}_prompt": values[f"{side}_prompt"] for side in SIDES}
    values |= {"adapter": adapter, "task": None, **whole_prompts(spec.name, written, spec.task, contract.prompts)}
    if inner and spec.truncate_dim is None and spec.projection is None:
        values["truncate_dim"] = contract.truncate_dim
    if inner and contract.normalised and contract.similarity == "dot" and spec.similarity is None:
        problem = "similarity dot is not supported for vectors that are normalised before they are truncated"
        raise ModelError(f"model {spec.name!r}: {problem}; set similarity: cosine, or use another model")
    if inner and values["similarity"] not in ("cosine", "dot"):
        raise ModelError(
            f"model {spec.name!r} uses {values['similarity']} distance, which an inner-product index "
            "does not support; use another model, or set similarity: cosine or dot"
        )
    return FullSpec(**values)


def overrides(spec: ModelSpec, contract: Contract) -> dict[str, tuple[Any, Any]]:
    """Return, by name of each field in which a spec overrides the model, the spec's and the model's value."""
    stated = {name: (getattr(spec, name), getattr(contract, name)) for name in (*OWN, "truncate_dim")}
    pooled = {"pooling": (spec.pooling, contract.pooling or "none")} if spec.pooling != "own" else {}
    return {name: pair for name, pair in (stated | pooled).items() if pair[0] is not None and pair[0] != pair[1]}


def tokens_read(length: int) -> str:
    """Format a length limit in tokens for display; `all` if there is no limit."""
    return "all" if length >= UNBOUNDED else str(length)
