"""What a model says of itself, and what a recipe says otherwise, in lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hardneg.records.errors import HardnegError, ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from hardneg.encoders.open.contract import Contract
    from hardneg.encoders.open.resolved import ResolvedModel


def declared(name: str) -> "tuple[Path, str, Contract]":
    """The folder, the family and the contract of a model whose files are on this machine; downloads nothing.

    Raises:
        ModelError: they are not.
    """
    from hardneg.encoders.open.resolved import resolve

    model = resolve(name)
    if model.folder is None and (commit := model.location.commit) is not None:
        there = f"on the hub (commit {commit[:12]}), not on this machine"
        raise ModelError(f"model {name!r}: {there}: fetch it with `hf download {name}`")
    return model.path, getattr(model.family, "called", ""), model.contract


def contract_lines(contract: "Contract") -> Iterator[tuple[str, str]]:
    """What a model says of itself: a word and its value, then all that is odd."""
    from hardneg.encoders.open.contract import tokens_read

    yield "query prompt", _prompt(contract.query_prompt)
    yield "document prompt", _prompt(contract.document_prompt)
    others = {name: text for name, text in contract.prompts.items() if name not in ("query", "document")}
    for name, text in others.items():
        yield f"prompt {name}", f"{_prompt(text)}, kept and not used"
    yield "similarity", contract.similarity
    yield "normalised", "yes" if contract.normalised else "no"
    yield "pooling", contract.pooling or "none of its own"
    read_of = (tokens_read(length) for length in (contract.query_length, contract.document_length))
    yield "lengths", "{} tokens of a query, {} of a document".format(*read_of)
    cut = f", cut to {contract.truncate_dim}" if contract.truncate_dim else ""
    yield "dimensions", f"{contract.dimension or 'not declared'}{cut}"
    yield "dtype", contract.dtype
    yield "chat template", "yes, the prompt as the system's words" if contract.chat else "no"
    for name, decides in contract.code.items():
        needed = "set code: native of the model if" if decides else "its configuration says that"
        yield "own code", f"{name}: not run; {needed} transformers' own computes the same"
    for line in contract.odd:
        yield "odd", line


def override_lines(model: "ResolvedModel") -> list[str]:
    """What a recipe says otherwise than its model's own files, one line each; or that those are not here yet.

    Nothing of a model that has no files, such as one that a server holds.
    """
    from hardneg.encoders.open.contract import OWN, overrides

    spec = model.spec
    if model.folder is None and model.known is not None:
        return []
    if model.folder is None:
        left = [name for name in OWN if getattr(spec, name) is None]
        note = f"model {spec.name}: not on this machine; {', '.join(left)} are read from its files when it is"
        return [note] if left else []
    try:
        overridden, remarked = overrides(spec, model.contract).items(), model.remarks
    except HardnegError:
        return []  # told as what is in the way of a run
    lines = [f"model {spec.name}: {name} {_shown(said)}, its own is {_shown(own)}" for name, (said, own) in overridden]
    return lines + [f"model {spec.name}: {line}" for line in remarked]


def _prompt(text: str) -> str:
    return repr(text) if text else "none"


def _shown(value: Any) -> str:
    from hardneg.encoders.open.contract import tokens_read

    if isinstance(value, int):
        return tokens_read(value)
    return repr(value) if isinstance(value, str) and (not value or " " in value) else str(value)
