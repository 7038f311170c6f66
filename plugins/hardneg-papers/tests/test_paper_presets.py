"""The `paper` presets compared with the papers: significance levels, splits, batches, teachers, kept weights."""

import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hardneg_papers.analyses.runs import Unjudged
from hardneg_papers.book import Book, deep
from recipes.recipes import with_a_paper_preset

from hardneg.evaluation.metrics import evaluate, means
from hardneg.formats.qrels import read_qrels
from hardneg.formats.runs import read_run
from hardneg.recipes import Recipe, expand, find_recipe, head_comment, load_recipe, make_plan, needs

for package in ("hardneg_datasets", "hardneg_multi_vector", "hardneg_sparse"):
    pytest.importorskip(package)


def paper(name: str) -> Recipe:
    return load_recipe(find_recipe(name), "paper")


def test_published_runs_are_measured_as_in_their_papers(test_data):
    """BM25 for STAR and ADORE; the run of ANCE's released model, which has .662 where the paper's table has .661."""
    scores: Any = paper("star-adore-trec-dl").stages["dl-scores"]
    coverage: Any = paper("ance-coverage").stages["coverage"]
    (asked,) = (each for each in coverage.analysis if isinstance(each, Unjudged))
    qrels = read_qrels(test_data / "trec-dl/qrels/qrels.dl19-passage.txt")
    for name, metrics, level, published in (
        ("rankllm.bm25.dl19.top100", scores.metrics, scores.relevance_level, {"ndcg@10": 0.506, "recall@100": 0.453}),
        ("colbertprf.ANCE.dl19", asked.metrics, coverage.relevance_level, {"recall@1000": 0.662}),
    ):
        found = means(evaluate(read_run(test_data / f"trec-dl/runs/{name}.trec.gz"), qrels, metrics, level))
        assert {metric: round(value, 3) for metric, value in found.items()} == published


def test_ance_reranks_bm25s_first_hundred_and_its_coverage_looks_a_thousand_deep():
    for name in ("adore-ance-passage", "ance-table1", "ance-coverage"):
        stages: Mapping[str, Any] = paper(name).stages
        reranked = [spec for spec in stages.values() if spec.stage == "search" and spec.candidates]
        assert reranked and all(stages[spec.candidates].depth == 100 for spec in reranked)
    (asked,) = stages["coverage"].analysis
    assert {stages[run].depth for run in asked.runs.values()} == {1000}
    assert {stages[run].split for run in asked.runs.values()} == {"test"}
    assert stages[asked.runs[asked.against]].index == "bm25-index"


def test_single_settings_of_presets():
    """In-Batch Neg in its own recipe, SPLADE's warm-ups, ColBERT's prompts, the query of Figure 6, TAS-B's logits."""
    names = ("star-inbatch-passage", "inbatch-neg-passage")
    assert len({make_plan(paper(name), []).keys["inbatch-neg"] for name in names}) == 1
    splade: Mapping[str, Any] = paper("star-splade").stages
    assert {splade[name].options.warmup_steps for name in ("warm-up", "star", "inbatch-neg")} == {6000}
    colbert = paper("star-colbert").model
    assert (colbert.query_prompt, colbert.document_prompt) == ("[Q] ", "[D] ")
    figure: Any = paper("adore-baselines-document").stages["figure6"]
    assert [each.query for each in figure.analysis] == [("1129237",)]
    plugins = paper("tas-b").plugins
    teacher: Any = plugins["teacher", "plugin"]
    losses: list[Any] = [plugins[name, "loss"] for name in ("margins", "topics", "tas-b")]
    assert teacher.activation == "none" and not any(loss.probabilities for loss in losses)


def test_in_batch_negatives_on_questions_are_those_of_one_gpu_of_two():
    """The paper has 512 queries on each of two GPUs; the in-batch row has as many per step, but half the documents."""
    stages: Mapping[str, Any] = paper("rocketqa-nq-table7").stages
    in_batch, cross_batch = stages["in-batch"].options, stages["rocketqa-1"].options
    assert (in_batch.batch_size, in_batch.accumulate) == (512, 2)
    assert cross_batch.batch_size * cross_batch.accumulate == 1024
    assert in_batch.total_steps(58_880) == cross_batch.total_steps(58_880) == 58_880 * 30 // 1024


