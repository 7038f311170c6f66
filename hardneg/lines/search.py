"""`search`: a corpus searched for the queries of one split, or an index for vectors of queries."""

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.api.adhoc_recipe import ENCODED, SEARCHED
from hardneg.lines.base import Argument, Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, MODEL, VECTORS, optional
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.results import RankedRun
    from hardneg.api.vectors_argument import QueryVectors
    from hardneg.api.workplace import Workplace

_LISTED, _LISTED_RUN = "candidates-index", "candidates"


def _texts(name: str, help_text: str) -> Argument:
    from hardneg.api.argument_values import plugin_setting

    check = partial(plugin_setting, name)
    return Argument(name, help_text, "str | Mapping[str, Any] | None", None, plugins="indexes", check=check)


class SearchLine(Line):
    """Search a corpus for the queries of one split and write a TREC run; or search an index with query vectors.

    Raises:
        UsageError: both a model and a backend, or none.

    Example: hardneg search --dataset beir:FOLDER --model NAME --split test --output run.trec.gz

    Example: hardneg search --index FOLDER --query-vectors queries.parquet --output run.trec.gz
    """

    name = "search"
    returns = "RankedRun"
    writes = "run"
    shows = ("settings", "store", "device", "processes", "engine")
    counts: ClassVar = {"queries": ("query", "queries")}
    unsaid = ("depth",)
    arguments = (
        optional(DATASET),
        optional(MODEL),
        _texts("backend", "An index over texts instead of a model, such as bm25."),
        *VECTORS,
        Of("search.split", of_dataset=True),
        Of("search.depth"),
        _texts("candidates", "An index over texts, such as bm25: rank only its best documents."),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """The stages that search an index over texts, or one that a model makes, maybe for candidates of another."""
        from hardneg.api.vectors_argument import named_vectors

        if vectors := named_vectors("search", args):
            if any(each is not None for each in (args.dataset, args.model, args.backend, args.candidates)):
                problem = "search: {index} and {query_vectors} are all that is read: leave the others out"
                raise UsageError(problem, "index", "query_vectors")
            return Job(None, partial(_of_vectors, args, vectors), vectors.reads)
        if args.dataset is None or (args.model is None) == (args.backend is None):
            problem = "search: give {dataset}, and {model} or {backend}, one of them"
            raise UsageError(problem, "dataset", "model", "backend")
        if args.candidates is not None and args.model is None:
            raise UsageError("search: {candidates} are ranked by a model: give {model}", "candidates", "model")
        split = self.split(args)
        searched = {**args.of("search"), "split": split}
        encoded = {"stage": "encode"} if args.backend is None else {"stage": "index", "backend": args.backend}
        stages: dict[str, Any] = {ENCODED: encoded, SEARCHED: {**searched, "index": ENCODED}}
        if args.candidates is not None:
            stages[_LISTED] = {"stage": "index", "backend": args.candidates}
            stages[_LISTED_RUN] = {**searched, "index": _LISTED}
            stages[SEARCHED]["candidates"] = _LISTED_RUN
        return Job(self.recipe(args, workplace, stages), partial(_result, args, split))


def _result(args: Arguments, split: str, plan: Any, workplace: "Workplace") -> "RankedRun | None":
    from hardneg.api.model_argument import model_name
    from hardneg.api.results import TextSource, run_of
    from hardneg.runtime.distributed import world

    artifacts = workplace.make(plan).artifacts
    if not world().first:
        return None
    name = model_name(args.model) if args.backend is None else args.backend["name"]
    return run_of(name, artifacts[SEARCHED], TextSource.of(artifacts["dataset"], split, workplace.store))


def _of_vectors(args: Arguments, vectors: "QueryVectors", plan: None, workplace: "Workplace") -> "RankedRun":
    """What an index has for vectors of queries."""
    from hardneg.api.results import RankedRun
    from hardneg.records.layout import RUN

    artifact, count = vectors.kept_run(workplace, args.depth)
    return RankedRun(vectors.queries.stem, artifact.key, artifact.path / RUN, {"queries": count}, workplace.store, None)
