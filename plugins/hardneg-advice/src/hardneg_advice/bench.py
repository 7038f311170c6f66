"""`bench`: a comparison of files of negatives, from any program, under one training protocol."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Unpack

from hardneg.plugin import (
    StoredCollection,
    arguments,
    errors,
    forms,
    given,
    measuring,
    metrics_files,
    recipes,
    resolving,
    sessions,
    stores,
    training_stage,
)
from hardneg_advice.bench_rows import BASELINES, IN_BATCH, METRIC, RANDOM, as_markdown, content_of, file_faults
from hardneg_advice.recommend import OTHER_RATES, STATIC_RATES, TEMPERATURE
from hardneg_advice.rule import SHIPPED

BENCH, TABLE = "bench.json", "bench.md"
SCORES, REPORT, HARDNESS = "scores", "report", "hardness"
TRAINED = {"max_steps": 400, "batch_size": 32}
"""The default training options of each arm."""
MARGIN = 0.015
"""The equivalence margin of the tests, as a difference of mean scores."""
_VERSION = 2
_DEPTH, _TOKENS = 1000, 128
_OPTIONS = {**TRAINED, "negatives_per_query": 1, "learning_rate": 0.03, "weight_decay": 0.0, "warmup_steps": 5}
_INSTEAD = {"epochs": "max_steps", "warmup_ratio": "warmup_steps"}
"""Options that, when given, replace the default of another option."""


def _shown(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:g}" for rate in rates)


_TRAINED = " and ".join(f"{name}={value}" for name, value in TRAINED.items())
_RATES = f"Learning rate to try on dev queries; default {_shown(STATIC_RATES)} for a static model, else "
_OPTION = replace(arguments.TRAIN_OPTION, help=f"{arguments.TRAIN_OPTION.help[:-1]}; default {_TRAINED}.")
_FORM = arguments.Arg(f"Form of the files: {', '.join(forms.NAMES)}.", words=forms.NAMES)
Files = Annotated[
    str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    arguments.Arg(
        "Files of negatives for the training queries; each is a row of the result.",
        "a dict of files by row name",
        cli=list[Path],
        metavar="NEGATIVES",
        operand=True,
    ),
]
Student = Annotated[arguments.Model, arguments.Arg("Model to train: a folder or a hub id.")]
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
    seeds: Annotated[int, arguments.Arg("Number of training runs per row, at least 2.", least=2)] = 5,
    rates: Rates = (),
    **where: Unpack[arguments.Where],
) -> "BenchResult":
    """Compare files of negatives from any program by training with each one, and with random and in-batch negatives.

    A small model is trained with each file, with random negatives, and with one more in-batch negative per query. Each
    learning rate is chosen on the dev queries. Tests are over queries and seeds. The report also counts labelled and
    planted positives in the files, and shows how hard and how varied the negatives are. Results are reproducible: the
    same file always gets the same figures.

    Raises:
        UsageError: a file has the name of a baseline, or a rate or the number of seeds is invalid.
        RecipeError: a file does not exist, or its suffix does not fit the form.
        DataError: a file has a mistake, or no negatives for the dataset's training queries.

    Example: hardneg bench mined.parquet --form triplet --dataset beir:FOLDER --output judged
    """
    session, files = sessions.Session.of(where, bench), _files(negatives)
    chosen_options = arguments.mapping_of("options", options)
    tried = sorted({float(rate) for rate in ([rates] if isinstance(rates, int | float) else rates)})
    if not all(0 < rate < float("inf") for rate in tried):
        raise errors.UsageError(f"{{rates}}: learning rates must be above 0, not {_shown(tried)}", "rates")
    if arguments.whole_number("seeds", seeds) < 2:
        raise errors.UsageError("{seeds}: must be at least 2 for the tests", "seeds")
    if "learning_rate" in chosen_options:
        raise errors.UsageError("bench: omit learning_rate, which is chosen from {rates} for each row", "rates")
    protocol = Protocol(files, form, chosen_options, int(seeds))
    reading = {f"{protocol.negatives_of(label)}.file": "negatives" for label in files}
    recipe = session.recipe(bench, dataset, model, protocol.tree, reading)
    protocol = replace(protocol, recipe=recipe)
    plan = session.begin(protocol.filled, [*files.values()])
    collection = StoredCollection.open(session.make(plan, "dataset").artifacts["dataset"].path)
    faults = {label: file_faults(path, form, collection) for label, path in files.items()}
    if not tried:
        static = getattr(resolving.resolve(plan.recipe.model, fetch=True).family, "tables", False)
        tried = [*(STATIC_RATES if static else OTHER_RATES)]
    tuning, on_dev = _tuned(protocol, tried, session)
    final = replace(protocol, rates={label: max(means, key=means.__getitem__) for label, means in on_dev.items()})
    chosen = final.filled.plan(session.tell)
    artifacts = session.make_later("bench", chosen, REPORT).artifacts
    steps = ["dataset", SCORES, HARDNESS, REPORT, *map(final.negatives_of, files)]
    origin = {
        "stage": "bench",
        "version": _VERSION,
        "inputs": {name: artifacts[name].key for name in steps},
        "options": {"tuning": tuning, "files": [*files]},
        "name": "bench",
    }
    shared = {
        "student": recipe.model,
        "options": {name: each for name, each in final.trained.items() if name in {*TRAINED, *chosen_options}},
        "seeds": final.seeds,
        "learning_rates": tried,
        "chosen_by": f"{METRIC} on dev queries, seed 1",
        "equivalence_margin": MARGIN,
        "settings": [*recipe.settings],
    }
    mined = {label: artifacts[final.negatives_of(label)].facts for label in files}
    rows = {label: {"file": faults[label], "facts": mined[label]} for label in files}
    write = partial(_write, chosen.recipe.tree, artifacts, {"protocol": shared}, rows, on_dev)
    artifact = given.keep_result(session.store, "bench", origin, write)
    return BenchResult("bench", artifact.key, artifact.path, artifact.facts)


def _files(value: Any) -> dict[str, Path]:
    """Return files by row label: the keys of a dict, or else the file names."""
    if isinstance(value, Mapping):
        return {str(label): arguments.file_path(each, "negatives") for label, each in value.items()}
    paths = arguments.files_of("negatives", value)
    if lost := [str(path) for path in paths if not path.is_file()]:
        raise errors.UsageError(f"{{negatives}}: no such file: {', '.join(lost)}", "negatives")
    names = Counter(path.name for path in paths)
    return {path.name if names[path.name] == 1 else str(path): path for path in paths}


@dataclass(frozen=True)
class Protocol:
    """A training protocol with arms that differ only in their negatives: `in-batch`, `random`, and one per file.

    All arms score the same number of documents per query: `in-batch` uses a positive of another query as an additional
    negative. files: files of negatives by row label. form: the form of the files. options: options of all training
    runs. seeds: runs per arm. recipe: the command's recipe, without stages. rates: the learning rate of each arm, once
    chosen. tuning: whether to measure on the dev queries with one seed, to choose the rates.
    """

    files: Mapping[str, Path]
    form: str
    options: Mapping[str, Any]
    seeds: int
    recipe: Any = None
    rates: Mapping[str, float] = field(default_factory=dict)
    tuning: bool = False

    def __post_init__(self) -> None:
        if taken := {*BASELINES, SHIPPED} & {*self.files}:
            raise errors.UsageError(
                f"negatives: {taken.pop()!r} is the name of a baseline; use another name for the file"
            )

    @property
    def stages(self) -> dict[str, str]:
        """The training stage of each arm, by row label."""
        files = {label: f"file-{number}" for number, label in enumerate(self.files, 1)}
        return {**{label: label for label in BASELINES}, **files}

    def negatives_of(self, label: str) -> str:
        """Return the name of the stage that reads or draws an arm's negatives. label: the row label of the arm."""
        return "drawn-negatives" if label == IN_BATCH else f"{self.stages[label]}-negatives"

    @property
    def trained(self) -> dict[str, Any]:
        """The training options that all arms share: the defaults, overridden by `options`. `tree` adds the rates."""
        replaced = {usual for name, usual in _INSTEAD.items() if name in self.options}
        return {name: value for name, value in _OPTIONS.items() if name not in replaced} | {**self.options}

    @property
    def tree(self) -> dict[str, Any]:
        """The stages by name, as in a YAML recipe."""
        of_split = {"split": "dev"} if self.tuning else {}
        search = {"stage": "search", "depth": _DEPTH, **of_split}
        top = {"name": "topk", "depth": 10}
        drawn = {"stage": "mine", "positives_of_others": 10, "miner": top}
        stages: dict[str, Any] = {
            "start-index": {"stage": "encode"},
            "start-test": {**search, "index": "start-index"},
            "start-train": {**search, "index": "start-index", "split": "train", "depth": 210, "positives": True},
            self.negatives_of(RANDOM): {"stage": "mine", "miner": {"name": RANDOM, "count": 10}},
            self.negatives_of(IN_BATCH): drawn,
        }
        for label, path in self.files.items():
            reading = {"file": str(path), "form": self.form, "miner": {**top, "depth": _DEPTH}, "fill_to": 1}
            stages[self.negatives_of(label)] = {"stage": "mine", **reading}
        for label, name in self.stages.items():
            rate = {"learning_rate": self.rates[label]} if label in self.rates else {}
            arm = {"negatives": self.negatives_of(label), "loss": {"name": "infonce", "temperature": TEMPERATURE}}
            stages |= {
                name: training_stage(arm, {**self.trained, **rate}),
                f"{name}-index": {"stage": "encode", "model": name},
                f"{name}-test": {**search, "index": f"{name}-index"},
            }
        runs = {label: f"{name}-test" for label, name in self.stages.items()}
        runs = {**{label: runs.pop(label) for label in BASELINES}, SHIPPED: "start-test", **runs}
        metrics = [METRIC, "recall@100", "recall@1000"]
        measured = {"baselines": [*BASELINES], "metrics": metrics, "equivalence_margin": MARGIN}
        negatives = {label: self.negatives_of(label) for label in (RANDOM, *self.files)}
        hardness = {HARDNESS: {"negatives": negatives, "run": "start-train"}}
        analyses = {"the student as shipped": HARDNESS}
        return stages | {
            SCORES: {"stage": "evaluate", "runs": runs, **measured, "by_group": "where_known", **of_split},
            HARDNESS: {"stage": "analyze", "split": "train", "analysis": hardness},
            REPORT: {"stage": "report", "evaluation": SCORES, "analyses": analyses, "training": self.stages},
        }

    @property
    def filled(self) -> Any:
        """The command's recipe, completed with the stages of `tree`, seeds, outputs and a title."""
        top = {
            "title": "Bench for negatives",
            "model": {"query_length": _TOKENS, "document_length": _TOKENS},
            "seeds": [*range(1, 2 if self.tuning else self.seeds + 1)],
            "outputs": {"model": RANDOM, "index": f"{RANDOM}-index"},
        }
        return replace(self.recipe, stages=self.tree, top=top)


