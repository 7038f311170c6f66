"""The contract of a model: its declared similarity, prompts, lengths and pooling, read from JSON files alone."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from hardneg.encoders.open import model_files
from hardneg.encoders.spec import SIDES, AdapterSpec, FullSpec, ModelSpec, whole_prompts
from hardneg.records import SPEC_FILE, ModelError

USUAL = 512
"""The length of a model without a maximum, and the limit for one that is not trained for retrieval."""

UNBOUNDED = 1 << 30
"""The length that truncates no text."""

OWN = ("similarity", "query_prompt", "document_prompt", "query_length", "document_length")
"""Fields of a spec that a model's own folder can declare."""

CONFIG = "config_sentence_transformers.json"
_OPTIONS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# Models whose positions start after the padding index.
_AFTER_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text"}
_AFTER_PADDING |= {"roberta-prelayernorm", "ibert", "xmod", "esm", "luke", "mluke"}
_MODES = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
_TABLE, _ROWS = "StaticEmbedding", ("embedding.weight", "embeddings")  # sentence-transformers' names, and model2vec's
_SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@dataclass(frozen=True)
class Shape:
    """The shape of a model: hidden size, number of layers, bytes of its weights, and size of a vector if known."""

    hidden: int = 768
    layers: int = 12
    weights: int = 440_000_000
    vector: int | None = None


BASE = Shape()


@dataclass(frozen=True)
class Contract:
    """The contract of a model, as its files declare it.

    similarity: `cosine` or `dot`, or a distance, which an index of inner products does not support. prompts: all of
    them, by name. pooling: modes of sentence-transformers; "" without a pooling. normalised: whether vectors have norm
    1. dimension: of vectors; None if it is not declared. truncate_dim: dimensions that vectors are truncated to. dtype:
    of the files. code: names of the model's own code, which is not run; the value is whether vectors may depend on it.
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


@model_files.in_form
def read_contract(folder: Path) -> Contract:
    """Reads the contract from the files in a model's folder.

    Raises ModelError: a file is missing, not readable, or not in the format of sentence-transformers.

    Source: `SentenceTransformer.encode_query`, `encode_document`, `similarity` and `_parse_model_config`, version 6.
    """
    model_files.check_files(folder)
    trained = (folder / "modules.json").exists()
    config = model_files.json_object(folder / CONFIG) if trained else {}
    modules, folders = model_files.module_folders(folder), model_files.sides(folder)
    network = model_files.json_object(model_files.network_folder(folders["document"][0]) / "config.json")
    prompts, (pooling, dimension) = own_prompts(config, folder), _head(folders["document"], modules, network)
    normalised = modules[folders["document"][-1]] == "Normalize"
    kept = _number(config.get("truncate_dim"), folder, "dimensions")
    declared, cut = own_similarity(config), kept is not None and kept < (dimension or kept + 1)
    values: dict[str, Any] = {
        "similarity": "cosine" if declared == "dot" and normalised and not cut else declared,
        **{f"{side}_prompt": prompts[side] for side in SIDES},
        **{f"{side}_length": _own_length(folders[side][0], side, trained) for side in SIDES},
        **saved_values(folder),
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
        code=own_code(folder),
    )


def own_similarity(config: Mapping[str, Any]) -> str:
    """The similarity that a model declares; by default cosine, and dot for sparse encoders."""
    declared = config.get("similarity_fn_name")
    return declared if declared in _SIMILARITIES else "dot" if config.get("model_type") == "SparseEncoder" else "cosine"


def own_prompts(config: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The model's prompts by name, including `query` and `document`, possibly empty."""
    declared = config.get("prompts") or {}
    if not isinstance(declared, dict) or not all(isinstance(text, str | None) for text in declared.values()):
        raise ModelError(f"{folder / CONFIG}: prompts must be texts by name: copy the model again")
    return {"query": "", "document": ""} | {name: text or "" for name, text in declared.items()}


