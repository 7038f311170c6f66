"""`mine`: hard negatives, mined by a model or from anyone's run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import ENCODED, MINED, SEARCHED
from hardneg.lines.base import Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, LISTED, MINED_BY, MODEL, RUN, VECTORS, optional
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.mined import MinedNegatives
    from hardneg.api.vectors_argument import QueryVectors
    from hardneg.api.workplace import Workplace
    from hardneg.recipe.plan import Plan
    from hardneg.store.artifacts import Artifact


class MineLine(Line):
    """Mine hard negatives and write them in the form a training program reads.

    The vectors, the run and the negatives are kept in the store: repeating it, or writing another form, is quick.

    Raises:
        UsageError: arguments do not go together.
        RecipeError: the miner has no such option, or another mistake in what was asked.
        DataError: the dataset or the run has a mistake.

    Example: hardneg mine --dataset beir:FOLDER --model NAME --form n-tuple --count 8 --output mined.parquet

    Example: hardneg mine --dataset beir:FOLDER --index FOLDER --query-vectors queries.parquet --output mined.parquet
    """

    name = "mine"
    returns = "MinedNegatives"
    writes = "negatives"
    shows = ("settings", "store", "device", "processes", "engine")
    arguments = (
        DATASET,
        optional(MODEL),
        replace(optional(RUN), help="Select from this TREC run instead of a model's search."),
        *VECTORS,
        MINED_BY,
        Of("mine.filters"),
        Of("mine.split", of_dataset=True),
        LISTED,
        Of("mine.also_qrels"),
        replace(
            optional(RUN),
            name="filter_by",
            help="With a run: a TREC run whose scores the miner filters by, such as a reranker's.",
        ),
        Of("mine.seed"),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """Encodes, searches and mines; or mines from a run, or from what an index has for vectors of queries."""
        from hardneg.api.run_argument import run_file
        from hardneg.api.vectors_argument import named_vectors

        runs = {name: getattr(args, name) for name in ("run", "filter_by")}
        files = {name: run_file(run, workplace.store) for name, run in runs.items() if run is not None}
        vectors = named_vectors("mine", args)
        if [args.model is not None, "run" in files, vectors is not None].count(True) != 1:
            problem = "mine: give {model}, {run}, or {index} with {query_vectors}, one of them"
            raise UsageError(problem, "model", "run", "index", "query_vectors")
        if "filter_by" in files and args.model is not None:
            raise UsageError("mine: {filter_by} goes with {run}, the list to select from", "filter_by", "run")
        split = self.split(args)
        stages = {MINED: mining(args, split)} if args.model is None else mining_stages(args, split)
        reads = [*files.values(), *(vectors.reads if vectors else [])]
        return Job(self.recipe(args, workplace, stages), _Mined(args, files, vectors, reads).result, reads)


def mining(args: Arguments, split: str) -> dict[str, Any]:
    """The stage that mines."""
    return {**args.of("mine"), "split": split}


def mining_stages(args: Arguments, split: str) -> dict[str, Any]:
    """The stages that encode, search and mine."""
    from hardneg.api.adhoc_recipe import list_options

    mined = mining(args, split)
    searched = {**args.of("search"), "index": ENCODED, "split": split, **list_options(mined)}
    return {ENCODED: {"stage": "encode"}, SEARCHED: searched, MINED: {**mined, "runs": {"dense": SEARCHED}}}


@dataclass(frozen=True)
class _Mined:
    """What is mined, from these files of runs or from what an index has for vectors; of neither, by the model."""

    args: Arguments
    files: Mapping[str, Path]
    vectors: "QueryVectors | None"
    reads: Sequence[Path]

    def result(self, plan: "Plan", workplace: "Workplace") -> "MinedNegatives | None":
        """The negatives; None in all but the first of several processes."""
        return self._from_runs(plan, workplace) if self.reads else self._by_model(plan, workplace)

    def _by_model(self, plan: "Plan", workplace: "Workplace") -> "MinedNegatives | None":
        from hardneg.api.mined_scores import ModelScores
        from hardneg.records.layout import DATASET
        from hardneg.runtime.distributed import world

        outcome = workplace.make(plan)
        if not world().first:
            return None
        result, scores = outcome.artifacts[MINED], ModelScores(plan, outcome, workplace, ENCODED, SEARCHED)
        return self._mined(plan, outcome.artifacts[DATASET], (result, result.facts), scores, workplace)

    def _from_runs(self, plan: "Plan", workplace: "Workplace") -> "MinedNegatives | None":
        from hardneg.api.mined_scores import RunScores
        from hardneg.api.single_stage import make_dataset, make_from
        from hardneg.records.types import SCORES
        from hardneg.runtime.distributed import world

        dataset = make_dataset(plan, workplace)
        if not world().first:
            return None
        run = self.files["run"] if self.vectors is None else self._searched(self.vectors, workplace)
        scores = {f"runs.{SCORES}": self.files["filter_by"]} if "filter_by" in self.files else {}
        result = make_from(plan, MINED, dataset, {"runs.run": run, **scores}, workplace)
        return self._mined(plan, dataset, result, RunScores(run), workplace)

    def _searched(self, vectors: "QueryVectors", workplace: "Workplace") -> Path:
        name = f"{vectors.queries.name}.trec.gz"
        return vectors.kept_run(workplace, self.args.depth, name)[0].path / name

    def _mined(
        self,
        plan: "Plan",
        dataset: "Artifact",
        result: "tuple[Artifact, Mapping[str, Any]]",
        scores: Any,
        workplace: "Workplace",
    ) -> "MinedNegatives":
        from hardneg.api.mined import mined_in
        from hardneg.api.results import TextSource
        from hardneg.recipe.run_folder import inputs_of

        spec, (artifact, facts) = vars(plan.steps[MINED].spec), result
        source = TextSource.of(dataset, spec["split"], workplace.store, [*inputs_of(plan.recipe), *self.reads])
        return mined_in(spec["miner"].name, artifact.path, artifact.key, facts, source, scores)