def _tuned(
    protocol: Protocol, rates: Sequence[float], session: sessions.Session
) -> tuple[dict[str, str], dict[str, dict[float, float]]]:
    """Return the key of each rate's scores on the dev queries, with one seed, and the means by arm and rate."""
    keys, on_dev = dict[str, str](), dict[str, dict[float, float]]()
    for rate in rates:
        tried = replace(protocol, rates=dict.fromkeys(protocol.stages, rate), tuning=True)
        scores = session.make_later("bench", tried.filled.plan(session.tell), SCORES).artifacts[SCORES]
        keys[str(rate)], results = scores.key, metrics_files.read_metrics(scores.path / "metrics.json").results
        for label in protocol.stages:
            on_dev.setdefault(label, {})[rate] = measuring.means(results[label])[METRIC]
    return keys, on_dev


def _write(
    tree: Mapping[str, Any],
    artifacts: Mapping[str, Any],
    head: Mapping[str, Any],
    files: Mapping[str, Mapping[str, Any]],
    on_dev: Mapping[str, Mapping[float, float]],
    folder: Path,
) -> Mapping[str, Any]:
    """Write the results, their table, the recipe and the report; return facts for the artifact."""
    for name in ("report.html", "report.md", "queries.tsv"):
        stores.link_file(artifacts[REPORT].path / name, folder / name)
    stores.link_file(artifacts[SCORES].path / "metrics.json", folder / "metrics.json")
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    hardness = json.loads((artifacts[HARDNESS].path / f"{HARDNESS}.json").read_text("utf-8"))
    content = {**head, **content_of(files, metrics, hardness, on_dev)}
    stores.replace_text(folder / BENCH, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    stores.replace_text(folder / TABLE, as_markdown(content))
    stores.replace_text(folder / "recipe.yaml", recipes.as_yaml(tree))
    return {"rows": len(files)}


@dataclass(frozen=True)
class BenchResult:
    """The result of `bench`. `path` is a folder with `bench.json`, `bench.md`, a report and the recipe that was run."""

    name: str
    key: str
    path: Path
    facts: Mapping[str, Any] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The results: one dict for each file of negatives, in the given order."""
        rows: list[dict[str, Any]] = self.to_dict()["rows"]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the content of bench.json: `protocol`, `baselines` and `rows`."""
        content: dict[str, Any] = json.loads((self.path / BENCH).read_text("utf-8"))
        return content

    @property
    def text(self) -> str:
        """The results as Markdown: the content of bench.md."""
        return (self.path / TABLE).read_text("utf-8")
