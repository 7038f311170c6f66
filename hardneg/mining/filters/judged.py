"""The filter `judged` drops documents that files of judgements call relevant."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.formats.more_positives import extended
from hardneg.mining.filter_texts import MiningTexts
from hardneg.records.errors import DataError, PluginError
from hardneg.records.types import Candidates
from hardneg.store.digest import digest, file_digest

REASON = "judged relevant"


@dataclass(frozen=True, kw_only=True)
class JudgedFilter:
    """Drop documents that judgements beside the dataset's call relevant: annotations, labels of another run.

    Attributes:
        files: judgements in the format of TREC or BEIR; their content enters keys, not their paths.
    """

    version: ClassVar[int] = 1
    path_options: ClassVar[tuple[str, ...]] = ("files",)

    files: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.files:
            raise PluginError("files: names no file of judgements: name one, or leave the filter out")

    def fingerprint(self) -> str:
        """Return a digest of the files' content. Raises DataError where one does not exist."""
        if missing := [file for file in self.files if not Path(file).expanduser().is_file()]:
            raise DataError(f"judged.files: no file {missing[0]}: name judgements in the format of TREC or BEIR")
        return digest([file_digest(path) for path in self._paths])

    def reasons(self, candidates: Iterable[Candidates], texts: MiningTexts) -> Iterator[Mapping[str, str]]:
        """Return `judged relevant` for each document that a file calls relevant."""
        known = extended({}, self._paths, texts.collection)
        for query in candidates:
            yield dict.fromkeys(known.get(query.query_id, ()), REASON)

    @property
    def _paths(self) -> list[Path]:
        return [Path(file).expanduser() for file in self.files]
