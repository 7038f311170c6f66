"""Systems of an evaluation by two axes, such as what an index was trained on and what was searched."""

from collections.abc import Mapping
from dataclasses import dataclass

from hardneg.errors import UsageError
from hardneg.registry import suggestion


@dataclass(frozen=True)
class Matrix:
    """Means of one metric.

    rows, columns: their names, in order of appearance. values: a list a row, a mean a column, None where there is no
    such system. axes: what the rows are, and what the columns are, in words; may be empty.
    """

    metric: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    axes: tuple[str, str] = ("", "")


def matrix(
    metric: str, cells: Mapping[str, Mapping[str, str]], means: Mapping[str, float], axes: tuple[str, str] = ("", "")
) -> Matrix:
    """The means of the systems that `cells` names: row to column to label.

    Raises:
        UsageError: a label that has no mean.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 3.
    """
    for row, named in cells.items():
        for column, label in named.items():
            if label not in means:
                hint = suggestion(label, means)
                raise UsageError(f"rows.{row}.{column}: no system {label!r} was evaluated{hint}")
    columns = tuple(dict.fromkeys(column for named in cells.values() for column in named))
    values = tuple(
        tuple(means[named[column]] if column in named else None for column in columns) for named in cells.values()
    )
    return Matrix(metric, tuple(cells), columns, values, axes)
