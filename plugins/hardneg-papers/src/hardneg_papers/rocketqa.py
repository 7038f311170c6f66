"""Recipes for RocketQA (Qu et al., NAACL 2021): its first step, its tables and figures, and question answering.

Demos train all-MiniLM-L6-v2 on docstrings, offline; the presets `paper` train ERNIE 2.0 on MS MARCO, on GPUs.
"""

from hardneg_papers.book import Book, DemoOrPaper, Tree
from hardneg_papers.starts import DPRS_READER, READER


def rocketqa_step1_passage(preset: DemoOrPaper = "demo") -> Tree:
    """RocketQA's first step on passages: a dual encoder trained on cross-batch negatives only.

    `hardneg recipe run rocketqa-step1-passage` takes minutes. Source: Qu et al., RocketQA, NAACL 2021, sections 3.2 and
    A.1, Table 6; rocketqa-passage has all steps. Expected from the paper preset: MRR@10 .333 on the dev queries (the
    paper's Table 6; not run by us).
    """
    return _step1("RocketQA's step 1 on passages", preset).tree()


def rocketqa_bert_passage(preset: DemoOrPaper = "demo") -> Tree:
    """RocketQA's first step from BERT instead of ERNIE: the effect of the initial model.

    `hardneg recipe run rocketqa-bert-passage --preset paper`; the demo is the same as for rocketqa-step1-passage.
    Source: Qu et al., RocketQA, NAACL 2021, section A.1 and Table 6. For NQ (R@100 .860 and .876), use `hardneg
    recipe run rocketqa-nq --preset paper --set model.name=google-bert/bert-base-uncased --until rocketqa-1-test`.
    Expected from the paper preset: MRR@10 .327 on the dev queries, with ERNIE .333 (not run by us).
    """
    book = _step1("RocketQA's step 1 from BERT", preset)
    if preset == "paper":
        book.top["model"]["name"] = "google-bert/bert-base-uncased"
    return book.tree()


def rocketqa_table3(preset: DemoOrPaper = "demo") -> Tree:
    r"""The rows of RocketQA's Table 3: in-batch and cross-batch negatives, denoising, augmentation.

      hardneg recipe run rocketqa-table3 --set dataset=beir:path/to/folder --set dataset.withheld.unlabelled=0.5
      hardneg recipe run rocketqa-table3 --set dataset.withheld.positives=0.3 \
      --set 'stages.behind.analysis.false-negative-recall={run: rocketqa-1-train, depth: 20}' \
      --set 'stages.behind.analysis.false-negative-recall.scores={cross-encoder: train-scores}'

    The demo takes an hour and a half on one core. The second command also hides positives, and reports the share that
    filters find. Source: Qu et al., RocketQA, NAACL 2021, Tables 3 and 4, Figures 5 and 6. Expected from the paper
    preset (the paper's Table 3; not run by us), MRR@10 on the dev queries: in-batch negatives .324, cross-batch .333,
    hard negatives without denoising .260, with it .364, augmentation .370. Unlabelled queries are read from a file; see
    rocketqa-passage. The in-batch row has as many queries per step as the cross-batch row, but compares each with only
    a quarter (in the paper, an eighth) of the documents.
    """
    book = _denoised(preset, "RocketQA, Table 3")
    _lay_table3(book, preset, {"batch_size": 512, "accumulate": 8})
    return book.tree()


def rocketqa_batches(preset: DemoOrPaper = "demo", batches: list[int] | None = None) -> Tree:
    """RocketQA with different numbers of random negatives, with and without denoised hard negatives.

      hardneg recipe run rocketqa-batches --set batches=[12,24]    two hours on one core; the numbers are ours

    Source: Qu et al., RocketQA, NAACL 2021, section 4.2.2 and Figure 4, which does not list the numbers; training takes
    20,000 steps without hard negatives, 5,000 with them. Expected from the paper preset (not run by us): MRR@10 grows
    with the number of negatives up to a point, and then falls.
    """
    book = _denoised(preset, "RocketQA, Figure 4")
    by_batch = _beside(book, "by-batch")
    tried = batches or ([128, 512, 1024, 2048, 4096, 8192] if preset == "paper" else [12, 24, 48, 96])
    for size in tried:
        book.like(f"without-{size}", "rocketqa-1", f"{size}, no hard ones", **by_batch, options={"batch_size": size})
    for size in tried:
        book.like(f"with-{size}", "rocketqa-3", f"{size}, hard ones", **by_batch, options={"batch_size": size})
    kinds = {"without hard negatives": "no hard ones", "with hard negatives": "hard ones"}
    rows = {kind: {str(size): f"{size}, {end}" for size in tried} for kind, end in kinds.items()}
    _figure(book, "Figure 4", "by-batch", ["negatives", "queries a step"], rows)
    return book.tree()


