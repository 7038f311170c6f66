"""Studies that vary one condition and compare arms that differ only in their negatives.

They start from the embedding table of wordllama (`pip install "hardneg[static]"`). Demos take minutes on two idle
cores, offline, on docstrings or code. `--preset full --set dataset=beir:path/to/folder` trains for more steps.
"""

from typing import Any, Literal

from hardneg_papers.book import Book, Tree, deep

DemoOrFull = Literal["demo", "full"]
_STEPS = 60
METRICS = ["mrr@10", "recall@100", "recall@1000"]
LISTS = {"in-batch": "drawn-negatives", "random": "random-negatives", "top-10": "top-10-negatives"}
STATIC = {"name": "packaged:wordllama", "query_length": 128, "document_length": 128}
CODE: Tree = {"name": "pycode", "max_passages": 3000, "dev_share": 0.1, "test_share": 0.3}
_MINILM = "packaged:all-MiniLM-L6-v2"
_DENSE = {"dense": "start-train"}


def small_study(title: str, preset: str, dataset: Tree = CODE, rate: float = 0.01, steps: int = _STEPS) -> Book:
    """Return a book to train a static model with five seeds. rate: learning rate. steps: training steps of the demo."""
    options: Tree = {"max_steps": 400 if preset == "full" else steps, "batch_size": 32, "negatives_per_query": 1}
    options |= {"learning_rate": rate, "weight_decay": 0.0, "warmup_steps": 5}
    train = {"loss": {"name": "infonce", "temperature": 0.05}, "options": options}
    defaults = {"search": {"depth": 1000}, "evaluate": {"by_group": "where_known"}, "train": train}
    return Book(title, dataset, STATIC, defaults, seeds=[1, 2, 3, 4, 5])


def study(
    title: str,
    preset: str,
    baselines: list[str] | None = None,
    steps: int = _STEPS,
    defaults: Tree | None = None,
    **top: Any,
) -> Book:
    """Return a study with a static model, five seeds and four arms, tested against the arms `baselines`.

    Each arm scores the same number of documents per query: in-batch has a positive of another query where the others
    have a mined negative. defaults: changes to the default options, by verb. top: top-level fields to replace.
    """
    book = small_study(title, preset, {**CODE, **top.pop("dataset", {})}, 0.03, steps)
    book.top |= {"outputs": {"model": "top-10", "index": "top-10-index"}, **top}
    book.defaults = deep(book.defaults, defaults or {})
    book.start()
    book.add("start-train", "search", index="start-index", split="train", depth=210, positives=True)
    book.add("random-negatives", "mine", miner={"name": "random", "count": 10})
    book.add("drawn-negatives", "mine", positives_of_others=10, miner={"name": "topk", "depth": 10})
    mined(book, "top-10-negatives")
    mined(book, "permuted-negatives", permuted=True)
    table(book, baselines=baselines)
    lists = {**LISTS, "permuted": "permuted-negatives"}
    for arm in ("in-batch", "random", "permuted", "top-10"):
        book.system(arm, arm.replace("top-10", "top 10"), negatives=lists[arm])
    book.row("as shipped", "start-test")
    return book


def mined(book: Book, name: str, depth: int = 10, **options: Any) -> str:
    """Add negatives from the top `depth` of the start model's lists, or of `runs`; return the name of the stage."""
    return book.add(name, "mine", **{"runs": _DENSE, "miner": {"name": "topk", "depth": depth}, **options})


def table(book: Book, end: str = "", title: str = "", baselines: list[str] | None = None) -> None:
    """Add an empty table and its report, both with the suffix `end`; the default baselines are random and in-batch."""
    book.tables({}, baselines or ["random", "in-batch"], METRICS, end, title)
    book.change(f"scores{end}", equivalence_margin=0.015)


def arms(book: Book, dose: str, title: str, **options: Any) -> None:
    """Add the three arms of `LISTS`, trained with the given options, in a separate table named after the dose."""
    table(book, f"-{dose}", title)
    for arm, lists in LISTS.items():
        label = arm.replace("top-10", "top 10")
        book.system(f"{arm}-{dose}", label, table=f"scores-{dose}", negatives=lists, **options)
    book.row("as shipped", "start-test", f"scores-{dose}")


def bm25_arm(book: Book) -> str:
    """Add an arm trained on negatives from BM25's top 10; return the name of the negatives."""
    book.bm25()
    book.add("bm25-train", "search", index="bm25-index", split="train", depth=50)
    negatives = mined(book, "bm25-negatives", runs={"bm25": "bm25-train"})
    book.system("bm25-top-10", "BM25 top 10", negatives=negatives)
    return negatives


