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


def _texts(name: str, told: str) -> Argument:
    from hardneg.api.argument_values import plugin_setting

    check = partial(plugin_setting, name)
    return Argument(name, told, "str | Mapping[str, Any] | None", None, plugins="indexes", check=check)


class SearchLine(Line):
    """Search a corpus for the queries of one split and write a TREC run; or an index, for vectors of queries.

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

    def job(self, given: Arguments, place: "Workplace") -> Job:
        """The stages that search an index over texts, or one that a model makes, maybe for candidates of another."""
        from hardneg.api.vectors_argument import named_vectors

        if vectors := named_vectors("search", given):
            if any(each is not None for each in (given.dataset, given.model, given.backend, given.candidates)):
                told = "search: {index} and {query_vectors} are all that is read: leave the others out"
                raise UsageError(told, "index", "query_vectors")
            return Job(None, partial(_of_vectors, given, vectors), vectors.reads)
        if given.dataset is None or (given.model is None) == (given.backend is None):
            told = "search: give {dataset}, and {model} or {backend}, one of them"
            raise UsageError(told, "dataset", "model", "backend")
        if given.candidates is not None and given.model is None:
            raise UsageError("search: {candidates} are ranked by a model: give {model}", "candidates", "model")
        split = self.split(given)
        searched = {**given.of("search"), "split": split}
        encoded = {"stage": "encode"} if given.backend is None else {"stage": "index", "backend": given.backend}
        stages: dict[str, Any] = {ENCODED: encoded, SEARCHED: {**searched, "index": ENCODED}}
        if given.candidates is not None:
            stages[_LISTED] = {"stage": "index", "backend": given.candidates}
            stages[_LISTED_RUN] = {**searched, "index": _LISTED}
            stages[SEARCHED]["candidates"] = _LISTED_RUN
        return Job(self.recipe(given, place, stages), partial(_made, given, split))


def _made(given: Arguments, split: str, plan: Any, place: "Workplace") -> "RankedRun | None":
    from hardneg.api.model_argument import model_name
    from hardneg.api.results import TextSource, run_of
    from hardneg.runtime.distributed import world

    made = place.make(plan).artifacts
    if not world().first:
        return None
    name = model_name(given.model) if given.backend is None else given.backend["name"]
    return run_of(name, made[SEARCHED], TextSource.of(made["dataset"], split, place.store))


def _of_vectors(given: Arguments, vectors: "QueryVectors", plan: None, place: "Workplace") -> "RankedRun":
    """What an index has for vectors of queries."""
    from hardneg.api.results import RankedRun
    from hardneg.records.layout import RUN

    made, count = vectors.kept_run(place, given.depth)
    return RankedRun(vectors.queries.stem, made.key, made.path / RUN, {"queries": count}, place.store, None)