def rocketqa_augmentation(preset: DemoOrPaper = "demo", sizes: list[int] | None = None) -> Tree:
    """RocketQA with more or less augmented data: step 4 with different numbers of pseudo-labelled queries.

      hardneg recipe run rocketqa-augmentation --set sizes=[100,1000]    two hours on one core; the sizes are ours

    Source: Qu et al., RocketQA, NAACL 2021, section 4.2.2 and Figure 6, which does not list the sizes. Expected from
    the paper preset (not run by us): MRR@10 grows with the size. Larger sizes include the queries of smaller ones.
    """
    book = _denoised(preset, "RocketQA, Figure 6")
    by_size = _beside(book, "by-size")
    tried = sizes or ([200000, 400000, 800000] if preset == "paper" else [100, 400, 1600])
    for size in tried:
        book.stages[f"pseudo-labels-{size}"] = {**book.stages["pseudo-labels"], "size": size}
        own: Tree = {"augmented": f"pseudo-labels-{size}"}
        book.like(f"augmented-{size}", "rocketqa-4", f"{size} queries", **by_size, **own)
    book.row("none", "rocketqa-3-test", "by-size")
    book.row("all", "rocketqa-4-test", "by-size")
    row = {"none": "none", **{str(size): f"{size} queries" for size in tried}, "all": "all"}
    _figure(book, "Figure 6", "by-size", ["model", "labelled queries"], {"Step 4": row})
    return book.tree()


def rocketqa_nq(preset: DemoOrPaper = "demo") -> Tree:
    r"""RocketQA on questions with short answers, with a reader.

      hardneg recipe run rocketqa-nq             docstrings with names as answers; two hours on one core
      hardneg recipe run rocketqa-nq --set dataset=dpr:path/to/folder \
        --set 'dataset.withheld={unlabelled: 0.5, positives: 0.3}' \
         --set 'stages.behind.analysis.false-negative-recall={run: rocketqa-1-train, depth: 20}' \
         --set 'stages.behind.analysis.false-negative-recall.scores={cross-encoder: train-scores}'

    The second command also hides positives of queries that have several, and reports the share that filters find.
    Readers need `pip install ./plugins/hardneg-reader`; the preset paper reads data/nq, which `hardneg data fetch nq`
    downloads (7.3 GB). Source: Qu et al., RocketQA, NAACL 2021, Tables 2, 5 and 7. Expected from the paper preset on
    NQ's test questions (not run by us): answer@5, answer@20, answer@100 .689, .808, .874 after step 1, .732, .831, .886
    after step 3 (20 and 100 from the published program), .740, .827, .885 after step 4; exact match of a reader on step
    4's passages .428. Hard negatives contain no answer to the question, as in the program. In the demo, half of the
    training questions have no labels. The paper preset trains on all questions, and reads unlabelled ones from
    `unlabelled-queries.tsv` (id, tab, text); the paper uses MRQA.
    """
    book = _denoised(preset, "RocketQA on questions with short answers")
    _lay_questions(book, preset)
    return book.tree()


def rocketqa_nq_table7(preset: DemoOrPaper = "demo") -> Tree:
    """The rows of RocketQA's Table 7 on questions: in-batch, cross-batch and hard negatives, denoising.

    `hardneg recipe run rocketqa-nq-table7` takes three hours on one core, including the readers of rocketqa-nq.
    Source: Qu et al., RocketQA, NAACL 2021, section A.2 and Table 7. Expected from the paper preset on NQ's test
    questions, answer@5 (not run by us): in-batch negatives .685, cross-batch .689, hard negatives without denoising
    .680, with it .732, augmentation .740.
    """
    book = _denoised(preset, "RocketQA, Table 7")
    _lay_questions(book, preset)
    _lay_table3(book, preset, {"batch_size": 512, "accumulate": 2})
    book.change("top-negatives", without_answers=True, miner={"depth": 1})
    return book.tree()


def _denoised(preset: str, title: str) -> Book:
    """Add RocketQA, and a report section on the candidates that its filter drops."""
    book = Book.of("rocketqa-passage", preset, title)
    denoising = {"negatives": {"denoised": "denoised-negatives"}, "examples": 5}
    book.add("behind", "analyze", split="train", analysis={"denoising": denoising})
    book.change("report", analyses={"Denoising": "behind"})
    return book


def _step1(title: str, preset: str) -> Book:
    """Return a book with only the first step of RocketQA."""
    book = Book.of("rocketqa-passage", preset, title)
    first = ("bm25-index", "bm25", "start-index", "start-test", "start-dev", "scores", "report")
    names = [*first, *(f"rocketqa-1{end}" for end in ("", "-index", "-test"))]
    book.stages = {name: book.stages[name] for name in names if name in book.stages}
    scores, report = book.stages["scores"], book.stages["report"]
    del scores["metrics_of"], book.top["outputs"]
    scores["runs"] = {label: run for label, run in scores["runs"].items() if run in book.stages}
    scores["baselines"] = ["BM25"] if preset == "paper" else ["as shipped", "BM25"]
    report["training"] = {"Step 1": "rocketqa-1"}
    if preset == "paper":
        del book.top["sizes"]["queries"]["unlabelled"]
    else:
        book.top["dataset"] = "pydocs"
    return book


