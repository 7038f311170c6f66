"""`rerank`: the documents of anyone's run, scored anew."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.api.adhoc_recipe import ENCODED, SEARCHED
from hardneg.lines.base import Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, RUN
from hardneg.records.named_plugins import BM25

if TYPE_CHECKING:
    from hardneg.api.results import RankedRun
    from hardneg.api.workplace import Workplace
    from hardneg.recipe.plan import Plan

_RERANKED = "reranked"


class RerankLine(Line):
    """Score the best documents of a run anew, query and document together.

    Scores are kept by content in the user's cache: repeating or deepening a run is quick.

    Raises:
        RecipeError: there is no such reranker, or it has no such option.
        DataError: the run has a mistake, or none of its queries is in the split.

    Example: hardneg rerank --dataset beir:FOLDER --run run.trec.gz --reranker cross-encoder:MODEL --output best.trec.gz
    """

    name = "rerank"
    returns = "RankedRun"
    writes = "run"
    positional = 3
    counts: ClassVar = {"queries": ("query", "queries"), "pairs": ("pair scored", "pairs scored")}
    unsaid = ("depth", "queries in the run")
    arguments = (
        DATASET,
        replace(RUN, help="The TREC run to take the documents from, plain or gzip."),
        Of("rerank.plugin", "reranker", required=True),
        Of("rerank.split", of_dataset=True),
        Of("rerank.depth"),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """The search only stands for the run that is given."""
        from hardneg.api.run_argument import run_file

        split, run = self.split(args), run_file(args.run, workplace.store)
        stages = {
            ENCODED: {"stage": "index", "backend": BM25},
            SEARCHED: {"stage": "search", "index": ENCODED, "split": split},
            _RERANKED: {**args.of("rerank"), "split": split, "run": SEARCHED},
        }
        return Job(self.recipe(args, workplace, stages), partial(_result, args, split, run), [run])


def _result(args: Arguments, split: str, run: Path, plan: "Plan", workplace: "Workplace") -> "RankedRun":
    from hardneg.api.results import TextSource, run_of
    from hardneg.api.single_stage import make_dataset, make_from

    dataset = make_dataset(plan, workplace)
    artifact, facts = make_from(plan, _RERANKED, dataset, {"run": run}, workplace)
    name = str(args.reranker.get("source", args.reranker["name"]))
    return replace(run_of(name, artifact, TextSource.of(dataset, split, workplace.store)), facts=facts)
