"""Recipes for Table 2 and Figure 5 of Zhan et al., SIGIR 2021: ADORE on STAR and other models, and these models alone.

Demos train all-MiniLM-L6-v2 on docstrings, offline; the presets `paper` train RoBERTa-base on MS MARCO, on a GPU.
"""

from collections.abc import Callable

from hardneg_papers import starts
from hardneg_papers.book import Book, DemoOrPaper, Tree
from hardneg_papers.star import from_warm_up, star

BASELINES = {"inbatch-neg": "In-Batch Neg", "rand-neg": "Rand Neg", "bm25-neg": "BM25 Neg"}
STARTS = {**BASELINES, "star": "STAR"}
_ADD = {"inbatch-neg": starts.inbatch_neg, "rand-neg": starts.rand_neg, "bm25-neg": starts.bm25_neg}
_MARKS = {"*": list(BASELINES.values()), "‡": [f"ADORE+{label}" for label in BASELINES.values()]}


def adoring(start: str, paper: bool, loss: Tree | None = None) -> Tree:
    """Return `loss`, `options` and validation for ADORE on the model `start`; the default loss is LambdaLoss."""
    options: Tree = {
        "max_steps": 100,
        "batch_size": 32,
        "learning_rate": 5e-5,
        "warmup_steps": 10,
        "evaluate_every": 50,
    }
    judged = starts.BY_START
    if paper:
        # 60,000 steps of the program's six epochs.
        options = {"epochs": 6, "stop_at": 60000, "batch_size": 32, "learning_rate": 5e-6, "warmup_steps": 2000}
        options |= {"warmup_from_zero": True, "evaluate_every": 10000, "keep_best": False}
        judged = {"validation_run": f"{start}-test", "validation": {"split": "dev", "depth": 50, "queries": 1000}}
    loss = {**(loss or {"name": "lambda", "cut": 200}), "temperature": 1.0 if paper else 0.05}
    return {"loss": loss, "options": options, **judged}


def adore(
    book: Book, start: str, paper: bool, label: str = "ADORE", loss: Tree | None = None, table: str = "scores"
) -> None:
    """Train a query encoder from the model `start` on its index, with LambdaLoss or `loss`; add a row to `table`."""
    own = {"model": start, "index": f"{start}-index", **adoring(start, paper, loss)}
    book.system(f"{label.lower()}-{start}", f"{label}+{STARTS[start]}", "train-queries", table=table, **own)


def adore_on(start: str, preset: str) -> Book:
    """Return a book with the baseline `start`, a key of `BASELINES`, and ADORE on top of it."""
    paper, label = preset == "paper", BASELINES[start]
    book = starts.passages(f"ADORE on {label}, passages", preset)
    _ADD[start](book, paper)
    adore(book, start, paper)
    book.change("scores", baselines=[label, *([] if paper else ["as shipped"]), "BM25"])
    return book


Recipe = Callable[[DemoOrPaper], Tree]


def _row(start: str, what: str, expected: str, on_top: str) -> tuple[Recipe, Recipe]:
    """Create the recipes of a baseline on passages and of ADORE on it; expected: MRR@10 and R@100 in Table 2."""
    label = BASELINES[start]

    def alone(preset: DemoOrPaper = "demo") -> Tree:
        book = starts.passages(f"{label} on passages", preset)
        _ADD[start](book, preset == "paper")
        return book.tree()

    def with_adore(preset: DemoOrPaper = "demo") -> Tree:
        return adore_on(start, preset).tree()

    said = """{}

    `hardneg recipe run {}-passage` takes minutes. Source: Zhan et al., SIGIR 2021, sections {}.
    Expected from the paper preset: MRR@10 {}, R@100 {} on the dev queries (the paper's Table 2; not run by us)."""
    alone.__doc__ = said.format(f"{label}: {what}.", start, "7.2.2 and 7.3", *expected.split())
    trains = "trains the query encoder on what it retrieves at each step, on a fixed index."
    with_adore.__doc__ = said.format(f"ADORE on {label}: {trains}", f"adore-{start}", "6.2 and 7.3", *on_top.split())
    return alone, with_adore


inbatch_neg_passage, adore_inbatch_neg_passage = _row(
    "inbatch-neg", "the other queries' positives as negatives, the cheapest baseline", ".264 .837", ".316 .860"
)
rand_neg_passage, adore_rand_neg_passage = _row(
    "rand-neg", "negatives drawn from the whole corpus, by random negative sampling", ".301 .853", ".326 .865"
)
bm25_neg_passage, adore_bm25_neg_passage = _row(
    "bm25-neg", "static hard negatives from the top of BM25", ".309 .813", ".329 .846"
)