def _lay_table3(book: Book, preset: str, paper: Tree) -> None:
    """Add the other rows of Table 3: in-batch negatives, and hard negatives without denoising.

    paper: training options with the queries per step of the paper.
    """
    own = paper if preset == "paper" else {"batch_size": 24, "accumulate": 4}
    book.like("in-batch", "rocketqa-1", "In-batch", options=own)
    if preset != "paper":
        del book.stages["in-batch"]["options"]["chunk"]
    miner = {"name": "topk", "depth": 4}
    negatives = book.add("top-negatives", "mine", runs={"dense": "rocketqa-1-train"}, miner=miner)
    book.like("not-denoised", "rocketqa-3", "Hard, not denoised", negatives=negatives)
    book.change("scores", baselines=["Step 1", "In-batch", "Hard, not denoised"])


def _beside(book: Book, table: str) -> Tree:
    """Add another table; return the option that adds systems to it."""
    split = {"split": book.stages["scores"]["split"]} if "split" in book.stages["scores"] else {}
    book.add(table, "evaluate", metrics=["mrr@10"], **split)
    return {"table": table, "report": False}


def _figure(book: Book, title: str, table: str, axes: list[str], rows: Tree) -> None:
    """Add a figure with a line for each row of a table."""
    matrix = {"evaluation": table, "axes": axes, "figure": "lines", "rows": rows}
    name = book.add(title.lower().replace(" ", ""), "analyze", analysis={"matrix": matrix})
    book.change("report", analyses={title: name})


def _lay_questions(book: Book, preset: str) -> None:
    """Set up questions with short answers, hard negatives without an answer, and readers."""
    paper, answers = preset == "paper", ["answer@1", "answer@5", "answer@20", "answer@100"]
    book.add("bm25-train", "search", index="bm25-index", split="train", depth=100)
    book.change("found-negatives", without_answers=True)
    book.change("cross-encoder", options={"batch_size": 32 if paper else 20, "negatives_per_query": 1})
    book.change("denoised-negatives", without_answers=True, miner={"count": 1})
    book.change("pseudo-labels", count=1)
    book.add("rocketqa-4-train", "search", index="rocketqa-4-index", split="train", depth=50)
    book.change("scores", metrics=answers[paper:], metrics_of={"Step 1, cross-encoder": answers[paper:3]})
    if paper:
        # NQ's questions on DPR's passages of Wikipedia; step 1 learns from DPR's data.
        book.top["dataset"] = {"name": "dpr", "source": "data/nq", "questions": "nq"}
        book.top["sizes"]["documents"] = 21015324
        book.top["sizes"]["queries"] |= {"train": 58880, "dev": 6515, "test": 3610}
        book.change("bm25-index", backend={"k1": 0.9, "b": 0.4})
        for name in ("bm25", "rocketqa-1-test", "rocketqa-3-test", "rocketqa-4-test"):
            book.change(name, split="test", depth=100)
        for name in ("scores", "cross-encoder-test"):
            book.change(name, split="test")
        book.add("bm25-dev", "search", index="bm25-index", split="dev", depth=50)
        book.add("rocketqa-4-dev", "search", index="rocketqa-4-index", split="dev", depth=50)
        mined: Tree = {"runs": {"bm25": "bm25-train"}, "miner": {"name": "topk", "depth": 100}}
        book.add("bm25-negatives", "mine", **mined, without_answers=True)
        for step in ("rocketqa-1", "rocketqa-3", "rocketqa-4"):
            book.change(step, options={"epochs": 30, "batch_size": 1024})
        book.change(
            "rocketqa-1", negatives="bm25-negatives", validation_run="bm25-dev", options={"negatives_per_query": 1}
        )
        book.change("rocketqa-1-train", depth=100)
        book.change("found-negatives", miner={"depth": 100, "count": 1})
        book.change("denoised-negatives", miner={"fill": "none"})
    else:
        book.top["dataset"]["name"] = "pynames"
    training = DPRS_READER if paper else READER
    passages = [10, 50, 100] if paper else [1, 10]
    judged = {"validation_run": "bm25-dev"} if paper else {}
    # The paper's own reader learns from 50 passages a question.
    own = {"depth": 50, "validation_run": "rocketqa-4-dev"} if paper else {}
    book.add("bm25-reader", "train-reader", **{**training, "run": "bm25-train", **judged})
    book.add("bm25-read", "read", reader="bm25-reader", run="bm25", passages=passages)
    book.add("reader", "train-reader", **{**training, "run": "rocketqa-4-train", **own})
    book.add("read", "read", reader="reader", run="rocketqa-4-test", passages=passages)
    book.change("report", reading={"BM25": "bm25-read", "Step 4": "read"})
