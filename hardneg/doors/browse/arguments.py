"""The arguments of the command and of the function, as source files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.arguments import Dataset
from hardneg.api.dataset_argument import named_dataset
from hardneg.api.mined import MinedNegatives
from hardneg.api.single_stage import make_dataset
from hardneg.api.workplace import Workplace
from hardneg.doors.browse.sources import BrowseSources, is_run_folder, of_files, of_run_folder
from hardneg.records.errors import UsageError
from hardneg.records.layout import DROPPED


@dataclass(frozen=True)
class Beside:
    """Sources beside negatives: runs, runs of rerankers or guides, and the file of drops."""

    runs: Sequence[Path] = ()
    filter_by: Sequence[Path] = ()
    dropped: Path | None = None

    def added(self, sources: BrowseSources) -> BrowseSources:
        """The sources with these.

        Raises:
            UsageError: one of them is no run, has the name of another one, or is of no negatives.
        """
        if self.dropped is not None:
            if not sources.negatives:
                raise UsageError("{dropped}: goes with a file of negatives", "dropped")
            sources = replace(sources, dropped={**sources.dropped, next(iter(sources.negatives)): self.dropped})
        if not self.runs and not self.filter_by:
            return sources
        more = of_files([*self.runs, *self.filter_by], sources.split)
        if wrong := [*more.negatives, *(label for label in more.runs if label in sources.runs)]:
            raise UsageError(f"{{runs}} {wrong[0]}: is no run, or its name is that of another one", "runs")
        judges = {label for label, path in more.runs.items() if path in self.filter_by}
        return replace(sources, runs={**sources.runs, **more.runs}, judges=sources.judges | judges)


def path_sources(
    paths: Sequence[Path], dataset: Dataset | None, split: str | None, workplace: Workplace
) -> BrowseSources:
    """The files of a finished recipe's folder, or these files.

    Raises:
        UsageError: a file is not there, or the arguments do not go together.
    """
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        if missing := [path for path in paths if not path.is_file()]:
            raise UsageError(f"{missing[0]}: no such file; give a finished recipe's folder, negatives or runs")
        files = of_files(list(paths), split or "train")
        if dataset is None:
            return files
        plan = AdhocRecipe("browse", named_dataset(dataset, workplace.store)).plan()
        return replace(files, dataset=make_dataset(plan, workplace).path)
    if len(paths) > 1:
        raise UsageError("browse: give one folder alone, or files; to compare with a run, add {runs}", "runs")
    if dataset is not None:
        raise UsageError("{dataset}: a finished recipe's folder knows its own; leave it out", "dataset")
    if not is_run_folder(folders[0]):
        raise UsageError(f"{folders[0]}: holds no finished recipe; give the folder that `recipe run` wrote, or files")
    return of_run_folder(folders[0], workplace.store, split)


def mined_sources(mined: MinedNegatives) -> BrowseSources:
    """The files of a result of `hardneg.mine`; marks go into the working folder."""
    dropped = {mined.name: mined.folder / DROPPED} if (mined.folder / DROPPED).is_file() else {}
    return BrowseSources(
        mined.name,
        Path(f"{mined.name}.marks.qrels"),
        negatives={mined.name: mined.path},
        dropped=dropped,
        dataset=mined.source.collection.folder,
        split=mined.source.split,
    )
