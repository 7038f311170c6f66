"""Recipes for CoRT (Wrzalik and Krechel, TREC 2020): alone, with BM25, and on the queries of TREC 2020 DL.

Demos train all-MiniLM-L6-v2 on docstrings in minutes, offline; the presets `paper` train ALBERT-base on a GPU.
"""

from hardneg_papers.book import Book, DemoOrPaper, Tree


def cort_passage(preset: DemoOrPaper = "demo") -> Tree:
    """CoRT on passages: a dense ranker that complements BM25, trained on BM25's results from rank 8 on.

      hardneg recipe run cort-passage --set model.projection=32         another vector dimension

    Scores are angular similarities. Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, section 3
    and appendix A; details missing there are from the authors' code for CoRT: Complementary Rankings from Transformers.
    Expected from the paper preset (the paper's Table 2; not run by us), on the TREC 2019 DL queries with relevance
    level 2: CoRT nDCG@1000 .513, recall@100 .447, @200 .517, @1000 .633; BM25 .600, .498, .598, .745 (k1 .82, b .68).
    MRR@10 on the dev queries is .271.
    """
    book = _without_reranker("CoRT on passages", preset)
    mixed = ("cort-bm25", "cort-bm25-dev", "cort-bm25-weighted", "cort-dev-lists", "bm25-dev-lists", "complement")
    _leave_out(book, *mixed)
    for table in ("scores", "dev-scores"):
        if table in book.stages:
            book.change(table, baselines=["BM25"])
    return book.tree()


def cort_bm25(preset: DemoOrPaper = "demo") -> Tree:
    """CoRT and BM25 interleaved, taking documents from the two lists in turn, compared with each list alone.

    `hardneg recipe run cort-bm25`. Source: Wrzalik and Krechel, TREC 2020, section 3.4 and Table 2. Expected from the
    paper preset (the paper's Table 2; not run by us), on the TREC 2019 DL queries with relevance level 2: CoRT+BM25
    nDCG@1000 .664, recall@100 .570, @200 .659, @1000 .831; on the dev queries, MRR@10 .274, recall@1000 .949. CoRT has
    P@10 .542 (BM25 .405), and 26% of its top 10 are unjudged. In the demo, only positives are judged.
    """
    return _without_reranker("CoRT and BM25 on passages", preset).tree()


def cort_dl20(preset: DemoOrPaper = "demo") -> Tree:
    """CoRT and BM25 on the queries of TREC 2020 DL, the track in which CoRT's authors took part.

    `hardneg recipe run cort-dl20 --preset paper` reads ir_datasets; the demo is the same as for cort-bm25, since
    docstrings have no such track. Source: Wrzalik and Krechel, TREC 2020, Table 2, columns of 2020 (for 2019, see
    cort-bm25). Expected from the paper preset (not run by us), nDCG@1000, recall@100, @200 and @1000 with relevance
    level 2: BM25 .588, .567, .643, .803; CoRT .541, .530, .585, .697; CoRT+BM25 .663, .645, .723, .850.
    """
    book = _without_reranker("CoRT and BM25, TREC 2020 DL", preset)
    _take_dl20(book, preset)
    return book.tree()


def cort_electra_dl20(preset: DemoOrPaper = "demo") -> Tree:
    """CoRT, BM25 and ELECTRA on the queries of TREC 2020 DL: first stages, fused and reranked.

    `hardneg recipe run cort-electra-dl20 --preset paper` reads ir_datasets; the demo is the same as for
    cort-electra-passage. Source: Wrzalik and Krechel, TREC 2020, Table 3 and Figure 2; for 2019, see
    cort-electra-passage. Expected from the paper preset (not run by us): BM25 reranked MRR .872, MAP .521, nDCG@10
    .759, nDCG@1000 .711; CoRT+BM25 reranked .870, .540, .757, .744.
    """
    book = _complementing("CoRT and ELECTRA, TREC 2020 DL", preset)
    reranked = {"BM25": "bm25-reranked", "CoRT+BM25": "cort-bm25-reranked"}
    counts = [16, 32, 64, 128, 256, 512, 1000] if preset == "paper" else [2, 4, 8, 16, 30]
    fewer = {"first": {"BM25": "bm25", "CoRT+BM25": "cort-bm25"}, "reranked": reranked, "counts": counts}
    book.change("first-stages", analysis={"candidates": fewer})
    _take_dl20(book, preset)
    return book.tree()


def _complementing(title: str, preset: str) -> Book:
    """Return a book with CoRT and ELECTRA, the unjudged share of each list, and its overlap with the other."""
    book = Book.of("cort-electra-passage", preset, title)
    runs = {"BM25": "bm25", "CoRT": "cort-test", "CoRT+BM25": "cort-bm25"}
    unjudged = {"runs": runs, "against": "BM25", "metrics": ["precision@10"]}
    level = {"relevance_level": 2} if preset == "paper" else {}
    book.add("complement", "analyze", analysis={"unjudged": unjudged}, **level)
    book.stages["report"]["analyses"] = {"complement": "complement", "first stages": "first-stages"}
    return book


def _without_reranker(title: str, preset: str) -> Book:
    """Return a book with CoRT and BM25, without ELECTRA."""
    book = _complementing(title, preset)
    candidates = ("bm25-candidates", "cort-candidates", "mixed-candidates", "mixed-negatives")
    _leave_out(book, *candidates, "reranker", "bm25-reranked", "cort-bm25-reranked", "first-stages")
    demo, paper = ["mrr@10", "ndcg@10", "recall@100"], ["ndcg@1000", "recall@100", "recall@200", "recall@1000"]
    book.change("scores", baselines=["CoRT", "BM25"], metrics=paper if preset == "paper" else demo)
    return book


def _leave_out(book: Book, *names: str) -> None:
    """Remove stages from a book, with their rows in its tables and its report."""
    book.stages = {name: stage for name, stage in book.stages.items() if name not in names}
    for table, fields in {"scores": ["runs"], "dev-scores": ["runs"], "report": ["analyses", "training"]}.items():
        for field in fields if table in book.stages else ():
            rows = {label: of for label, of in book.stages[table].pop(field, {}).items() if of not in names}
            if rows:
                book.stages[table][field] = rows


def _take_dl20(book: Book, preset: str) -> None:
    """Use the queries of TREC 2020 DL instead of 2019."""
    if preset == "paper":
        names = {"train": "train/judged", "dev": "dev/small", "test": "trec-dl-2020/judged"}
        splits = {split: f"msmarco-passage/{name}" for split, name in names.items()}
        book.top["dataset"] = {"name": "ir-datasets", "source": "msmarco-passage", "splits": splits}
        book.top["sizes"]["queries"]["test"] = 54
