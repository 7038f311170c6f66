"""What reading tables of the hub takes: their files and sizes, and whether the hub lets them through; none is read."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hardneg.datasets.hub_tables import SPLIT_NAMES, HubTable, import_datasets, load_arguments, refusal
from hardneg.errors import DataError
from hardneg.types import Lookup

_AT_ONCE = 500


def look_up(tables: Iterable[HubTable]) -> Lookup:
    """The bytes of all files behind the tables: those on this machine, and those that are streamed from the hub.

    Raises:
        DataError: a table does not open, has no such split, or is behind a gate.
        MissingDependency: the `datasets` package is not installed.
    """
    there, ahead, seen = 0, 0, set()
    for table in tables:
        for place, size in _files(table):
            if place not in seen:
                seen.add(place)
                there, ahead = (there + size, ahead) if table.local else (there, ahead + size)
    return Lookup(there, ahead)


def _files(table: HubTable) -> Iterator[tuple[str, int]]:
    datasets = import_datasets()
    try:
        builder = datasets.load_dataset_builder(**load_arguments(table, datasets))
        places = _chosen(table, builder.config.data_files or {})
        if table.local is not None:
            yield from ((str(place), Path(place).stat().st_size) for place in places)
            return
        _check_gate(table, places[0])
        yield from _sizes(table, places)
    except DataError:
        raise
    except Exception as error:
        raise refusal(table.title, str(table.repo), table.revision, error) from error


def _chosen(table: HubTable, files: dict[Any, Sequence[str]]) -> list[str]:
    splits = {SPLIT_NAMES.get(str(name), str(name)): list(places) for name, places in files.items()}
    wanted = SPLIT_NAMES.get(table.split or "", table.split)
    if not splits or (wanted is not None and wanted not in splits):
        raise DataError(f"{table.title}: no split {table.split or 'at all'!r}; it has {', '.join(splits) or 'none'}")
    return [place for split, places in splits.items() if wanted in (None, split) for place in places]


def _check_gate(table: HubTable, place: str) -> None:
    """Asks for the head of one file, which a gated repository refuses although it lists it."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    path, revision = _in_repository(place)
    get_hf_file_metadata(hf_hub_url(str(table.repo), path, repo_type="dataset", revision=revision))


def _sizes(table: HubTable, places: Sequence[str]) -> Iterator[tuple[str, int]]:
    from huggingface_hub import HfApi

    named = {path: place for place in places for path in [_in_repository(place)[0]]}
    paths, revision = list(named), _in_repository(places[0])[1]
    for first in range(0, len(paths), _AT_ONCE):
        part = paths[first : first + _AT_ONCE]
        for info in HfApi().get_paths_info(str(table.repo), part, revision=revision, repo_type="dataset"):
            yield named[info.path], int(getattr(info, "size", 0))


def _in_repository(place: str) -> tuple[str, str]:
    """Path and commit of `hf://datasets/OWNER/NAME@COMMIT/PATH`."""
    commit, _, path = place.partition("@")[2].partition("/")
    return path, commit