def test_ances_overlap_is_of_one_training_that_waits_for_its_negatives():
    """Training to step 40,000 must pass through the same models as training to 10,000, 20,000 and 30,000."""
    stages: Mapping[str, Any] = paper("ance-overlap").stages
    steps = {"early": 10_000, "middle": 20_000, "late": 30_000, "end": 40_000}
    for step, last in steps.items():
        ance = stages[f"ance-{step}"]
        assert (ance.refresh.policy, ance.refresh.every, ance.options.stop_at) == ("synchronous", 10_000, last)
        assert ance.options.max_steps == stages["ance-end"].options.max_steps


PAPERS = with_a_paper_preset()
PRETRAINED_FOR_RETRIEVAL = {"Luyu/co-condenser-marco", "GPL/msmarco-distilbert-margin-mse"}


def test_no_paper_preset_encodes_with_a_model_that_cannot_rank_yet():
    for name in PAPERS:
        tree = expand(find_recipe(name), "paper", []).tree
        if tree["model"]["name"] in PRETRAINED_FOR_RETRIEVAL or tree["model"]["name"].startswith("runs/"):
            continue
        stages = tree["stages"]
        encoded = [stage for stage, spec in stages.items() if spec["stage"] == "encode"]
        assert not [stage for stage in encoded if stages[stage].get("model", "start") == "start"], name


BASELINES = {"inbatch-neg": "In-Batch Neg", "rand-neg": "Rand Neg", "bm25-neg": "BM25 Neg"}


def test_baselines_on_documents_are_the_passages_models_and_adore_alone_is_trained():
    """STAR/ADORE, section 7.3: "trained on passage task ... directly evaluated on the document task"."""
    recipe = paper("adore-baselines-document")
    stages: Mapping[str, Any] = recipe.stages
    trained = {name for name, spec in stages.items() if spec.stage.startswith("train")}
    assert trained == {f"adore-{name}" for name in BASELINES}
    for name, label in BASELINES.items():
        assert stages[name].model.name == f"runs/{name}-passage-paper/model"
        assert stages[name].model.document_length == 512
        assert (stages[f"{name}-index"].model, stages[f"adore-{name}"].model) == (name, name)
        assert stages["scores"].runs[label] == f"{name}-test"
        assert stages["dl-scores"].runs[f"ADORE+{label}"] == f"adore-{name}-dl"
    told = list(needs(make_plan(recipe, [])))
    wanted = {each.subject for each in told if each.category == "model"}
    assert wanted == {f"runs/{name}-passage-paper/model" for name in BASELINES}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("star-document", {"BM25", "STAR"}),
        ("adore-star-document", {"BM25", "STAR", "ADORE+STAR"}),
        ("adore-baselines-document", {"BM25", *BASELINES.values(), *(f"ADORE+{row}" for row in BASELINES.values())}),
    ],
)
def test_table_2_on_documents_has_both_columns(name, rows):
    recipe = paper(name)
    stages: Mapping[str, Any] = recipe.stages
    dev, trec = stages["scores"], stages["dl-scores"]
    assert (dev.split, dev.metrics) == ("dev", ("mrr@100", "recall@100"))
    assert (trec.split, trec.metrics, trec.relevance_level) == ("test", ("ndcg@10", "recall@100"), 1)
    assert {*trec.runs} == rows and all(stages[run].split == "test" for run in trec.runs.values())
    loader: Any = recipe.plugins["dataset", "loader"]
    assert loader.splits["test"] == "msmarco-document/trec-dl-2019/judged"
    of_dev, of_trec = (stages[stages[table.runs["BM25"]].index].backend.options for table in (dev, trec))
    assert (of_dev, of_trec) == ({"k1": 3.44, "b": 0.87}, {"k1": 0.9, "b": 0.4})


def test_table_5_has_ndcg_on_trec_dl():
    """ADORE trained on each index is searched without compression; the paper has .661 for flat and .656 for PQ 96."""
    stages: Mapping[str, Any] = paper("adore-pq").stages
    cells, (matrix,) = stages["dl-cells"], stages["table5-test"].analysis
    assert (cells.split, cells.metrics, matrix.evaluation) == ("test", ("ndcg@10",), "dl-cells")
    assert {f"{size} → flat" for size in ("flat", 6, 12, 24, 48, 96)} <= {*cells.runs}
    searches = {label: stages[run] for label, run in cells.runs.items()}
    assert {search.index for search in searches.values()} == {"bm25-neg-index"}
    assert {search.split for search in searches.values()} == {"test"}
    assert searches["96 → flat"].model == "adore-pq96" and searches["flat → flat"].model == "adore-bm25-neg"
    assert all("it → flat" in row for row in matrix.rows.values())
    assert stages["report"].analyses["Table 5, test"] == "table5-test"