def _own_length(folder: Path, side: str, trained: bool) -> int:
    """The length of a text in tokens; trained: whether sentence-transformers saved the folder.

    Source: `Transformer` of sentence-transformers 6, `__init__` and `preprocess`.
    """
    config = model_files.json_object(model_files.network_folder(folder) / "config.json")
    positions, padding = config.get("max_position_embeddings"), config.get("pad_token_id", 1)
    shifted = str(config.get("model_type")) in _AFTER_PADDING and isinstance(padding, int)
    offset = int(padding) + 1 if shifted else 0
    bound = positions - offset if isinstance(positions, int) and positions > 0 else UNBOUNDED
    saved = (model_files.json_object(folder / f"sentence_{name}_config.json") for name in _OPTIONS)
    options = next((content for content in saved if content), {}) if trained else {}
    texts = (options.get("processing_kwargs") or {}).get("text") or {}
    tokenizer = options.get("processor_kwargs") or options.get("tokenizer_args") or {}
    names = ((texts, "max_length"), (options, f"{side}_length"), (tokenizer, "model_max_length"))
    declared = ((content.get(name), name) for content, name in (*names, (options, "max_seq_length")))  # specific first
    value, name = next(((value, name) for value, name in declared if value is not None), (None, ""))
    most = UNBOUNDED
    if value is None:
        name, most = "model_max_length", bound + offset
        value = model_files.json_object(folder / "tokenizer_config.json").get(name)
        value = UNBOUNDED if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
        raise ModelError(f"model {folder}: {name} is {value!r}: must be a number of tokens")
    length = int(min(value, most))
    usual = length >= UNBOUNDED or (not trained and min(length, bound) > USUAL)
    return USUAL if usual else min(length, bound)


def _head(folders: list[Path], names: Mapping[Path, str], network: Mapping[str, Any]) -> tuple[str, int | None]:
    pooling, dimension = "", _number(network.get("hidden_size"), folders[0], "dimensions")
    for path in folders[1:]:
        content = model_files.json_object(path / "config.json")
        if names[path] == "Pooling":
            modes = content.get("pooling_mode")  # versions before 6 have another format
            if modes is None:
                ends = {"cls": "_token", "lasttoken": ""}
                named = [mode for mode in _MODES if content.get(f"pooling_mode_{mode}{ends.get(mode, '_tokens')}")]
                modes = named or ["mean"]
            modes = [modes] if isinstance(modes, str) else [str(mode) for mode in modes]
            declared = content.get("embedding_dimension", content.get("word_embedding_dimension"))
            pooling, dimension = "+".join(modes), (_number(declared, path, "dimensions") or 0) * len(modes) or None
        elif names[path] == "SpladePooling":
            pooling = str(content.get("pooling_strategy", "max"))
            dimension = _number(network.get("vocab_size"), folders[0], "dimensions")
        dimension = _number(content.get("out_features"), path, "dimensions") or dimension
    return pooling, dimension


def _number(value: Any, folder: Path, of_what: str) -> int | None:
    if value is None or (isinstance(value, int) and value > 0):
        return value
    raise ModelError(f"model {folder}: {value!r} is not a number of {of_what}: copy the model again")


def saved_class(folder: Path) -> str:
    """The class of sentence-transformers that saved a folder; by default `SentenceTransformer`."""
    config = model_files.json_object(folder / CONFIG) if (folder / "modules.json").exists() else {}
    return str(config.get("model_type", "SentenceTransformer"))


def saved_values(folder: Path) -> dict[str, Any]:
    """The values that hardneg saved with a model; empty for other models. Raises ModelError: they are damaged."""
    path = folder / SPEC_FILE
    if not path.is_file():
        return {}
    try:
        content = model_files.read_json(path)
        values = {name: content[name] for name in OWN}
        problems = ModelSpec(str(folder), **values).problems()
    except (TypeError, LookupError, AttributeError) as error:
        raise ModelError(f"{path}: not the values of a saved model ({error!r}): save the model again") from error
    if problems:
        raise ModelError(f"{path}: {'; '.join(problems)}: save the model again")
    return values


@dataclass(frozen=True)
class TableFiles:
    """The files of a static model.

    weights: files of the table. tokenizer: a file of the tokenizers library. modules: whether `modules.json` lists the
    modules. normalised: without that file, whether vectors have norm 1.
    """

    folder: Path
    weights: tuple[Path, ...]
    tokenizer: Path
    modules: bool
    normalised: bool = True

    def check(self) -> None:
        """Refuses a folder without weights or tokenizer, or with a table on one side only."""
        names = model_files.module_folders(self.folder) if self.modules else {}
        if any(names[paths[0]] != _TABLE for paths in model_files.sides(self.folder).values() if self.modules):
            raise ModelError(f"model {self.folder}: only one side has a table of token vectors: use another model")
        if not self.weights:
            raise ModelError(f"model {self.folder}: no weights there: copy the model again")
        if not self.tokenizer.is_file():
            raise ModelError(f"model {self.folder}: no {self.tokenizer.name} there: copy the model again")

    def dimension(self) -> int | None:
        """The size of a vector, from the headers of safetensors; None for other files."""
        from safetensors import SafetensorError, safe_open

        for path in (path for path in self.weights if path.suffix == ".safetensors"):
            try:
                with safe_open(path, framework="np") as file:
                    sizes = [file.get_slice(name).get_shape() for name in file.keys() if name in _ROWS]  # noqa: SIM118
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path}: not a whole safetensors file ({error}): copy the model again") from error
            if sizes and len(sizes[0]) == 2:
                return int(sizes[0][1])
        return None


