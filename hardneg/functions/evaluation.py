"""Runs that were scored, and their differences tested: what `hardneg.evaluate` returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardneg.evaluation.metrics_json import Measured, to_json, write_metrics
from hardneg.functions.results import writing
from hardneg.records import counted
from hardneg.report.content import ReportContent


@dataclass(frozen=True)
class Evaluation:
    """Runs that were measured: means, scores by query, intervals and paired tests; reads: the files they came from."""

    measured: Measured = field(repr=False)
    reads: Sequence[Path] = field(default=(), repr=False, compare=False)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Means by metric by run."""
        return {label: dict(values) for label, values in self.to_dict()["metrics"].items()}

    @property
    def notes(self) -> Sequence[str]:
        """What must be known beside the figures, such as queries that a run lacks; one line each."""
        return self.measured.notes

    @property
    def per_query(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """Scores by query id by metric by run."""
        return self.measured.results

    @property
    def comparisons(self) -> Sequence[Any]:
        """Paired tests: differences, their intervals, p values before and after Holm's correction."""
        return self.measured.comparisons

    def to_dict(self) -> dict[str, Any]:
        """What a metrics file holds: `metrics`, `intervals`, `comparisons`, `notes`, `per_query`."""
        return to_json(self.measured)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, a row a run and metric: `run`, `metric`, `mean`, `low`, `high`, of a 95 % interval.

        Raises:
            MissingDependency: pandas is not installed.
        """
        from hardneg.functions.arrow_tables import frame_of_rows

        content = self.to_dict()
        none = (None, None)
        return frame_of_rows(
            [
                {"run": label, "metric": metric, "mean": mean, "low": low, "high": high}
                for label, means in content["metrics"].items()
                for metric, mean in means.items()
                for low, high in [content["intervals"][label][metric] or none]
            ]
        )

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes a metrics file, which `hardneg.analyze` and reports read; its own earlier one is replaced.

        Raises:
            UsageError: a run or the judgements that were measured stand there, or something else does and `overwrite`
                is not given.
        """
        with writing("Evaluation.write", [path], overwrite, reads=self.reads) as (file,):
            write_metrics(file, self.measured)

    def __repr__(self) -> str:
        means = "; ".join(
            f"{label}: {', '.join(f'{name} {mean:.4f}' for name, mean in values.items())}"
            for label, values in self.metrics.items()
        )
        return f"Evaluation({counted(ReportContent.of('', self.measured).queries, 'query')}; {means})"

    def _repr_markdown_(self) -> str:
        from hardneg.report.page import markdown

        return markdown(ReportContent.of("", self.measured))
