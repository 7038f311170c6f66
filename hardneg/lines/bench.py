"""`bench`: files of negatives, made by any program, judged by one training protocol."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.api.bench_recipe import MARGIN, OTHER_RATES, STATIC_RATES, TRAINED, BenchRecipe
from hardneg.formats.export.catalogue import NAMES, OWN, check_form
from hardneg.lines.base import Argument, Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, MODEL, TRAIN_OPTIONS
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace


def _files(value: Any) -> dict[str, Path]:
    """Files by the labels of their rows: of a dict its keys, else their names."""
    from hardneg.api.argument_values import files_of
    from hardneg.api.labels import run_labels

    if isinstance(value, Mapping):
        return {str(label): files_of("negatives", each)[0] for label, each in value.items()}
    return {label: path for path, label in run_labels(files_of("negatives", value)).items()}


def _seeds(value: Any) -> int:
    from hardneg.api.argument_values import whole_number

    if whole_number("seeds", value) < 2:
        raise UsageError("{seeds}: the tests need at least 2", "seeds")
    return int(value)


def check_files(files: Collection[Path], form: str) -> None:
    """Raises UsageError where files are not there, or cannot be of the form; all mistakes."""
    problems = [f"negatives: no file {path}" for path in files if not path.is_file()]
    for path in files:
        try:
            check_form(form, path)
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))


def _rates(value: Any) -> list[float]:
    rates = [value] if isinstance(value, int | float | str) else [*value]
    try:
        numbers = [float(rate) for rate in rates]
    except (TypeError, ValueError):
        numbers = [float("nan")]
    if not all(0 < rate < float("inf") for rate in numbers):
        raise UsageError(f"{{rates}}: learning rates are numbers above 0, not {', '.join(map(str, rates))}", "rates")
    return numbers


def _shown(rates: Collection[float]) -> str:
    return " ".join(f"{rate:g}" for rate in rates)


_TRAINED = " and ".join(f"{name}={value}" for name, value in TRAINED.items())


class BenchLine(Line):
    """Judge files of negatives, mined by any program: train with them, and compare with random and in-batch ones.

    A small model is trained with each file, with random negatives, and with one more in-batch negative per query
    instead; each learning rate is chosen on the dev queries, and the test is over queries and seeds.
    The report also counts labelled and planted positives in the files, and shows how hard and how varied they are. The
    same file gives the same figures.

    Raises:
        UsageError: a file cannot be of the form, or two rows have one name.
        DataError: a file has a mistake, or no negatives of the dataset's training queries.

    Example: hardneg bench mined.parquet --form triplet --dataset beir:FOLDER --output judged
    """

    name = "bench"
    returns = "BenchResult"
    shows = ("settings", "store", "device")
    arguments: ClassVar = (
        Argument(
            "negatives",
            "Files of negatives of the training queries, one row each.",
            "str | Path | Sequence[str | Path] | Mapping[str, str | Path]",
            form=list[Path],
            check=_files,
            metavar="NEGATIVES",
            operand=True,
            objects="a dict of files by the names of their rows",
        ),
        DATASET,
        Argument("form", f"Their form: {', '.join(NAMES)}.", default=OWN, words=NAMES),
        replace(MODEL, help="The student that is trained: a folder or a hub id.", default="packaged:wordllama"),
        replace(TRAIN_OPTIONS, help=f"{TRAIN_OPTIONS.help[:-1]}; default {_TRAINED}."),
        Argument("seeds", "How often each arm is trained: twice or more.", "int", 5, int, _seeds, least=2),
        Argument(
            "rates",
            f"A learning rate to try on dev queries; default {_shown(STATIC_RATES)} for a static model, else "
            f"{_shown(OTHER_RATES)}.",
            "float | Sequence[float]",
            (),
            list[float],
            _rates,
            flag="rate",
        ),
        Of("evaluate.equivalence_margin", default=MARGIN),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """Plans the last of the recipes at first, so that mistakes are seen before any work."""
        from hardneg.api.benching import Bench
        from hardneg.api.dataset_argument import named_dataset
        from hardneg.api.model_argument import named_model
        from hardneg.recipe.language import replaced

        check_files(args.negatives.values(), args.form)
        if "learning_rate" in args.options:
            raise UsageError("bench: each arm's learning rate is chosen: give {rates} to choose from", "rates")
        dataset, model = named_dataset(args.dataset, workplace.store), named_model(args.model, workplace.store)
        options = {name: value for name, value in TRAINED.items() if name not in replaced(args.options)} | args.options
        recipe = BenchRecipe(
            args.negatives,
            args.form,
            dataset,
            model,
            options,
            args.seeds,
            args.equivalence_margin,
            workplace.seed,
            workplace.settings,
        )
        return Job(recipe, Bench(recipe, args.rates).judged, [*args.negatives.values()])

    def sentences(self, result: Any) -> Iterator[str]:
        """The table."""
        yield result.text