def table_files(folder: Path) -> TableFiles | None:
    """The files of a static model of sentence-transformers, model2vec or wordllama; None for other models."""
    if (folder / "modules.json").is_file():
        tables = [path for path, class_name in model_files.module_folders(folder).items() if class_name == _TABLE]
        if not tables:
            return None
        return TableFiles(folder, (*model_files.weight_files(tables[0]),), tables[0] / "tokenizer.json", True)
    config = model_files.json_object(folder / "config.json")
    if config.get("model_type") == "model2vec":
        tokenizer, normalised = folder / "tokenizer.json", bool(config.get("normalize"))
        return TableFiles(folder, (*model_files.weight_files(folder),), tokenizer, False, normalised)
    packed, tokenizers = (sorted(folder.glob(name)) for name in ("weights/*_256.safetensors", "tokenizers/*.json"))
    return TableFiles(folder, tuple(packed[:1]), tokenizers[0], False) if packed and tokenizers else None


def own_code(folder: Path) -> dict[str, bool]:
    """The custom code that a model names for transformers, and whether vectors may depend on it.

    They do not depend on network code that only turns causal attention off, as the configuration does then.
    """
    code: dict[str, bool] = {}
    folders = (path for path, name in model_files.module_folders(folder).items() if name in model_files.TRANSFORMERS)
    for network in map(model_files.network_folder, folders):
        config = model_files.json_object(network / "config.json")
        tokenizer = model_files.json_object(network / "tokenizer_config.json")
        causal = config.get("is_causal") is not False
        for auto_map, decides in ((config.get("auto_map"), causal), (tokenizer.get("auto_map"), True)):
            named = auto_map.values() if isinstance(auto_map, dict) else [auto_map]
            flat = (name for each in named for name in (each if isinstance(each, list) else [each]))
            code |= {str(name): decides for name in flat if name}
    return code


def check_code(name: str, code: Mapping[str, bool], setting: str | None) -> None:
    """Refuses a model whose vectors may depend on custom code, unless `setting` is native; warns of other code."""
    if not code:
        return
    named = f"model {name!r} names custom code ({', '.join(code)}), which is not run"
    if any(code.values()) and setting != "native":
        advice = "set code: native of the model if transformers' own code computes the same; else"
        raise ModelError(f"{named}: {advice} {model_files.WAYS_ROUND}")
    warn(f"{named}: transformers' own is")


@cache
def warn(message: str) -> None:
    """Logs a warning, each message once."""
    logging.getLogger(__name__).warning(message)


def filled(spec: ModelSpec, contract: Contract, adapter: AdapterSpec | None = None) -> FullSpec:
    """Fills in a spec with the model's own values. Raises ModelError: no inner product, or no such prompt."""
    values, model = filled_values(spec, contract, adapter), f"model {spec.name!r}"
    if values["truncate_dim"] is None and spec.projection is None:
        values["truncate_dim"] = contract.truncate_dim
    if contract.normalised and contract.similarity == "dot" and spec.similarity is None:
        problem = "similarity dot of vectors that are normalised and then truncated is not supported"
        raise ModelError(f"{model}: {problem}: set similarity: cosine, or use another model")
    if values["similarity"] not in ("cosine", "dot"):
        raise ModelError(
            f"{model} uses {values['similarity']} distance, which an inner-product index "
            "does not support: use another model, or set similarity: cosine or dot"
        )
    return FullSpec(**values)


def filled_values(spec: ModelSpec, contract: Contract, adapter: AdapterSpec | None) -> dict[str, Any]:
    """The fields of a filled-in spec with any similarity. Raises ModelError: no such prompt, or custom code."""
    check_code(spec.name, contract.code, spec.code)
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    values |= {name: getattr(contract, name) for name in OWN if values[name] is None}
    written = {f"{side}_prompt": values[f"{side}_prompt"] for side in SIDES}
    return values | {"adapter": adapter, "task": None, **whole_prompts(spec.name, written, spec.task, contract.prompts)}


def overrides(spec: ModelSpec, contract: Contract) -> dict[str, tuple[Any, Any]]:
    """The fields in which a spec differs from its model, as (the spec's value, the model's value)."""
    stated = {name: (getattr(spec, name), getattr(contract, name)) for name in (*OWN, "truncate_dim")}
    pooled = {"pooling": (spec.pooling, contract.pooling or "none")} if spec.pooling != "own" else {}
    return {name: pair for name, pair in (stated | pooled).items() if pair[0] is not None and pair[0] != pair[1]}


def tokens_read(length: int) -> str:
    """The length of a text in tokens as text, `all` if unlimited."""
    return "all" if length >= UNBOUNDED else str(length)
