"""`bench`: files of negatives, made by any program, judged by one training protocol."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Unpack

from hardneg.plugin import (
    StoredCollection,
    UsageError,
    Workplace,
    argument_values,
    arguments,
    atomic_write,
    forms,
    keep_result,
    means,
    read_metrics,
    recipe_text,
    resolve_model,
)
from hardneg_advice.bench_rows import Measurements, as_markdown, content_of
from hardneg_advice.file_faults import FileFaults, file_faults
from hardneg_advice.protocol import (
    HARDNESS,
    MARGIN,
    METRIC,
    OTHER_RATES,
    REPORT,
    SCORES,
    STATIC_RATES,
    TRAINED,
    Protocol,
)

BENCH, TABLE = "bench.json", "bench.md"
_VERSION = 1


def _shown(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:g}" for rate in rates)


_TRAINED = " and ".join(f"{name}={value}" for name, value in TRAINED.items())
_RATES = f"A learning rate to try on dev queries; default {_shown(STATIC_RATES)} for a static model, else "
_OPTION = replace(arguments.TRAIN_OPTION, help=f"{arguments.TRAIN_OPTION.help[:-1]}; default {_TRAINED}.")
_MARGIN = arguments.Arg("Systems are equivalent where their means surely differ by less than this.")
_FORM = arguments.Arg(f"Their form: {', '.join(forms.NAMES)}.", words=forms.NAMES)
Files = Annotated[
    str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    arguments.Arg(
        "Files of negatives of the training queries, one row each.",
        "a dict of files by the names of their rows",
        cli=list[Path],
        metavar="NEGATIVES",
        operand=True,
    ),
]
Student = Annotated[arguments.Model, arguments.Arg("The student that is trained: a folder or a hub id.")]
Rates = Annotated[
    float | Sequence[float], arguments.Arg(f"{_RATES}{_shown(OTHER_RATES)}.", cli=list[float], flag="rate")
]


@arguments.spelled_out
def bench(
    negatives: Files,
    dataset: arguments.Dataset,
    *,
    form: Annotated[str, _FORM] = forms.OWN,
    model: Student = "packaged:wordllama",
    options: Annotated[Mapping[str, Any], _OPTION] = {},
    seeds: Annotated[int, arguments.Arg("How often each arm is trained: twice or more.", least=2)] = 5,
    rates: Rates = (),
    equivalence_margin: Annotated[float, _MARGIN] = MARGIN,
    **where: Unpack[arguments.Where],
) -> "BenchResult":
    """Judge files of negatives, mined by any program: train with them, and compare with random and in-batch ones.

    A small model is trained with each file, with random negatives, and with one more in-batch negative per query
    instead; each learning rate is chosen on the dev queries, and the test is over queries and seeds.
    The report also counts labelled and planted positives in the files, and shows how hard and how varied they are. The
    same file gives the same figures.

    Raises:
        UsageError: two rows have one name.
        RecipeError: a file is not there, or cannot be of the form.
        DataError: a file has a mistake, or no negatives of the dataset's training queries.

    Example: hardneg bench mined.parquet --form triplet --dataset beir:FOLDER --output judged
    """
    workplace, files = Workplace.of(where, bench), _files(negatives)
    given, tried = argument_values.mapping_of("options", options), _numbers(rates)
    if argument_values.whole_number("seeds", seeds) < 2:
        raise UsageError("{seeds}: the tests need at least 2", "seeds")
    if "learning_rate" in given:
        raise UsageError("bench: each arm's learning rate is chosen: give {rates} to choose from", "rates")
    protocol = Protocol(files, form, given, int(seeds), equivalence_margin)
    reading = {f"{protocol.negatives_of(label)}.file": "negatives" for label in files}
    recipe = workplace.recipe(bench, dataset, model, protocol.tree, reading)
    protocol = replace(protocol, recipe=recipe)
    plan = workplace.begin(protocol.filled, [*files.values()])
    collection = StoredCollection.open(workplace.make(plan, "dataset").artifacts["dataset"].path)
    faults = {label: file_faults(path, form, collection) for label, path in files.items()}
    tuning, on_dev = _tuned(protocol, tried or _usual_rates(plan.recipe.model), workplace)
    best = {label: max(by_rate, key=lambda rate: by_rate[rate]) for label, by_rate in on_dev.items()}
    final = replace(protocol, rates=best)
    outcome = workplace.make_later("bench", chosen := final.filled.plan(workplace.tell), REPORT)
    steps = ["dataset", SCORES, HARDNESS, REPORT, *map(final.negatives_of, final.files)]
    origin = {
        "stage": "bench",
        "version": _VERSION,
        "inputs": {name: outcome.artifacts[name].key for name in steps},
        "options": {"tuning": tuning, "files": [*final.files]},
        "name": "bench",
    }
    write = partial(_write, final, chosen.recipe.tree, outcome.artifacts, faults, on_dev)
    artifact = keep_result(workplace.store, "bench", origin, write)
    return BenchResult("bench", artifact.key, artifact.path, artifact.facts)


def _files(value: Any) -> dict[str, Path]:
    """Files by the labels of their rows: of a dict its keys, else their names."""
    if isinstance(value, Mapping):
        return {str(label): argument_values.file_path(each, "negatives") for label, each in value.items()}
    paths = argument_values.files_of("negatives", value)
    if lost := [str(path) for path in paths if not path.is_file()]:
        raise UsageError(f"{{negatives}}: no file {', '.join(lost)}", "negatives")
    names = Counter(path.name for path in paths)
    labels = {path.name if names[path.name] == 1 else str(path): path for path in paths}
    if len(labels) < len(paths):
        raise UsageError("{negatives}: a file is given twice; give each once", "negatives")
    return labels


def _numbers(rates: Any) -> list[float]:
    """Learning rates in order. Raises UsageError where one is no number above 0."""
    several = [rates] if isinstance(rates, int | float | str) else [*rates]
    try:
        numbers = {float(rate) for rate in several}
    except (TypeError, ValueError):
        numbers = {float("nan")}
    if not all(0 < rate < float("inf") for rate in numbers):
        raise UsageError(f"{{rates}}: learning rates are numbers above 0, not {', '.join(map(str, several))}", "rates")
    return sorted(numbers)


def _usual_rates(model: Any) -> list[float]:
    """Learning rates to choose from: of a table of token vectors a thousand times those of a transformer."""
    static = getattr(resolve_model(model, fetch=True).family, "tables", False)
    return [*(STATIC_RATES if static else OTHER_RATES)]


def _tuned(
    protocol: Protocol, rates: Sequence[float], workplace: Workplace
) -> tuple[dict[str, str], dict[str, dict[float, float]]]:
    """The key of the scores of each rate on the dev queries, with one seed; the mean by arm and rate."""
    keys, on_dev = dict[str, str](), dict[str, dict[float, float]]()
    for rate in rates:
        tried = replace(protocol, rates=dict.fromkeys(protocol.stages, rate), tuning=True)
        plan = tried.filled.plan(workplace.tell)
        scores = workplace.make_later("bench", plan, SCORES).artifacts[SCORES]
        keys[str(rate)], results = scores.key, read_metrics(scores.path / "metrics.json").results
        for label in protocol.stages:
            on_dev.setdefault(label, {})[rate] = means(results[label])[METRIC]
    return keys, on_dev


def _write(
    protocol: Protocol,
    tree: Mapping[str, Any],
    artifacts: Mapping[str, Any],
    faults: Mapping[str, FileFaults],
    on_dev: Mapping[str, Mapping[float, float]],
    folder: Path,
) -> Mapping[str, Any]:
    """Writes the rows, the table, the recipe, and the report beside them."""
    for name in ("report.html", "report.md", "queries.tsv"):
        atomic_write.link_file(artifacts[REPORT].path / name, folder / name)
    atomic_write.link_file(artifacts[SCORES].path / "metrics.json", folder / "metrics.json")
    mined = {label: artifacts[protocol.negatives_of(label)].facts for label in protocol.files}
    hardness = json.loads((artifacts[HARDNESS].path / f"{HARDNESS}.json").read_text("utf-8"))
    measured = Measurements(json.loads((folder / "metrics.json").read_text("utf-8")), hardness, faults, mined, on_dev)
    content = content_of(protocol, measured)
    atomic_write.replace_text(folder / BENCH, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    atomic_write.replace_text(folder / TABLE, as_markdown(content))
    atomic_write.replace_text(folder / "recipe.yaml", recipe_text(tree))
    return {"rows": len(protocol.files)}


@dataclass(frozen=True)
class BenchResult:
    """Files of negatives, judged: `path` is a folder with `bench.json`, `bench.md`, a report and its recipe."""

    name: str
    key: str
    path: Path
    facts: Mapping[str, Any] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What each file came to."""
        rows: list[dict[str, Any]] = self.to_dict()["rows"]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The protocol, and the rows."""
        content: dict[str, Any] = json.loads((self.path / BENCH).read_text("utf-8"))
        return content

    @property
    def text(self) -> str:
        """The table, as Markdown."""
        return (self.path / TABLE).read_text("utf-8")
