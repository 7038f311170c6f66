"""What to say where a table of the hub does not open: a loading script, a gate, a branch that holds a part."""

import re

from hardneg.errors import DataError

CONVERTED = "refs/convert/"
_SCRIPT = re.compile(r"scripts are no longer supported, but found (\S+)")
_PART = "partial-"


def refusal(title: str, repo: str, revision: str | None, error: Exception) -> DataError:
    """The error for what the hub's client raised, with what to do about it."""
    at = f" at revision {revision}" if revision else ""
    if script := _SCRIPT.search(str(error)):
        told = f"the repository holds a loading script ({script[1]}), which is never executed"
        return DataError(f"{title}{at} cannot be opened: {told}; {_instead(repo)}")
    if "gated" in str(error).lower():
        return DataError(f"{title}{at} cannot be opened: it is gated; {gate_advice('datasets/' + repo)}")
    advice = "check the name and the network, or give a local folder"
    return DataError(f"{title}{at} cannot be opened: {first_line(error).rstrip('.')}; {advice}")


def gate_advice(path: str) -> str:
    """What a user does before the hub lets files of a gated repository through."""
    from huggingface_hub import constants

    return f"accept its terms on {constants.ENDPOINT}/{path}, then `hf auth login`"


def whole_splits(title: str, paths: list[str], config: str | None) -> dict[str, list[str]]:
    """The Parquet files of one configuration of a converted branch by split: CONFIGURATION/SPLIT/NUMBER.parquet.

    Raises:
        DataError: there is no such configuration, or the branch holds the first gigabytes of a split alone.
    """
    placed = [path.split("/") for path in sorted(paths) if path.endswith(".parquet") and path.count("/") == 2]
    configs = sorted({parts[0] for parts in placed})
    wanted = config or (configs[0] if len(configs) == 1 else "default")
    if wanted not in configs:
        raise DataError(f"{title}: no configuration {wanted!r} in the converted branch; it has {', '.join(configs)}")
    splits: dict[str, list[str]] = {}
    for parts in placed:
        if parts[0] == wanted:
            splits.setdefault(parts[1], []).append("/".join(parts))
    if cut := [split for split in splits if split.startswith(_PART)]:
        told = f"the converted branch holds a part alone ({wanted}/{cut[0]}), as it does of large tables"
        raise DataError(f"{title}: {told}; take a repository in Parquet or JSON Lines, or the original files")
    return splits


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip() or type(error).__name__).split("\n")[0]


def _instead(repo: str) -> str:
    owner, _, name = repo.partition("/")
    converted = f"its converted branch, dataset.revision={CONVERTED}parquet"
    return f"take hf:mteb/{name}, which has the same data" if owner.lower() == "beir" else f"take {converted}"