def dose_batches(preset: DemoOrFull = "demo") -> Tree:
    """Vary the batch size: do hard negatives make up for small batches, and do hard batches do the same?

    `hardneg recipe run dose-batches` takes half an hour and 14 GB of disk. All arms see the same number of positives.
    The table `scores` and the page `report` are for batches of 32 queries, `scores-4` to `scores-128` and their pages
    for other sizes. `clustered` and `hardest together` choose the queries of a batch, and use no mined negatives.
    Source: Xiong et al., ANCE, ICLR 2021, section 3; for `clustered`, arXiv 2407.18887. Expected: docs/results/when.md.
    """
    book = study("Doses of batches", preset)
    for size in (4, 8, 16, 128):
        steps = (12800 if preset == "full" else 1920) // size
        arms(book, str(size), f"Batches of {size}", options={"batch_size": size, "max_steps": steps})
    drawn: Tree = {"negatives": "drawn-negatives"}
    book.system("clustered", "clustered", **drawn, batches="clustered", batches_from="start-index")
    book.system("together", "hardest together", **drawn, batches="hardest-together", batches_from="start-train")
    return book.tree()


def dose_corpus(preset: Literal["demo", "full", "transformer"] = "demo") -> Tree:
    """Vary the size of the corpus: the larger it is, the fewer confusable documents share a batch.

      hardneg recipe run dose-corpus --set dataset.withheld.groups=0.75    default .875; all: dataset.withheld=null
      hardneg recipe run dose-corpus --preset transformer     all-MiniLM-L6-v2 instead of the table; three seeds

    A BEIR folder needs groups.tsv (docs/datasets.md). Whole groups are left out, with their training queries. Groups
    with relevant passages for dev and test queries stay, so these queries are the same at each dose. Source: Xiong et
    al., ANCE, ICLR 2021, section 3, on batch size relative to corpus size. Expected: docs/results/when.md.
    """
    top: Tree = {"dataset": {"withheld": {"groups": 0.875}}}
    if preset == "transformer":
        options = {"max_steps": 100, "batch_size": 16, "learning_rate": 2e-5, "warmup_steps": 10}
        model = {"name": _MINILM, "query_length": 64, "document_length": 64}
        defaults = {"search": {"depth": 100}, "train": {"options": options}}
        top |= {"model": model, "seeds": [1, 2, 3], "defaults": defaults}
    book = study("Doses of the corpus", preset, **top)
    if preset == "transformer":
        book.change("scores", metrics=["mrr@10", "recall@100"])
    return book.tree()


def dose_depth(preset: DemoOrFull = "demo") -> Tree:
    """Vary the number of negatives per query, and the ranks that they are drawn from.

    `hardneg recipe run dose-depth`. Source: Karpukhin et al., DPR, EMNLP 2020, Table 3, for the number; Moreira et al.,
    NV-Retriever, arXiv 2407.15831, for the ranks. Expected: docs/results/when.md. Rows with more negatives per query
    score more documents than the others, but see the same number of positives.
    """
    book = study("Doses of negatives", preset, ["random", "top 10"])
    for count in (2, 4, 8):
        options = {"negatives_per_query": count}
        label = f"top 10, {count} a query"
        book.system(f"top-10-{count}", label, negatives="top-10-negatives", options=options)
    for skip, last in ((10, 50), (50, 200)):
        window = {"name": "window", "skip": skip, "depth": last}
        name = f"ranks-{skip + 1}-{last}"
        negatives = mined(book, f"{name}-negatives", miner=window)
        book.system(name, name.replace("-", " ", 1), negatives=negatives)
    return book.tree()


def dose_false_negatives(preset: DemoOrFull = "demo") -> Tree:
    r"""Vary the share of unlabelled positives among the negatives: when do hard negatives stop helping?

      hardneg recipe run dose-false-negatives --preset full --set dataset=beir:path/to/folder \
        --set dataset.withheld.halves=true

    For each positive of a training query, the corpus also contains half of its text as an unlabelled passage. For a
    share of the queries, this half is the only negative; for the others, it is never a negative. In filtered rows,
    random negatives replace the dropped ones. Source: Qu et al., RocketQA, NAACL 2021, section 4.2.3 and Table 3, and
    Moreira et al., NV-Retriever, arXiv 2407.15831, for the filter. Expected: docs/results/when.md.
    """
    book = study("Doses of false negatives", preset, dataset={"withheld": {"halves": True}})
    book.change("top-10-negatives", planted=0.0)
    for share in (5, 10, 25, 50):
        negatives = mined(book, f"planted-{share}-negatives", planted=share / 100)
        book.system(f"planted-{share}", f"top 10, {share} % false", negatives=negatives)
    below = {"name": "pos-percent", "share": 0.95, "depth": 200, "count": 10}
    for share in (0, 5, 10, 25, 50):
        negatives = mined(book, f"filtered-{share}-negatives", miner=below, planted=share / 100, fill_to=1)
        book.system(f"filtered-{share}", f"pos-percent, {share} % false", negatives=negatives)
    return book.tree()


