"""What a static model's folder says of how it wants to be used."""

from typing import Any

from hardneg.encoders.configuration import UNBOUNDED, mapping
from hardneg.encoders.contract import CONFIG, Contract, own_prompts, own_similarity, saved_values
from hardneg.encoders.files import module_folders
from hardneg.encoders.spec import KINDS
from hardneg.encoders.static.files import TableFiles, check_table, own_length, table_shape

_COMMON: dict[str, Any] = {"pooling": "mean", "dtype": "float32", "chat": False, "odd": ()}


def static_contract(files: TableFiles) -> Contract:
    """What the files of a static model say: all of a text is read, unless the tokenizer cuts it.

    Source: `SentenceTransformer` and `StaticEmbedding`, version 6.

    Raises:
        ModelError: the folder has no whole model.
    """
    check_table(files)
    config = mapping(files.folder / CONFIG) if files.modules else {}
    prompts, length, shape = own_prompts(config, files.folder), own_length(files), table_shape(files)
    last = list(module_folders(files.folder).values())[-1] if files.modules else ""
    normalised = last == "Normalize" if files.modules else files.normalised
    said = own_similarity(config)
    own: dict[str, Any] = {
        "similarity": "cosine" if said == "dot" and normalised else said,
        **{f"{kind}_prompt": prompts[kind] for kind in KINDS},
        **{f"{kind}_length": length for kind in KINDS},
        **saved_values(files.folder),
    }
    told: dict[str, Any] = {
        "default_prompt_name": config.get("default_prompt_name"),
        "truncate_dim": config.get("truncate_dim"),
    }
    return Contract(**own, **told, **_COMMON, prompts=prompts, normalised=normalised, dimension=shape and shape[1])


def made_contract(dimension: int | None) -> Contract:
    """That of a model made of a transformer: compared by cosine, without prompts, all of a text is read."""
    own: dict[str, Any] = {
        "query_prompt": "",
        "document_prompt": "",
        "query_length": UNBOUNDED,
        "document_length": UNBOUNDED,
    }
    told: dict[str, Any] = {"default_prompt_name": None, "truncate_dim": None, "similarity": "cosine", "prompts": {}}
    return Contract(**own, **told, **_COMMON, normalised=True, dimension=dimension)
