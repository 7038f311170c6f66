"""ADORE (Zhan et al., SIGIR 2021) on STAR and on each of its baselines: their Table 2 and Figure 5."""

from typing import Any

from hardneg_papers.book import Book, DemoOrPaper, Tree
from hardneg_papers.star import from_warm_up, star
from hardneg_papers.starts import (
    BY_START,
    DOCSTRINGS,
    bm25_neg,
    docstrings,
    documents,
    inbatch_neg,
    passages,
    rand_neg,
    roberta,
    trained,
)

BASELINES = {"inbatch-neg": "In-Batch Neg", "rand-neg": "Rand Neg", "bm25-neg": "BM25 Neg"}
STARTS = {**BASELINES, "star": "STAR"}
_ADD = {"inbatch-neg": inbatch_neg, "rand-neg": rand_neg, "bm25-neg": bm25_neg}
_MARKS = {"*": list(BASELINES.values()), "‡": [f"ADORE+{label}" for label in BASELINES.values()]}


def adoring(start: str, paper: bool, loss: Tree | None = None) -> Tree:
    """How ADORE trains on a model: with a loss that counts ranks, unless another is given."""
    if paper:
        # 60,000 steps of the program's six epochs.
        options: Tree = {
            "epochs": 6,
            "stop_at": 60000,
            "batch_size": 32,
            "learning_rate": 5e-6,
            "warmup_steps": 2000,
            "warmup_from_zero": True,
            "evaluate_every": 10000,
            "keep_best": False,
        }
        judged = {"validation_run": f"{start}-test", "validation": {"split": "dev", "depth": 50, "queries": 1000}}
    else:
        options = {"max_steps": 100, "batch_size": 32, "learning_rate": 5e-5, "warmup_steps": 10, "evaluate_every": 50}
        judged = BY_START
    loss = {**(loss or {"name": "lambda", "cut": 200}), "temperature": 1.0 if paper else 0.05}
    return {"loss": loss, "options": options, **judged}


def adore(
    book: Book, start: str, paper: bool, label: str = "ADORE", loss: Tree | None = None, table: str = "scores"
) -> None:
    """ADORE, or another training of the query encoder, on a model and its index."""
    own = {"model": start, "index": f"{start}-index", **adoring(start, paper, loss)}
    book.system(f"{label.lower()}-{start}", f"{label}+{STARTS[start]}", "train-queries", table=table, **own)


