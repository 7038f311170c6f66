"""Mistakes that are met among records, told with the files and lines that they stand in."""

from collections.abc import Iterator
from contextlib import contextmanager

from hardneg.data.check import check
from hardneg.data.problems import Unplaced
from hardneg.data.source_files import parts_of
from hardneg.errors import DataError
from hardneg.types import Collection


@contextmanager
def placed(collection: Collection) -> Iterator[None]:
    """Gives an `Unplaced` error its place: the collection is read again, as `hardneg data check` reads it.

    Raises:
        DataError: with the place, where reading again meets a problem of the error's kind; else the error as it was.
    """
    try:
        yield
    except Unplaced as error:
        problem = next((each for each in check(parts_of(collection)) if each.kind == error.kind), None)
        if problem is None:
            raise
        raise DataError(f"{problem}; {error}") from error