def star_adore_table2(preset: DemoOrPaper = "demo") -> Tree:
    """Table 2 of the STAR and ADORE paper in one run: four training methods, and ADORE on top of each.

      hardneg recipe run star-adore-table2 --set dataset=beir:path/to/folder    half an hour on two cores

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives, SIGIR 2021, Tables 1, 2 and 4,
    Figures 3 and 6. Expected from the paper preset, MRR@10 on the dev queries (not run by us): BM25 .187, In-Batch Neg
    .264, Rand Neg .301, BM25 Neg .309, STAR .340; with ADORE on top .316, .326, .329, .347. Top-200 pairwise errors
    43.2, 39.3, 46.4, 35.8; with ADORE 37.7, 36.8, 40.0, 34.4. The report shows these errors, the costs of training, and
    where ADORE moves a query.
    """
    book = _all_starts("STAR and ADORE, Table 2 on passages", preset)
    return _table2(book, preset)


def star_adore_trec_dl(preset: DemoOrPaper = "demo") -> Tree:
    """Table 2 of the STAR and ADORE paper on the queries of TREC 2019 DL.

      hardneg recipe run star-adore-trec-dl --preset paper   its demo is the same as for star-adore-table2

    Source: Zhan et al., SIGIR 2021, Table 2, columns TREC DL Passage. The rows of ANCE are in adore-ance-passage.
    Expected from the paper preset (not run by us), NDCG@10 and R@100 (grade 1 or higher): BM25 .506 and .453, In-Batch
    Neg .583 and .463, Rand Neg .612 and .464, BM25 Neg .607 and .362, STAR .642 and .467; with ADORE on top .658 and
    .471, .661 and .472, .661 and .431, .683 and .473.
    """
    book = _all_starts("STAR and ADORE, Table 2 on TREC 2019 DL", preset, on_dl=preset == "paper")
    if preset == "paper":
        book.change("report", evaluation="dl-scores")
    return _table2(book, preset)


def searched_on_dl(book: Book, metrics: list[str], **options: object) -> None:
    """Also search for TREC 2019 DL's queries with BM25 and each system added later; add the table `dl-scores`."""
    # Lucene's own parameters, as in the track's baseline; those tuned on MS MARCO serve training and the dev queries.
    book.add("bm25-dl-index", "index", backend={"name": "bm25", "k1": 0.9, "b": 0.4})
    book.add("bm25-dl", "search", index="bm25-dl-index", split="test")
    own = {"runs": {"BM25": "bm25-dl"}, "split": "test", "metrics": metrics, **options}
    # The paper's threshold on TREC's queries; .01 is that of the dev queries.
    book.add("dl-scores", "evaluate", **own, significance_level=0.05)
    book.searches["dl"] = {"split": "test", "table": "dl-scores"}


def on_documents_dl(book: Book) -> None:
    """Set up the document columns of Table 2: BM25's parameters, dev metrics, and the queries of TREC 2019 DL."""
    book.change("bm25-index", backend={"k1": 3.44, "b": 0.87})  # Anserini's, tuned on MS MARCO documents
    book.change("scores", metrics=["mrr@100", "recall@100"])
    searched_on_dl(book, ["ndcg@10", "recall@100"])


def _all_starts(title: str, preset: str, on_dl: bool = False) -> Book:
    """Return a book with four ways to train, and ADORE on top of each."""
    paper = preset == "paper"
    book = starts.roberta(title) if paper else starts.docstrings(title, starts.DOCSTRINGS, validated=True)
    if on_dl:
        book.top["sizes"]["queries"]["test"] = 43
        searched_on_dl(book, ["ndcg@10", "recall@100"], baselines=["STAR"], marks=_MARKS)
    for start in STARTS:
        if start == "star":
            star(book, "paper" if paper else "small")
        else:
            _ADD[start](book, paper)
        adore(book, start, paper)
    if paper:
        book.row("warm-up", "start-test")
    book.top["outputs"] = {"model": "adore-star", "index": "star-index"}
    return book


def _table2(book: Book, preset: str) -> Tree:
    """Set the baselines of the rows, and add the analyses."""
    paper = preset == "paper"
    book.change("scores", baselines=["STAR"], marks=_MARKS)
    with_star = ["start-index", "start-train", "static-negatives", "star"]
    indexes = {label: f"{start}-index" for start, label in STARTS.items()}
    on_top = {f"ADORE+{label}": index for label, index in indexes.items()}
    models = {f"ADORE+{label}": f"adore-{start}" for start, label in STARTS.items()}
    before_and_after = {"BM25 Neg": "bm25-neg-index", "ADORE+BM25 Neg": "bm25-neg-index"}
    shipped = {} if paper else {"as shipped": "start-index"}
    analysis = {
        "errors": {"indexes": {**shipped, **indexes, **on_top}, "models": models},
        "costs": {"methods": {"STAR": with_star, "ADORE": "adore-bm25-neg", "ADORE+STAR": [*with_star, "adore-star"]}},
        "projection": {"indexes": before_and_after, "models": {"ADORE+BM25 Neg": "adore-bm25-neg"}},
    }
    book.add("behind", "analyze", analysis=analysis, **({"split": "dev"} if paper else {}))
    book.change("report", analyses={"Behind the metrics": "behind"})
    return book.tree()


