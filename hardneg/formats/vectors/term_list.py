"""What each term of an index is: a file of lines, in the order of the terms' numbers."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.records.errors import ArtifactError, DataError
from hardneg.records.layout import TERMS
from hardneg.store.atomic_write import replace_text


def write_terms(folder: Path, terms: Sequence[str]) -> None:
    """Writes what each term is into an index folder, in the order of their numbers.

    Raises:
        DataError: one is empty or has a line break.
    """
    if odd := [term for term in terms if not term or "\n" in term]:
        raise DataError(f"{folder}: the term {odd[0]!r} cannot be written in a line")
    replace_text(folder / TERMS, "".join(f"{term}\n" for term in terms))


def read_terms(folder: Path) -> Sequence[str]:
    """What each term of an index folder is, in the order of their numbers.

    Raises:
        ArtifactError: the file is missing or damaged.
    """
    try:
        return (folder / TERMS).read_bytes().decode().removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{folder / TERMS}: cannot be read ({error}): build the index again") from error