def dose_metrics(preset: DemoOrFull = "demo") -> Tree:
    """Compare the arms by several metrics: hard negatives improve the top ranks and hurt the lower ones.

    `hardneg recipe run dose-metrics`. Source: Zhan et al., SIGIR 2021, Table 1, in which total and top-200 pairwise
    errors rank the methods in opposite order. Expected: docs/results/when.md. Pairwise errors use the first seed.
    """
    book = study("Metrics of the top and of the depth", preset)
    bm25_arm(book)
    book.system("top-200", "top 200", negatives=mined(book, "top-200-negatives", 200))
    book.row("BM25", "bm25")
    names = ("random", "top 200", "top 10", "in-batch")
    indexes = {name: f"{name.replace(' ', '-')}-index" for name in names}
    book.add("errors", "analyze", analysis={"errors": {"indexes": indexes, "depth": 200}})
    book.change("report", analyses={"pairwise errors": "errors"})
    return book.tree()


def dose_refresh(preset: DemoOrFull = "demo") -> Tree:
    """Vary how often the negatives are re-mined with the current model.

    `hardneg recipe run dose-refresh`. All rows except in-batch and random start with the top ten of the start model;
    `top 10` is never refreshed. Source: Xiong et al., ANCE, ICLR 2021, section 4. Expected: docs/results/when.md.
    """
    book = study("Doses of refreshes", preset, ["random", "top 10"], steps=68)
    book.defaults["train-refreshed"] = book.defaults["train"]
    for times, every in {1: 34, 4: 14, 16: 4}.items():
        every = {34: 200, 14: 80, 4: 24}[every] if preset == "full" else every
        refresh = {"policy": "synchronous", "every": every, "depth": 10, "negatives": 10, "choice": "top"}
        own: Tree = {"negatives": "top-10-negatives", "refresh": refresh}
        book.system(f"refreshed-{times}", f"refreshes: {times}", "train-refreshed", **own)
    return book.tree()


def dose_siblings(preset: DemoOrFull = "demo") -> Tree:
    """Vary the number of confusable passages (siblings) of each passage: are they the reason why hard negatives help?

      hardneg recipe run dose-siblings --set dataset.withheld.siblings=0                         and 1, 2, 1000 (all)

    A BEIR folder needs groups.tsv (docs/datasets.md). Each group keeps one relevant passage and this many siblings, so
    queries, positives and updates are the same at each dose. `permuted` assigns each top-10 list to another query,
    which should not help more than random negatives. Source: |D-*| in Xiong et al., ANCE, ICLR 2021, section 3.
    Expected: docs/results/when.md.
    """
    book = study("Doses of siblings", preset, dataset={"withheld": {"siblings": 1000}})
    book.change("scores", equivalence_margin=0.02)
    return book.tree()


def dose_start(preset: Literal["demo", "untrained", "minilm", "full"] = "demo") -> Tree:
    r"""Vary the initial model: can an untrained model learn from hard negatives from the start?

      hardneg recipe run dose-start --preset untrained      a table of random numbers; `minilm`: MiniLM's table
      hardneg recipe run dose-start --preset full --set dataset=beir:path/to/folder \
        --set "model={name: packaged:all-MiniLM-L6-v2, encoder: {name: static, untrained: true}}"

    `in-batch, then top 10` mines with the model after half of the steps, and continues from it; `in-batch twice`
    continues without mining. All rows have the same number of steps. Source: Zhan et al., SIGIR 2021, section 5, and
    Xiong et al., ICLR 2021, for the warm-up. Expected: docs/results/when.md.
    """
    top: Tree = {}
    if preset in ("untrained", "minilm"):
        encoder = {"name": "static", "untrained": True} if preset == "untrained" else "static"
        top["model"] = {**STATIC, "name": _MINILM, "encoder": encoder}
        top["defaults"] = {"train": {"options": {"learning_rate": 0.01}}}
    book = study("Doses of the start", preset, **top)
    options = {"max_steps": 200 if preset == "full" else 30}
    book.add("half", "train", negatives="drawn-negatives", options=options)
    book.add("half-index", "encode", model="half")
    run = book.add("half-train", "search", index="half-index", split="train", depth=210, positives=True)
    negatives = mined(book, "half-negatives", runs={"dense": run})
    book.system("in-batch-twice", "in-batch twice", model="half", negatives="drawn-negatives", options=options)
    book.system("then-top-10", "in-batch, then top 10", model="half", negatives=negatives, options=options)
    return book.tree()


def dose_temperature(preset: DemoOrFull = "demo") -> Tree:
    """Vary the temperature: the lower it is, the more the hardest document dominates the gradient.

    `hardneg recipe run dose-temperature` takes 18 minutes and 12 GB of disk. The table `scores` and the page `report`
    are for temperature .05, `scores-0.01` to `scores-0.2` and their pages for the others. Source: Wang and Liu,
    Understanding the Behaviour of Contrastive Loss, CVPR 2021, for the effect. Expected: docs/results/when.md.
    """
    book = study("Doses of temperature", preset)
    for heat in (0.01, 0.02, 0.1, 0.2):
        arms(book, str(heat), f"Temperature {heat}", loss={"temperature": heat})
    return book.tree()
