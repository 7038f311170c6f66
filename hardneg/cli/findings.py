"""What `hardneg data check` prints: problems by kind, and what was read."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.counting import counted

if TYPE_CHECKING:
    from hardneg.data.problems import Contents, Problem, SplitContents

_MOST_FILES = 20

_Kind = tuple[str, bool]


@dataclass
class Findings:
    """Problems counted by kind, the first of each kept, and what was read.

    folder: where the dataset's files are, if it is of files.
    """

    contents: "Contents"
    folder: Path | None = None
    counts: Counter[_Kind] = field(default_factory=Counter)
    first: dict[_Kind, list["Problem"]] = field(default_factory=dict)

    def take(self, problems: Iterable["Problem"], limit: int) -> None:
        """Counts all, and keeps `limit` of each kind."""
        for problem in problems:
            kind = problem.kind, problem.warning
            self.counts[kind] += 1
            if self.counts[kind] <= limit:
                self.first.setdefault(kind, []).append(problem)

    @property
    def errors(self) -> int:
        """How many problems are no mere warnings."""
        return sum(count for (_, warning), count in self.counts.items() if not warning)

    @property
    def warnings(self) -> int:
        """How many problems are warnings."""
        return sum(self.counts.values()) - self.errors

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        kinds = [
            {"kind": kind, "warning": warning, "count": count, "first": list(map(asdict, self.first.get(key, [])))}
            for key, count in self.counts.items()
            for kind, warning in [key]
        ]
        read = {
            "documents": self.contents.documents,
            "splits": {split: asdict(found) for split, found in self.contents.splits.items()},
            "queries without judgements": self.contents.unjudged,
            "files": self._named(self.contents.files()),
            "files not read": self._named(self._not_read()),
        }
        return {"errors": self.errors, "warnings": self.warnings, "kinds": kinds, "read": read}

    def lines(self) -> Iterator[str]:
        """All of it, for a person."""
        for key, count in sorted(self.counts.items(), key=lambda item: item[0][1]):
            kind, warning = key
            yield f"{'warning' if warning else 'error'}: {kind}: {count:,}"
            printed = self.first.get(key, [])
            yield from (f"  {problem}" for problem in printed)
            if count > len(printed):
                yield f"  and {count - len(printed):,} more; --limit {count} prints all"
        yield f"read: {counted(self.contents.documents, 'document')}"
        for split, found in self.contents.splits.items():
            yield f"  {split}: {_described(found)}"
        if self.contents.unjudged:
            yield f"  {counted(self.contents.unjudged, 'query', 'queries')} that no judgement names"
        if files := self._named(self.contents.files()):
            yield f"files read: {_few(files)}"
        if others := self._named(self._not_read()):
            yield f"files not read: {_few(others)}"
        yield f"{counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}"

    def _not_read(self) -> list[Path]:
        return self.contents.not_read(self.folder) if self.folder else []

    def _named(self, paths: Iterable[Path]) -> list[str]:
        """The paths, relative to the folder where they are in it."""
        root = self.folder
        return [str(path.relative_to(root) if root and path.is_relative_to(root) else path) for path in paths]


def _described(found: "SplitContents") -> str:
    judged = {"relevant": found.relevant, "zero": found.zero, "below zero": found.negative}
    parts = ", ".join(f"{count:,} {name}" for name, count in judged.items() if count or name != "below zero")
    queries = counted(found.queries, "query", "queries")
    return f"{queries}, {counted(sum(judged.values()), 'judgement')} ({parts})"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_FILES:,} more" if len(names) > _MOST_FILES else ""
    return ", ".join(names[:_MOST_FILES]) + more