def adore_ablation_passage(preset: DemoOrPaper = "demo") -> Tree:
    """The contribution of each part of ADORE: dynamic hard negatives alone (RankNet), and with LambdaLoss.

      hardneg recipe run adore-ablation-passage --set dataset=beir:path/to/folder    forty minutes on two cores

    Source: Zhan et al., SIGIR 2021, section 8.3.3, Figure 5. Expected from the paper preset, MRR@10 on the dev queries
    (not run by us): dynamic negatives bring most of the gain; the loss adds to it for Rand Neg, but not for STAR.
    After star-adore-table2, only the RankNet rows still have to be trained.
    """
    paper = preset == "paper"
    book = _all_starts("What the parts of ADORE bring", preset)
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
    """Table 2 of the STAR and ADORE paper on documents, without STAR: three training methods, and ADORE on each.

      hardneg recipe run adore-baselines-document       docstrings of up to 256 tokens; an hour

    Source: Zhan et al., SIGIR 2021, Table 2 and Figure 6. The other rows on documents: star-document,
    adore-star-document, ance-document, adore-ance-document. The demo trains all rows. In the paper preset, the three
    models are trained on passages, as in section 7.3: run inbatch-neg-passage, rand-neg-passage and
    bm25-neg-passage with `--preset paper` first. Only ADORE is trained on documents. Expected from the paper preset,
    MRR@100 and R@100 on the dev queries (not run by us): In-Batch Neg .320 and .864, Rand Neg .330 and .859, BM25 Neg
    .316 and .794; with ADORE on top .362 and .884, .361 and .885, .352 and .872. NDCG@10 and R@100 on the queries of
    TREC 2019 DL: .544 and .295, .572 and .284, .539 and .223; with ADORE .580 and .315, .585 and .298, .610 and .293.
    """
    title, paper = "ADORE's baselines on documents", preset == "paper"
    if paper:
        book = starts.trained(title, "runs/bm25-neg-passage-paper/model")
        on_documents_dl(book)
    else:
        book = starts.docstrings(title, validated=True)
    starts.documents(book, preset)
    for start, label in BASELINES.items():
        if paper:
            model = {"name": f"runs/{start}-passage-paper/model", "document_length": 512}
            book.system(start, label, "model", model=model, report=False)
        else:
            _ADD[start](book, paper)
        adore(book, start, paper, loss={"name": "lambda", "cut": 10})
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


def adore_star_document(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on STAR for documents, with MRR@10 as the metric of the loss, as in the paper.

      hardneg recipe run adore-star-document            docstrings of up to 256 tokens; ten minutes

    Source: Zhan et al., SIGIR 2021, sections 6.2 and 7.3. The paper preset starts from STAR for passages: run
    `star-passage --preset paper` first. Expected from it: MRR@100 .405, R@100 .919 on the dev queries, NDCG@10 .628,
    R@100 .317 on the queries of TREC 2019 DL (the paper's Table 2; not run by us).
    """
    title, paper = "ADORE on STAR, documents", preset == "paper"
    if paper:
        book = starts.trained(title, "runs/star-passage-paper/model")
        book.top["model"] |= {"pooling": "own", "layer_norm": False}
        on_documents_dl(book)
    else:
        book = starts.docstrings(title, starts.DOCSTRINGS)
    starts.documents(book, preset)
    own: Tree = {"learning_rate": 2e-6, "optimizer": "adamw"}
    warm = {**own, "batch_size": 32, "weight_decay": 0.01, "gradient_checkpointing": True}
    star(book, "paper" if paper else "small", {"options": warm}, **({"batch_size": 60, **own} if paper else {}))
    adore(book, "star", paper, loss={"name": "lambda", "cut": 10})
    if paper:
        book.row("warm-up", "start-test")
    book.change("scores", baselines=from_warm_up(preset))
    book.top["outputs"] = {"model": "adore-star", "index": "star-index"}
    return book.tree()


def bm25_document(preset: DemoOrPaper = "demo") -> Tree:
    """BM25 on documents in the setting of STAR and ADORE: the dev queries and the queries of TREC 2019 DL.

    `hardneg recipe run bm25-document` takes minutes. Source: Zhan et al., SIGIR 2021, section 7 and Table 2. Recipes
    that extend it inherit the document columns of that table. Expected from the paper preset (not run by us): MRR@100
    .279, R@100 .807 on the dev queries; NDCG@10 .519, R@100 .395 on TREC 2019 DL, with Lucene's default parameters.
    """
    paper = preset == "paper"
    book = (starts.roberta if paper else starts.docstrings)("BM25 and the start model on documents")
    starts.documents(book, preset)
    if paper:
        on_documents_dl(book)
        book.top["outputs"] = {"index": "bm25-index"}
    return book.tree()
