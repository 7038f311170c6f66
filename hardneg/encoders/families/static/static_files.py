"""The files of a table of token vectors, in the known layouts, and its contract."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.encoders.open.contract import CONFIG, UNBOUNDED, Contract, own_prompts, own_similarity, saved_values
from hardneg.encoders.open.model_files import json_object, module_folders, sides, weight_files
from hardneg.encoders.spec import SIDES
from hardneg.records import ModelError

CLASS = "StaticEmbedding"
_ROWS = ("embedding.weight", "embeddings")  # sentence-transformers' name, and model2vec's


@dataclass(frozen=True)
class TableFiles:
    """The files of a static model.

    folder: of the model. weights: files of the table. tokenizer: a file of the tokenizers library.
    modules: whether `modules.json` lists further modules. normalised: without it, whether vectors have norm 1.
    """

    folder: Path
    weights: tuple[Path, ...]
    tokenizer: Path
    modules: bool
    normalised: bool = True


def table_files(folder: Path) -> TableFiles | None:
    """The files of a static model; None where the folder holds a model of another family.

    Known are folders of sentence-transformers and of model2vec, and the package wordllama.
    """
    if (folder / "modules.json").is_file():
        tables = [path for path, class_name in module_folders(folder).items() if class_name == CLASS]
        if not tables:
            return None
        path = tables[0]
        return TableFiles(folder, tuple(weight_files(path)), path / "tokenizer.json", True)
    if json_object(folder / "config.json").get("model_type") == "model2vec":
        normalised = bool(json_object(folder / "config.json").get("normalize"))
        return TableFiles(folder, tuple(weight_files(folder)), folder / "tokenizer.json", False, normalised)
    packed, tokenizers = (sorted(folder.glob(name)) for name in ("weights/*_256.safetensors", "tokenizers/*.json"))
    return TableFiles(folder, tuple(packed[:1]), tokenizers[0], False) if packed and tokenizers else None


def check_table(files: TableFiles) -> None:
    """Refuses a folder without weights or tokenizer, or where one side alone has a table."""
    names = module_folders(files.folder) if files.modules else {}
    if any(names[paths[0]] != CLASS for paths in sides(files.folder).values() if files.modules):
        raise ModelError(f"model {files.folder}: a table on one side and none on the other: use another model")
    if not files.weights:
        raise ModelError(f"model {files.folder}: no weights there: copy the model again")
    if not files.tokenizer.is_file():
        raise ModelError(f"model {files.folder}: no {files.tokenizer.name} there: copy the model again")


def table_shape(files: TableFiles) -> tuple[int, int] | None:
    """Rows and dimensions of the table; None where the files are not safetensors, whose headers have them."""
    from safetensors import SafetensorError, safe_open

    for path in files.weights:
        if path.suffix == ".safetensors":
            try:
                with safe_open(path, framework="np") as file:
                    sizes = [file.get_slice(name).get_shape() for name in file.keys() if name in _ROWS]  # noqa: SIM118
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path}: not a whole safetensors file ({error}): copy the model again") from error
            if sizes and len(sizes[0]) == 2:
                return sizes[0][0], sizes[0][1]
    return None


def static_contract(folder: Path, files: TableFiles | None, dimension: int | None) -> Contract:
    """The contract of a table, or of one to be built from a transformer: all is read, unless its tokenizer truncates.

    dimension: that of a table to be built.

    Source: `SentenceTransformer` and `StaticEmbedding`, version 6.

    Raises:
        ModelError: the folder has no whole model.
    """
    config: dict[str, Any] = {}
    own: dict[str, Any] = {"similarity": "cosine"}
    length: Any = UNBOUNDED
    normalised = True
    if files is not None:
        check_table(files)
        config = json_object(folder / CONFIG) if files.modules else {}
        normalised = [*module_folders(folder).values()][-1] == "Normalize" if files.modules else files.normalised
        declared, shape = own_similarity(config), table_shape(files)
        own["similarity"], dimension = "cosine" if declared == "dot" and normalised else declared, shape and shape[1]
        truncation = json_object(files.tokenizer).get("truncation")
        length = truncation.get("max_length") if isinstance(truncation, dict) else UNBOUNDED
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise ModelError(f"{files.tokenizer}: truncation to {length!r} tokens: copy the model again")
    prompts = own_prompts(config, folder)
    own |= {f"{side}_prompt": prompts[side] for side in SIDES} | {f"{side}_length": length for side in SIDES}
    return Contract(
        **(own if files is None else own | saved_values(folder)),
        prompts={} if files is None else prompts,
        default_prompt_name=config.get("default_prompt_name"),
        pooling="mean",
        normalised=normalised,
        dimension=dimension,
        truncate_dim=config.get("truncate_dim"),
        dtype="float32",
    )
