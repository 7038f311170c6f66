"""Question answering: DPR (Karpukhin et al., EMNLP 2020), ANCE trained from it, and readers.

The presets `paper` use BERT-base and need GPUs. With hardneg-datasets, they read data/nq, which `hardneg data fetch nq`
downloads (7.3 GB, 21 million passages of Wikipedia). For other DPR files, use `--set dataset=dpr:path/to/folder`.
"""

from hardneg_papers.book import Book, DemoOrPaper, Tree, deep
from hardneg_papers.starts import DPRS_READER, READER, docstrings, msmarco


def dpr_nq(preset: DemoOrPaper = "demo") -> Tree:
    """DPR on questions with short answers, alone and fused with BM25; trained with gold passages and BM25's negatives.

      hardneg recipe run dpr-nq                         docstrings with names as answers, all-MiniLM-L6-v2; minutes
      hardneg recipe run dpr-nq --set dataset=beir:path/to/folder        a BEIR folder whose queries have `answers`

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering, EMNLP 2020, sections 3 to 5.
    Expected from the paper preset on NQ's test questions, answer@20 and answer@100: BM25 .591 and .737, DPR .784 and
    .854, BM25+DPR .766 and .838 (Table 2 of Xiong et al., ANCE, ICLR 2021; not run by us).
    """
    return _dpr("DPR on questions with short answers", preset).tree()


def ance_nq(preset: DemoOrPaper = "demo") -> Tree:
    """ANCE on questions with short answers: DPR trained further on refreshed negatives without an answer.

      hardneg recipe run ance-nq                        docstrings with names as answers, all-MiniLM-L6-v2; minutes

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval, ICLR
    2021, section 5. Expected from the paper preset on NQ's test questions: answer@20 .819, answer@100 .875 (its Table
    2; not run by us). The authors start from the released DPR model; here it is trained first. See docs/questions.md.
    """
    return _ance_on_dpr("ANCE on questions with short answers", preset).tree()


def ance_nq_reader(preset: DemoOrPaper = "demo") -> Tree:
    """Readers for the passages that BM25, DPR and ANCE retrieve, evaluated by exact match.

    `hardneg recipe run ance-nq-reader` takes an hour on one core, and needs `pip install ./plugins/hardneg-reader`.
    Source: Xiong et al., ICLR 2021, section 5 and Table 4, with released readers of DPR and RAG; here, each retriever
    gets its own reader. Expected from the paper preset: exact match DPR .415, ANCE .460 (RAG-Token; not run by us).
    """
    book = _ance_on_dpr("ANCE on questions, read", preset)
    paper = preset == "paper"
    book.defaults["train-reader"] = DPRS_READER if paper else READER
    if paper:
        book.add("ance-dev", "search", index="ance-index", split="dev", depth=50)
    for name in ("dpr", "ance"):
        book.add(f"{name}-train", "search", index=f"{name}-index", split="train", depth=100 if paper else 50)
    passages = [10, 50, 100] if paper else [1, 10]
    for name, run in {"bm25": "bm25", "dpr": "dpr-test", "ance": "ance-test"}.items():
        judged: Tree = {"validation_run": f"{name}-dev"} if paper else {}
        book.add(f"{name}-reader", "train-reader", run=f"{name}-train", **judged)
        book.add(f"{name}-read", "read", reader=f"{name}-reader", run=run, passages=passages)
    book.change("report", reading={"BM25": "bm25-read", "DPR": "dpr-read", "ANCE": "ance-read"})
    return book.tree()


def _dpr(title: str, preset: str) -> Book:
    """Add DPR, trained on BM25's passages without an answer, and its fusion with BM25."""
    paper = preset == "paper"
    depth, options = 200, {"positive": "first", "learning_rate": 2e-5}
    metrics = ["answer@5", "answer@20", "answer@100"]
    # Cosines lie between -1 and 1, far below BM25's scores: in their place the ranks are added.
    fused: Tree = {"method": "reciprocal-rank"}
    if paper:
        model = {"name": "google-bert/bert-base-uncased", "pooling": "cls", "twins": True}
        book = msmarco(title, **model, query_length=64, document_length=256)
        book.top["dataset"] = {"name": "dpr", "source": "data/nq", "questions": "nq"}
        book.top["sizes"] = {"documents": 21015324, "queries": {"train": 58880, "dev": 6515, "test": 3610}}
        test = {"split": "test"}
        train = {"validation_run": "bm25-dev", "loss": {"temperature": 1.0}}
        book.defaults = deep(book.defaults, {"search": test, "evaluate": test, "train": train})
        book.bm25(k1=0.9, b=0.4)
        book.change("scores", **test)
        book.add("bm25-dev", "search", index="bm25-index", split="dev", depth=50)
        # The rate is the paper's; its program has 2e-5, and the warm-up and clip_norm given here.
        options |= {"epochs": 40, "batch_size": 128, "optimizer": "adamw", "learning_rate": 1e-5, "weight_decay": 0.0}
        options |= {"warmup_steps": 1237, "clip_norm": 2.0, "gradient_checkpointing": True, "evaluate_every": 2000}
        depth, options, fused = 2000, {**options, "keep_best": True}, {"weights": {"DPR": 1.1}}
    else:
        book = docstrings(title, "pynames", validated=True, twins=True)
        metrics = ["answer@1", *metrics]
    book.change("bm25", depth=depth)
    miner = {"name": "topk", "depth": 100}
    negatives = book.mined("bm25-negatives", "bm25-index", "bm25", miner=miner, without_answers=True)
    book.change("bm25-train", depth=150)
    book.system("dpr", "DPR", negatives=negatives, loss={"name": "infonce"}, options=options)
    book.change("dpr-test", depth=depth)
    book.add("bm25-dpr", "fuse", runs={"BM25": "bm25", "DPR": "dpr-test"}, **fused)
    book.row("BM25+DPR", "bm25-dpr")
    book.change("scores", metrics=metrics)
    book.top["outputs"] = {"model": "dpr", "index": "dpr-index"}
    return book


def _ance_on_dpr(title: str, preset: str) -> Book:
    """Add DPR, and ANCE with negatives from DPR's top without an answer."""
    book = _dpr(title, preset)
    refresh: Tree = {"policy": "synchronous", "every": 50, "depth": 200, "negatives": 100, "without_answers": True}
    options: Tree = {"positive": "first"}
    own: Tree = {}
    if preset == "paper":
        book.add("dpr-dev", "search", index="dpr-index", split="dev", depth=50)
        # 16 questions on each of 8 GPUs, a checkpoint every 1,000 steps, a fifth of the questions mined from each. The
        # program's schedule is of 300,000 steps; where it was stopped is not published.
        refresh |= {"policy": "every", "every": 1000, "query_chunks": 5}
        options |= {"max_steps": 300000, "stop_at": 100000, "batch_size": 128, "learning_rate": 1e-5}
        options |= {"weight_decay": 0.0, "clip_norm": 2.0, "gradient_checkpointing": True, "checkpoint_every": 1000}
        own = {"devices": {"trainer": 1, "inferencer": 1}, "validation_run": "dpr-dev"}
    own = deep(book.defaults["train"], {"model": "dpr", "loss": {"name": "nll"}, "options": options}, own)
    book.system("ance", "ANCE", "train-refreshed", **own, refresh=refresh)
    book.change("scores", baselines=["DPR", "BM25"])
    book.top["outputs"] = {"model": "ance", "index": "ance-index"}
    return book