def test_table_2_is_tested_at_the_papers_levels():
    """The caption of Table 2: "p-value threshold of 0.01 on dev dataset and 0.05 on TREC test dataset"."""
    documents = ("star-adore-trec-dl", "star-document", "adore-star-document", "adore-baselines-document")
    tables = {name: ("scores", "dl-scores") for name in documents}
    tables |= {f"adore-ance-{kind}": ("dev-scores", "scores") for kind in ("passage", "document")}
    for name, (dev, trec) in tables.items():
        stages: Mapping[str, Any] = paper(name).stages
        assert (stages[dev].significance_level, stages[trec].significance_level) == (0.01, 0.05), name


ROCKETQA = ["rocketqa-table3", "rocketqa-nq"]


def _settings_in_head(name: str, word: str) -> list[str]:
    """Return the settings in the command with `word` in the docstring of the recipe `name`."""
    commands = "\n".join(head_comment(find_recipe(name))).replace("\\\n", " ").splitlines()
    (words,) = (shlex.split(line) for line in commands if word in line and line.split()[:1] == ["hardneg"])
    return [value for flag, value in pairwise(words) if flag == "--set"]


@pytest.mark.parametrize("name", ROCKETQA)
def test_rocketqas_reports_tell_what_its_filter_drops_and_the_head_how_to_hide_positives(name: str):
    settings = _settings_in_head(name, "false-negative-recall")
    stages = load_recipe(find_recipe(name), settings=settings).stages
    analyses, dataset = {each.name: each for each in stages["behind"].analysis}, stages["dataset"]
    hidden = analyses["false-negative-recall"]
    assert hidden.scores == {"cross-encoder": "train-scores"} and hidden.depth == 20
    assert (dataset.withheld.positives, dataset.withheld.unlabelled) == (0.3, 0.5)
    for preset in ("demo", "paper"):
        plain = load_recipe(find_recipe(name), preset).stages
        (denoising,) = plain["behind"].analysis
        assert denoising.name == "denoising" and denoising.negatives == {"denoised": "denoised-negatives"}
        assert plain["report"].analyses == {"Denoising": "behind"}
        assert plain["train-scores"].positives


def test_changes_are_laid_over_mapping_by_mapping():
    base = {"loss": {"name": "star"}, "options": {"max_steps": 10, "warmup_steps": 2}}
    changed = deep(base, {"options": {"epochs": 3, "stop_at": 5}}, {"loss": {"temperature": 1.0}})
    assert changed == {
        "loss": {"name": "star", "temperature": 1.0},
        "options": {"warmup_steps": 2, "epochs": 3, "stop_at": 5},
    }
    assert base["options"] == {"max_steps": 10, "warmup_steps": 2}


def test_a_system_has_an_index_searches_and_rows():
    book = Book("t", "pydocs", {"name": "m"}, {"search": {"depth": 5}})
    book.tables({"BM25": "bm25"}, ["BM25"], ["mrr@10"])
    book.searches["dev"] = {"split": "dev", "row": "{name} (dev)", "table": "scores"}
    book.system("star", "STAR", negatives="mined")
    book.system("adore", "ADORE", "train-queries", model="star", index="star-index", report=False)
    tree = book.tree()["stages"]
    assert tree["star"] == {"stage": "train", "negatives": "mined"}
    assert tree["star-index"] == {"stage": "encode", "model": "star"}
    assert tree["star-dev"] == {"stage": "search", "depth": 5, "index": "star-index", "split": "dev"}
    assert tree["adore-test"] == {"stage": "search", "depth": 5, "index": "star-index", "model": "adore"}
    assert list(tree["scores"]["runs"]) == ["BM25", "STAR", "STAR (dev)", "ADORE", "ADORE (dev)"]
    assert tree["report"]["training"] == {"STAR": "star"}
    assert list(tree)[-2:] == ["scores", "report"]
