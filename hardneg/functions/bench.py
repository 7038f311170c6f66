"""`bench`: files of negatives, made by any program, judged by one training protocol."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.api.arguments import TRAIN_OPTION, Arg, Dataset, Model, Where, spelled_out
from hardneg.api.bench_recipe import MARGIN, OTHER_RATES, STATIC_RATES, TRAINED, BenchRecipe
from hardneg.formats.export.catalogue import NAMES, OWN, check_form
from hardneg.functions.evaluate import EQUIVALENCE
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.benching import BenchResult


def _shown(rates: Collection[float]) -> str:
    return " ".join(f"{rate:g}" for rate in rates)


_TRAINED = " and ".join(f"{name}={value}" for name, value in TRAINED.items())
_RATES = f"A learning rate to try on dev queries; default {_shown(STATIC_RATES)} for a static model, else "
_OPTION = replace(TRAIN_OPTION, help=f"{TRAIN_OPTION.help[:-1]}; default {_TRAINED}.")

Files = Annotated[
    str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    Arg(
        "Files of negatives of the training queries, one row each.",
        "a dict of files by the names of their rows",
        cli=list[Path],
        metavar="NEGATIVES",
        operand=True,
    ),
]
Student = Annotated[Model, Arg("The student that is trained: a folder or a hub id.")]
Rates = Annotated[float | Sequence[float], Arg(f"{_RATES}{_shown(OTHER_RATES)}.", cli=list[float], flag="rate")]


@spelled_out
def bench(
    negatives: Files,
    dataset: Dataset,
    *,
    form: Annotated[str, Arg(f"Their form: {', '.join(NAMES)}.", words=NAMES)] = OWN,
    model: Student = "packaged:wordllama",
    options: Annotated[Mapping[str, Any], _OPTION] = {},
    seeds: Annotated[int, Arg("How often each arm is trained: twice or more.", least=2)] = 5,
    rates: Rates = (),
    equivalence_margin: Annotated[float, EQUIVALENCE] = MARGIN,
    **where: Unpack[Where],
) -> "BenchResult":
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
    from hardneg.api.argument_values import mapping_of, stage, whole_number
    from hardneg.api.benching import Bench
    from hardneg.api.dataset_argument import named_dataset, named_model
    from hardneg.api.workplace import Workplace
    from hardneg.recipe.language import replaced

    workplace, files, given = Workplace.of(where, bench), _files(negatives), mapping_of("options", options)
    margin = stage("evaluate", {"equivalence_margin": equivalence_margin})["equivalence_margin"]
    if whole_number("seeds", seeds) < 2:
        raise UsageError("{seeds}: the tests need at least 2", "seeds")
    check_files(files.values(), form)
    if "learning_rate" in given:
        raise UsageError("bench: each arm's learning rate is chosen: give {rates} to choose from", "rates")
    named, student = named_dataset(dataset, workplace.store), named_model(model, workplace.store)
    trained = {name: value for name, value in TRAINED.items() if name not in replaced(given)} | given
    settings = (workplace.seed, workplace.settings)
    recipe = BenchRecipe(files, form, named, student, trained, int(seeds), margin, *settings)
    tried = _numbers(rates)
    return Bench(recipe, tried).judged(workplace.begin(recipe, [*files.values()]), workplace)


def _files(value: Any) -> dict[str, Path]:
    """Files by the labels of their rows: of a dict its keys, else their names."""
    from hardneg.api.argument_values import files_of
    from hardneg.api.run_argument import run_labels

    if isinstance(value, Mapping):
        return {str(label): files_of("negatives", each)[0] for label, each in value.items()}
    return {label: path for path, label in run_labels(files_of("negatives", value)).items()}


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


def _numbers(rates: Any) -> list[float]:
    """Learning rates. Raises UsageError where one is no number above 0."""
    several = [rates] if isinstance(rates, int | float | str) else [*rates]
    try:
        numbers = [float(rate) for rate in several]
    except (TypeError, ValueError):
        numbers = [float("nan")]
    if not all(0 < rate < float("inf") for rate in numbers):
        raise UsageError(f"{{rates}}: learning rates are numbers above 0, not {', '.join(map(str, several))}", "rates")
    return numbers
