"""Recipes for ANCE and its baselines on documents: FirstP reads the first tokens, MaxP splits documents into segments.

Demos use docstrings of up to 256 tokens, offline; the presets `paper` train RoBERTa-base on MS MARCO, on GPUs.
"""

from hardneg_papers import ance
from hardneg_papers.book import Book, DemoOrPaper, Tree
from hardneg_papers.starts import documents


def ranked_documents(title: str, preset: str, *systems: str) -> Book:
    """Return a book with systems on documents that continue from BM25 Neg, which preset `paper` trains on passages."""
    book = ance.setting(title, preset, "runs/ance-bm25-neg-passage-paper/model")
    documents(book, preset)
    if preset == "paper":
        book.top["model"] |= {"pooling": "own", "layer_norm": False}
        book.start()
        book.add("start-rerank", "search", index="start-index", candidates="bm25")
        book.add("start-dev", "search", index="start-index", split="dev", depth=1000)
        for label, run in {"BM25 Neg": "start-test", "BM25 Neg (rerank)": "start-rerank"}.items():
            book.row(label, run)
        book.row("BM25 Neg", "start-dev", "dev-scores")
        book.change("dev-scores", metrics=["mrr@100", "recall@1000"])
    else:
        ance.add_system(book, preset, "bm25-neg")
    for system in systems:
        ance.add_system(book, preset, system)
    return book


def covered(book: Book, preset: str) -> Tree:
    """Return the recipe tree; in the preset `paper`, add Tables 6, 8 and 9, and move rows of BM25 Neg and ANCE last."""
    if preset == "paper":
        ance.rows_last(book, "BM25 Neg", "BM25 Neg (rerank)", "ANCE", "ANCE (rerank)")
        wins = {"run": "ance-test", "against": "bm25"}
        runs = {"BM25": "bm25", "BM25 Neg": "start-test", "ANCE": "ance-test"}
        _add_coverage(book, runs, {"query-wins": wins})
    return book.tree()


def _add_coverage(book: Book, runs: Tree, more: Tree) -> None:
    unjudged = {"runs": runs, "against": "BM25", "metrics": ["recall@100"]}
    book.add("coverage", "analyze", analysis={"unjudged": unjudged, **more})
    book.change("report", analyses={"Coverage": "coverage"})


def ance_maxp_document(preset: DemoOrPaper = "demo") -> Tree:
    """ANCE (MaxP) on documents, which are cut into segments and scored by their best segment.

      hardneg recipe run ance-maxp-document --set segments.count=8     default: four of 128 tokens; an hour

    Source: Xiong et al., ICLR 2021, section 5 and Table 1. Expected from the paper preset (the paper's Table 1; not
    run by us): NDCG@10 .628, reranking .671, on the TREC 2019 DL queries; in Table 6, R@100 .286, 11.9% unjudged,
    24.9% overlap with BM25. The warm-up is the same as for ance-document, which reads only the first tokens.
    """
    book = ranked_documents("ANCE (MaxP) on documents", preset, "ance")
    book.top["segments"] = {"length": 512 if preset == "paper" else 128, "count": 4}
    if preset == "demo":
        book.change("ance-bm25-neg", segments=False)
    # 64 documents a step, as FirstP; the authors' program has 128, a rate of 1e-5 and a warm-up of 500 steps for MaxP.
    book.change("ance", options={"batch_size": 8, "accumulate": 8 if preset == "paper" else 3})
    return covered(book, preset)


def ance_table1_document(preset: DemoOrPaper = "demo") -> Tree:
    """The rows with a warm-up in Table 1 of ANCE on documents: ANCE and three baselines.

    `hardneg recipe run ance-table1-document` takes an hour. Source: Xiong et al., ICLR 2021, section 5 and Table 1. For
    ANCE (MaxP), see ance-maxp-document; for rows without a warm-up, ance-baselines-document. Expected from the paper
    preset: the document columns of that table (not run by us). Like ance-document, all start from BM25 Neg on passages.
    """
    return covered(ranked_documents("ANCE, Table 1 on documents", preset, *ance.WARM, "ance"), preset)


def ance_baselines_document(preset: DemoOrPaper = "demo") -> Tree:
    """The four baselines without a warm-up in ANCE's Table 1, on documents.

    `hardneg recipe run ance-baselines-document` takes an hour. Source: Xiong et al., ICLR 2021, section 5 and Table 1.
    For rows with a warm-up, see ance-table1-document. Expected from the paper preset: the document columns of that
    table (not run by us); in Table 6, BM25+Rand Neg has R@100 .240, 21.4% unjudged, 21.0% overlap with BM25.
    """
    book = ance.ranked("ANCE's baselines on documents", preset, *ance.BASELINES)
    documents(book, preset)
    if preset == "paper":
        book.change("ance-nce-neg", options={"gradient_checkpointing": True})
        book.change("dev-scores", metrics=["mrr@100", "recall@1000"])
        # Table 6's row of BM25+Rand Neg on documents.
        _add_coverage(book, {"BM25": "bm25", "BM25+Rand Neg": "ance-bm25-rand-neg-test"}, {})
    return book.tree()


def ance_rates_document(preset: DemoOrPaper = "demo") -> Tree:
    """ANCE on documents at several learning rates, negative depths and refresh intervals.

    `hardneg recipe run ance-rates-document` takes an hour and a half. Source: Xiong et al., ICLR 2021, section A.4 and
    Table 7; first version, Table 5. The row 5e-6, 200, 10k is ance-document. Expected from the paper preset, NDCG@10 on
    the TREC 2019 DL queries in the order of the paper's rows (not run by us): .58, .59, .60, .61.
    """
    book = ranked_documents("ANCE's rates, depths and refreshes on documents", preset, "ance")
    paper: Tree = {
        "1e-5, top 100, every 10k": (1e-5, 100, 10000),
        "1e-6, top 100, every 20k": (1e-6, 100, 20000),
        "1e-6, top 100, every 5k": (1e-6, 100, 5000),
        "1e-6, top 200, every 10k": (1e-6, 200, 10000),
    }
    ance.add_rates(book, preset, paper)
    return covered(book, preset)


def adore_ance_document(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE on ANCE (FirstP) for documents, with MRR@10 as the metric of the loss, as in the paper.

    `hardneg recipe run adore-ance-document` takes half an hour. Source: Zhan et al., SIGIR 2021, Table 2. It continues
    from BM25 Neg on passages, like ance-document. Expected from the paper preset (not run by us): MRR@100 and R@100 on
    the dev queries ANCE .377 and .894, ADORE+ANCE .390 and .902; NDCG@10 on the TREC 2019 DL queries .610 and .634.
    """
    book = ranked_documents("ADORE on ANCE, documents", preset, "ance")
    ance.add_adore(book, preset, loss={"name": "lambda", "cut": 10})
    if preset == "paper":
        book.change("dev-scores", metrics=["mrr@100", "recall@100"])
    ance.add_behind(book, preset)
    return covered(book, preset)