def adore_inbatch_neg_passage(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on In-Batch Neg: its query encoder trained on, with what it retrieves at each step, on the index as it is.

    `hardneg recipe run adore-inbatch-neg-passage`: minutes. Source: Zhan et al., SIGIR 2021, sections 6.2 and 7.3.
    To expect from the paper preset: MRR@10 .316, R@100 .860 on the dev queries (the paper's Table 2; not run by us).
    """
    return adore_on("inbatch-neg", preset).tree()


def adore_rand_neg_passage(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on Rand Neg: its query encoder trained on, with what it retrieves at each step, on the index as it is.

    `hardneg recipe run adore-rand-neg-passage`: minutes. Source: Zhan et al., SIGIR 2021, sections 6.2 and 7.3.
    To expect from the paper preset: MRR@10 .326, R@100 .865 on the dev queries (the paper's Table 2; not run by us).
    """
    return adore_on("rand-neg", preset).tree()


def adore_bm25_neg_passage(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on BM25 Neg: its query encoder trained on, with what it retrieves at each step, on the index as it is.

    `hardneg recipe run adore-bm25-neg-passage`: minutes. Source: Zhan et al., SIGIR 2021, sections 6.2 and 7.3.
    To expect from the paper preset: MRR@10 .329, R@100 .846 on the dev queries (the paper's Table 2; not run by us).
    """
    return adore_on("bm25-neg", preset).tree()


def adore_on(start: str, preset: str) -> Book:
    """ADORE on one of the baselines."""
    paper, label = preset == "paper", BASELINES[start]
    book = passages(f"ADORE on {label}, passages", preset)
    _ADD[start](book, paper)
    adore(book, start, paper)
    book.change("scores", baselines=[label, *([] if paper else ["as shipped"]), "BM25"])
    return book


def star_adore_table2(preset: DemoOrPaper = "demo") -> Tree:
    """The rows of the STAR and ADORE paper's Table 2 in one run: four ways to train, and ADORE on top of each.

      hardneg recipe run star-adore-table2  demo: docstrings, all-MiniLM-L6-v2; half an hour on two cores
      hardneg recipe run star-adore-table2 --set dataset=beir:path/to/folder  on one's own collection
      hardneg recipe plan star-adore-table2 --preset paper  MS MARCO passages, RoBERTa-base; needs a GPU

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, Tables 1, 2 and 4,
    Figures 3 and 6. To expect from the paper preset, MRR@10 on the dev queries (not run by us): BM25 .187, In-Batch Neg
    .264, Rand Neg .301, BM25 Neg .309, STAR .340; with ADORE on top .316, .326, .329, .347. Top-200 pairwise errors
    43.2, 39.3, 46.4, 35.8; with ADORE 37.7, 36.8, 40.0, 34.4. The report shows them, what training takes, and where
    ADORE moves a query.
    """
    return _table2("STAR and ADORE, Table 2 on passages", preset).tree()


def star_adore_trec_dl(preset: DemoOrPaper = "demo") -> Tree:
    """The rows of the STAR and ADORE paper's Table 2 on the queries of TREC 2019 DL.

      hardneg recipe run star-adore-trec-dl                     demo: as star-adore-table2, which has the same queries
      hardneg recipe plan star-adore-trec-dl --preset paper     MS MARCO passages, RoBERTa-base; needs a GPU

    Source: Zhan et al., SIGIR 2021, Table 2, columns TREC DL Passage. The rows of ANCE are those of adore-ance-passage.
    To expect from the paper preset (not run by us), NDCG@10 and R@100 (grades from 1 on): BM25 .506 and .453, In-Batch
    Neg .583 and .463, Rand Neg .612 and .464, BM25 Neg .607 and .362, STAR .642 and .467; with ADORE on top .658 and
    .471, .661 and .472, .661 and .431, .683 and .473.
    """
    title = "STAR and ADORE, Table 2 on TREC 2019 DL"
    if preset == "demo":
        return _table2(title, preset).tree()
    book = roberta(title)
    book.top["sizes"]["queries"]["test"] = 43
    searched_on_dl(book, ["ndcg@10", "recall@100"], baselines=["STAR"], marks=_MARKS)
    _all_starts(book, preset)
    _lay_table2(book, preset)
    book.change("report", evaluation="dl-scores")
    return book.tree()


def searched_on_dl(book: Book, metrics: list[str], **options: Any) -> None:
    """Search with every system for the queries of TREC 2019 DL too, in a table of its own."""
    # Lucene's own parameters, as in the track's baseline; those tuned on MS MARCO serve training and the dev queries.
    book.add("bm25-dl-index", "index", backend={"name": "bm25", "k1": 0.9, "b": 0.4})
    book.add("bm25-dl", "search", index="bm25-dl-index", split="test")
    own = {"runs": {"BM25": "bm25-dl"}, "split": "test", "metrics": metrics, **options}
    # The paper's threshold on TREC's queries; .01 is that of the dev queries.
    book.add("dl-scores", "evaluate", **own, significance_level=0.05)
    book.searches["dl"] = {"split": "test", "table": "dl-scores"}


def _table2(title: str, preset: str) -> Book:
    """Four ways to train, and ADORE on top of each, with their table."""
    book = _more_passages(title, preset)
    _all_starts(book, preset)
    _lay_table2(book, preset)
    return book


def _all_starts(book: Book, preset: str) -> None:
    paper = preset == "paper"
    for start in STARTS:
        if start == "star":
            star(book, "paper" if paper else "small")
        else:
            _ADD[start](book, paper)
        adore(book, start, paper)
    if paper:
        book.row("warm-up", "start-test")
    book.top["outputs"] = {"model": "adore-star", "index": "star-index"}


def _lay_table2(book: Book, preset: str) -> None:
    """Lay over the table which rows are tested against which, and what lies behind the metrics."""
    paper = preset == "paper"
    book.change("scores", baselines=["STAR"], marks=_MARKS)
    with_star = ["start-index", "start-train", "static-negatives", "star"]
    indexes = {label: f"{start}-index" for start, label in STARTS.items()}
    models = {f"ADORE+{label}": f"adore-{start}" for start, label in STARTS.items()}
    before_and_after = {"BM25 Neg": "bm25-neg-index", "ADORE+BM25 Neg": "bm25-neg-index"}
    analysis = {
        "errors": {
            "indexes": {
                **({} if paper else {"as shipped": "start-index"}),
                **indexes,
                **{f"ADORE+{label}": index for label, index in indexes.items()},
            },
            "models": models,
        },
        "costs": {"methods": {"STAR": with_star, "ADORE": "adore-bm25-neg", "ADORE+STAR": [*with_star, "adore-star"]}},
        "projection": {"indexes": before_and_after, "models": {"ADORE+BM25 Neg": "adore-bm25-neg"}},
    }
    book.add("behind", "analyze", analysis=analysis, **({"split": "dev"} if paper else {}))
    book.change("report", analyses={"Behind the metrics": "behind"})


def adore_ablation_passage(preset: DemoOrPaper = "demo") -> Tree:
    """What ADORE's parts bring: dynamic hard negatives alone (RankNet), and with a loss that counts ranks (Lambda).

      hardneg recipe run adore-ablation-passage  demo: docstrings, all-MiniLM-L6-v2; forty minutes on two cores
      hardneg recipe run adore-ablation-passage --set dataset=beir:path/to/folder      on one's own collection
      hardneg recipe plan adore-ablation-passage --preset paper MS MARCO passages, RoBERTa-base; needs a GPU

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, section 8.3.3,
    Figure 5.
    To expect from the paper preset, MRR@10 on the dev queries (not run by us): dynamic negatives bring most of the
    gain; the loss adds to it for Rand Neg, and nothing for STAR. Whoever has run star-adore-table2 has all but
    RankNet's rows in the store.
    """
    title = "What the parts of ADORE bring"
    paper = preset == "paper"
    book = _more_passages(title, preset)
    _all_starts(book, preset)
    for start in STARTS:
        adore(book, start, paper, "RankNet", {"name": "ranknet"}, table="")
    ways = {"no ADORE": ("", ""), "RankNet": (", RankNet", "ranknet-"), "ADORE": (", ADORE", "adore-")}
    del book.stages["scores"]
    metrics = {"metrics": ["mrr@10", "recall@100"]} if paper else {}
    runs = {f"{label}{row}": f"{by}{start}-test" for start, label in STARTS.items() for row, by in ways.values()}
    book.add("parts", "evaluate", runs=runs, baselines=["Rand Neg", "STAR"], **metrics)
    rows = {label: {way: f"{label}{row}" for way, (row, _) in ways.items()} for label in STARTS.values()}
    matrix = {"evaluation": "parts", "axes": ["start model", "query encoder"], "rows": rows}
    book.add("figure5", "analyze", analysis={"matrix": matrix, "ablation": {"evaluation": "parts"}})
    book.row("RankNet+STAR", "ranknet-star", "report", "training")
    book.change("report", evaluation="parts", analyses={"Figure 5": "figure5"})
    return book.tree()


def adore_baselines_document(preset: DemoOrPaper = "demo") -> Tree:
    """STAR and ADORE's Table 2 on documents, without STAR: three ways to train, and ADORE on each.

      hardneg recipe run adore-baselines-document  demo: docstrings read to 256 tokens; an hour, no network
      hardneg recipe plan adore-baselines-document --preset paper  MS MARCO documents, RoBERTa-base; needs a GPU

    Source: Zhan et al., SIGIR 2021, Table 2 and Figure 6. The table's other rows on documents: star-document,
    adore-star-document, ance-document, adore-ance-document. The demo trains all rows. In the paper preset the three
    models are those trained on passages, as section 7.3 says: run inbatch-neg-passage, rand-neg-passage and
    bm25-neg-passage with `--preset paper` first. ADORE alone is trained on documents. To expect from the paper preset,
    MRR@100 and R@100 on the dev queries (not run by us): In-Batch Neg .320 and .864, Rand Neg .330 and .859, BM25 Neg
    .316 and .794; with ADORE on top .362 and .884, .361 and .885, .352 and .872. NDCG@10 and R@100 on the queries of
    TREC 2019 DL: .544 and .295, .572 and .284, .539 and .223; with ADORE .580 and .315, .585 and .298, .610 and .293.
    """
    title, paper = "ADORE's baselines on documents", preset == "paper"
    rank = {"name": "lambda", "cut": 10}
    if paper:
        book = trained(title, "runs/bm25-neg-passage-paper/model")
        on_documents_dl(book)
    else:
        book = docstrings(title, validated=True)
    documents(book, preset)
    for start, label in BASELINES.items():
        if paper:
            model = {"name": f"runs/{start}-passage-paper/model", "document_length": 512}
            book.system(start, label, "model", model=model, report=False)
        else:
            _ADD[start](book, paper)
        adore(book, start, paper, loss=rank)
    if paper:
        # A query of TREC 2019 DL, before and after ADORE on BM25 Neg.
        indexes = {"BM25 Neg": "bm25-neg-index", "ADORE+BM25 Neg": "bm25-neg-index"}
        models = {"ADORE+BM25 Neg": "adore-bm25-neg"}
        projection = {"query": "1129237", "indexes": indexes, "models": models}
        book.add("figure6", "analyze", analysis={"projection": projection})
        book.change("report", analyses={"Figure 6": "figure6"})
    book.change("scores", baselines=["BM25 Neg", *([] if paper else ["as shipped"]), "BM25"])
    book.top["outputs"] = {"model": "adore-bm25-neg", "index": "bm25-neg-index"}
    return book.tree()


def on_documents_dl(book: Book) -> None:
    """Table 2's columns for documents: the dev queries, and those of TREC 2019 DL."""
    book.change("bm25-index", backend={"k1": 3.44, "b": 0.87})  # Anserini's, tuned on MS MARCO documents
    book.change("scores", metrics=["mrr@100", "recall@100"])
    searched_on_dl(book, ["ndcg@10", "recall@100"])


def adore_star_document(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on STAR for documents: MRR@10 as the metric of the loss, as the paper has it for documents.

      hardneg recipe run adore-star-document  demo: docstrings read to 256 tokens; ten minutes, no network
      hardneg recipe plan adore-star-document --preset paper  MS MARCO documents, RoBERTa-base; needs a GPU

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, sections 6.2 and
    7.3. Its model is STAR's for passages: run `star-passage --preset paper` first. To expect from the paper preset:
    MRR@100 .405, R@100 .919 on the dev queries, NDCG@10 .628, R@100 .317 on those of TREC 2019 DL (the paper's Table 2;
    not run by us).
    """
    title, paper = "ADORE on STAR, documents", preset == "paper"
    if paper:
        book = trained(title, "runs/star-passage-paper/model")
        book.top["model"] |= {"pooling": "own", "layer_norm": False}
        on_documents_dl(book)
    else:
        book = docstrings(title, DOCSTRINGS)
    documents(book, preset)
    own: Tree = {"learning_rate": 2e-6, "optimizer": "adamw"}
    warm = {**own, "batch_size": 32, "weight_decay": 0.01, "gradient_checkpointing": True}
    star(book, "paper" if paper else "small", {"options": warm}, **({"batch_size": 60, **own} if paper else {}))
    adore(book, "star", paper, loss={"name": "lambda", "cut": 10})
    if paper:
        book.row("warm-up", "start-test")
    book.change("scores", baselines=from_warm_up(preset))
    book.top["outputs"] = {"model": "adore-star", "index": "star-index"}
    return book.tree()


def _more_passages(title: str, preset: str) -> Book:
    """More of the docstrings; in the preset `paper` RoBERTa on MS MARCO."""
    return roberta(title) if preset == "paper" else docstrings(title, DOCSTRINGS, validated=True)


def bm25_document(preset: DemoOrPaper = "demo") -> Tree:
    """BM25 on documents in STAR and ADORE's setting: the dev queries, and those of TREC 2019 DL.

      hardneg recipe run bm25-document  demo: docstrings read to 256 tokens; minutes, no network
      hardneg recipe plan bm25-document --preset paper  MS MARCO documents

    Source: Zhan et al., SIGIR 2021, section 7 and Table 2. What extends it has that table's columns for documents.
    To expect from the paper preset (not run by us): MRR@100 .279, R@100 .807 on the dev queries; NDCG@10 .519, R@100
    .395 on those of TREC 2019 DL, with Lucene's own parameters.
    """
    paper = preset == "paper"
    book = (roberta if paper else docstrings)("BM25 and the start model on documents")
    documents(book, preset)
    if paper:
        on_documents_dl(book)
        book.top["outputs"] = {"index": "bm25-index"}
    return book.tree()
