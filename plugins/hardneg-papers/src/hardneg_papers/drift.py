"""Recipes for the drift of negatives (Zhan et al., SIGIR 2021, section 8.2) and ANCE-Tele (Sun et al., EMNLP 2022)."""

from hardneg_papers.adore import on_documents_dl
from hardneg_papers.book import Book, DemoOrPaper, Tree, deep
from hardneg_papers.starts import bm25_neg, docstrings, documents, msmarco, passages, teleported, trained


def drift_passage(preset: DemoOrPaper = "demo") -> Tree:
    """Drift of static, refreshed, random and dynamic negatives while a query encoder is trained.

    `hardneg recipe run drift-passage` takes twenty minutes on two cores. Source: Zhan et al., SIGIR 2021, section 8.2,
    Figure 4. Expected: the overlap of static negatives with the current hard negatives falls, to below .7 in the paper
    (not run by us). Each refresh of the negatives raises it temporarily. For dynamic negatives, it is 1 by definition.
    The curves are in the report and in analyses/.
    """
    book = passages("Drift of negatives", preset)
    bm25_neg(book, preset == "paper")
    return _drifting(book, preset)


def drift_document(preset: DemoOrPaper = "demo") -> Tree:
    """Drift of static, refreshed, random and dynamic negatives on documents, while a query encoder is trained.

    `hardneg recipe run drift-document` takes half an hour. Source: Zhan et al., SIGIR 2021, section 8.2, Figure 4,
    which uses MS MARCO documents. The paper preset starts from BM25 Neg: run `bm25-neg-passage --preset paper` first.
    Expected: the same as for drift-passage (not run by us).
    """
    title, paper = "Drift of negatives on documents", preset == "paper"
    folder = "runs/bm25-neg-passage-paper/model"
    book = trained(title, folder) if paper else docstrings(title, validated=True)
    documents(book, preset)
    if paper:
        on_documents_dl(book)
        book.system("bm25-neg", "BM25 Neg", "model", report=False, model={"name": folder, "document_length": 512})
    else:
        bm25_neg(book, paper)
    return _drifting(book, preset)


def ance_tele_passage(preset: DemoOrPaper = "demo") -> Tree:
    """ANCE-Tele on passages: three rounds of training on teleportation negatives, each from the initial model.

    `hardneg recipe run ance-tele-passage` takes minutes; `--preset paper` uses MS MARCO and coCondenser. Source: Sun et
    al., Reduce Catastrophic Forgetting of Dense Retrieval Training with Teleportation Negatives, EMNLP 2022, and its
    program OpenMatch/ANCE-Tele, whose settings the preset `paper` uses. On MedQuAD with a static model: MRR@10 .581,
    .583, .626 after the three rounds (docs/results/more-recipes.md). Expected from the paper preset (reported with the
    authors' model; not run by us): MRR@10 .391, R@1k .984 on dev. See also docs/methods/ance-tele.md.
    """
    paper = preset == "paper"
    book = _tele_start("ANCE-Tele on passages", preset)
    for number, lists in teleported(book):
        # 30 of the top 200 of each list; fewer in the demo.
        miner = {"name": "union", "depth": 200 if paper else 50, "count": number * (60 if paper else 20)}
        negatives = book.add(f"negatives-{number}", "mine", runs=lists, miner=miner)
        options: Tree = {} if number == 3 else {"stop_at": 20000 if paper else 14}
        if paper and number > 1:
            options["negatives_per_query"] = 31
        if paper and number == 3:
            options["evaluate_every"] = 20000
        label = "ANCE-Tele" if number == 3 else f"ANCE-Tele {number}"
        book.system(f"tele-{number}", label, negatives=negatives, options=options)
    book.top["outputs"] = {"model": "tele-3", "index": "tele-3-index"}
    return book.tree()


def _drifting(book: Book, preset: str) -> Tree:
    """Add training runs from BM25 Neg on four kinds of negatives, and the drift of each."""
    paper = preset == "paper"
    options: Tree = {"max_steps": 100, "batch_size": 32, "learning_rate": 1e-5, "warmup_steps": 10, "decay": "constant"}
    if paper:
        options |= {"max_steps": 20000, "learning_rate": 5e-6, "warmup_steps": 2000, "warmup_from_zero": True}
    own: Tree = {
        "model": "bm25-neg",
        "index": "bm25-neg-index",
        "loss": {"name": "ranknet", "temperature": 1.0 if paper else 0.05},
        "watch": {"every": 500 if paper else 10, "queries": 200, "depth": 200},
        "options": options,
    }
    book.mined("static-negatives", "bm25-neg-index")
    kinds: dict[str, Tree] = {
        "static": {"negatives": "static-negatives"},
        "refreshed": {"refresh_every": 5000 if paper else 40},
        "random": {},
        "dynamic": {},
    }
    for kind, more in kinds.items():
        book.add(kind, "train-queries", schedule=kind, **own, **more)
    book.add("drift", "analyze", analysis={"drift": {"trainings": {kind: kind for kind in kinds}}})
    book.change("report", analyses={"Drift of negatives": "drift"})
    book.top["outputs"] = {"model": "dynamic", "index": "bm25-neg-index"}
    return book.tree()


def _tele_start(title: str, preset: str) -> Book:
    """Start the book of ANCE-Tele, with few passages, or with MS MARCO as read by its program."""
    options: Tree = {"max_steps": 42, "batch_size": 16, "negatives_per_query": 3, "warmup_steps": 5}
    loss: Tree = {"name": "infonce"}
    if preset != "paper":
        source = {"name": "pydocs", "max_passages": 2000, "dev_share": 0.15, "test_share": 0.5}
        book = docstrings(title, source, query_length=32, document_length=64)
    else:
        # Queries and passages as the program reads them: coCondenser's first token, inner products.
        book = msmarco(title, name="Luyu/co-condenser-marco", pooling="cls", document_length=128)
        book.defaults["search"]["depth"] = 1000
        book.change("bm25", depth=1000)
        book.start()
        book.row("as shipped", "start-test")
        book.change("scores", baselines=["as shipped", "BM25"], metrics=["mrr@10", "recall@1000"])
        loss["temperature"] = 1.0
        book.defaults["train"]["validation_run"] = "start-test"
        # 8 queries a step, three passes; 15 negatives a query in the first round; it and the second end at 20,000.
        options = {"epochs": 3, "batch_size": 8, "negatives_per_query": 15, "optimizer": "adamw", "learning_rate": 5e-6}
        options |= {"weight_decay": 0.0, "warmup_ratio": 0.1, "gradient_checkpointing": True}
        options |= {"checkpoint_every": 2000, "evaluate_every": 10000}
    book.defaults["train"] = deep(book.defaults["train"], {"loss": loss, "options": options})
    return book
