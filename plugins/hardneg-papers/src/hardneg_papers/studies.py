"""Studies on static models: averages, equal steps, fewer bits, repeated mining, mixtures, depth, written queries.

They start from the embedding table of wordllama (`pip install "hardneg[static]"`). Demos take minutes on two idle
cores, on docstrings or code; `--preset full --set dataset=beir:path/to/folder` takes more steps on another collection.
"""

from collections.abc import Mapping
from typing import Any, Literal

from hardneg_papers.book import Book, Tree
from hardneg_papers.doses import CODE, STATIC, DemoOrFull, bm25_arm, mined, small_study, study, table
from hardneg_papers.starts import teleported

_DOCSTRINGS: Tree = {**CODE, "name": "pydocs"}


def labelled_negatives(book: Book, name: str, index: str = "start-index", **options: Any) -> str:
    """Search an index for the training queries and mine the top 10, both with `options`; return the negatives' name."""
    end = index.removesuffix("-index")
    run = book.add(f"{end}-train", "search", index=index, split="train", depth=210, positives=True, **options)
    return mined(book, name, runs={"dense": run}, **options)


def averaged_seeds(preset: DemoOrFull = "demo") -> Tree:
    """Averages of the weights of several seeds, and of the initial and the trained model, compared with single seeds.

    `hardneg recipe run averaged-seeds`. `mean of seeds` is the average of five models; `halfway` is the average of it
    and the initial model. The row `top 10` shows the mean metrics of the five models. Source: Wortsman et al., Model
    soups, ICML 2022, for the mean; Xiao et al., LM-Cocktail, 2023, for `halfway`. Expected: docs/results/averages.md.
    """
    book = small_study("Averages of seeds", preset)
    book.start()
    table(book, baselines=["top 10"])
    book.system("top-10", "top 10", negatives=labelled_negatives(book, "negatives"))
    book.system("mean", "mean of seeds", "average", models={"top 10": "top-10"})
    book.system("halfway", "halfway", "average", models={"start": "start", "mean": "mean"})
    book.row("as shipped", "start-test")
    book.top["outputs"] = {"model": "mean", "index": "mean-index"}
    return book.tree()


def equal_steps(preset: DemoOrFull = "demo") -> Tree:
    """ADORE and ANCE, compared with the same number of further training steps without them.

    `hardneg recipe run equal-steps`. Each row with an arrow continues from the model before the arrow for half as many
    steps. ADORE trains the query encoder; its control uses random documents of the same index, at a higher temperature,
    because their scores are further apart. ANCE starts from BM25's negatives; its control continues with them.
    `again` continues the same training of both encoders. Source: Zhan et al., SIGIR 2021, Table 2; Xiong et al., ICLR
    2021, Table 1. Neither has these controls. Expected: docs/results/claims.md.
    """
    book = study("ADORE and ANCE at equal steps", preset, ["in-batch", "top 10", "BM25 top 10"])
    lists = bm25_arm(book)
    steps = 200 if preset == "full" else 30
    options = {"max_steps": steps, "batch_size": 32, "learning_rate": 0.01, "weight_decay": 0.0, "warmup_steps": 5}
    adore = {"loss": {"name": "lambda", "cut": 200, "temperature": 0.05}, "options": options}
    book.defaults["train-queries"] = adore
    starts = {"in-batch": "drawn-negatives", "top-10": "top-10-negatives", "bm25-top-10": lists}
    labels = {start: start.replace("top-10", "top 10").replace("bm25-", "BM25 ") for start in starts}
    for start, negatives in starts.items():
        more: Tree = {"model": start, "negatives": negatives, "options": {"max_steps": steps}}
        book.system(f"{start}-again", f"{labels[start]} → again", **more)
    for start, label in labels.items():
        own: Tree = {"model": start, "index": f"{start}-index"}
        book.system(f"{start}-adore", f"{label} → ADORE", "train-queries", **own)
    for start, label in labels.items():
        own = {"model": start, "index": f"{start}-index", "schedule": "random", "loss": {"temperature": 0.2}}
        book.system(f"{start}-random", f"{label} → random, queries alone", "train-queries", **own)
    every = 25 if preset == "full" else 10
    book.system(
        "bm25-top-10-ance",
        "BM25 top 10 → ANCE",
        "train-refreshed",
        model="bm25-top-10",
        loss={"name": "infonce", "temperature": 0.05},
        refresh={"policy": "synchronous", "every": every, "depth": 10, "negatives": 10, "choice": "top"},
        options={**options, "learning_rate": 0.03, "negatives_per_query": 1},
    )
    book.row("BM25", "bm25")
    return book.tree()


def fewer_bits(preset: DemoOrFull = "demo") -> Tree:
    """Vectors with 32, 8 and 1 bits per dimension: quality, size and speed, with and without training for fewer bits.

    `hardneg recipe run fewer-bits`. `top 10` is trained with 32 bits per dimension only; the loss of `for fewer bits`
    adds up the losses at 32, 8 and 1 bits. Source: Yamada, Asai and Hajishirzi, Efficient Passage Retrieval with
    Hashing, ACL 2021, for the binary search. Expected: docs/results/fewer-bits.md.
    """
    book = small_study("Vectors of fewer bits", preset)
    book.start()
    negatives = labelled_negatives(book, "negatives")
    table(book, baselines=["top 10", "top 10, binary"])
    book.system("top-10", "top 10", negatives=negatives)
    book.system("fewer", "for fewer bits", negatives=negatives, precisions=["float32", "int8", "binary"])
    book.row("as shipped", "start-test")
    for name, label in {"start": "as shipped", "top-10": "top 10", "fewer": "for fewer bits"}.items():
        for precision, backend in {"int8": "sq8", "binary": "binary"}.items():
            index = book.add(f"{name}-{precision}", "index", vectors=f"{name}-index", backend=backend)
            book.row(f"{label}, {precision}", book.add(f"{index}-test", "search", index=index))
    indexes = {"float32": "start-index", "int8": "start-int8", "binary": "start-binary"}
    book.add("bytes", "analyze", analysis={"sizes": {"indexes": indexes}})
    book.add("time", "analyze", analysis={"latency": {"indexes": indexes}})
    book.change("report", analyses={"bytes": "bytes", "time": "time"})
    book.top["outputs"] = {"model": "fewer", "index": "fewer-index"}
    return book.tree()


def iterated_negatives(preset: DemoOrFull = "demo") -> Tree:
    """How much of the gain from repeatedly mined hard negatives do in-batch negatives already bring?

    `hardneg recipe run iterated-negatives`. Rows with `pairs` compare a query's positive with one negative, random or
    from the top 15. Other rows also use in-batch negatives. In `two rounds`, negatives are re-mined halfway.
    Source: https://github.com/vllm-project/semantic-router/pull/1219, which reports MRR@5 .4354 as shipped and .7453
    after two rounds of triplets on MedQuAD, with another model and its own split, and no row with in-batch negatives.
    Expected: docs/results/claims.md.
    """
    book = study("Negatives mined again and again", preset, ["in-batch", "random pairs", "hard pairs"], steps=68)
    book.change("scores", metrics=["mrr@5", "recall@5", "recall@100"])
    every = 200 if preset == "full" else 34
    refresh = {"policy": "synchronous", "every": every, "depth": 15, "negatives": 15, "choice": "top"}
    book.defaults["train-refreshed"] = {"refresh": refresh, "options": book.defaults["train"]["options"]}
    mined(book, "top-15-negatives", 15)
    pairs: Tree = {"negatives": "top-15-negatives", "loss": {"name": "ranknet", "pairs": "own", "temperature": 0.05}}
    book.system("random-pairs", "random pairs", **{**pairs, "negatives": "random-negatives"})
    book.system("hard-pairs", "hard pairs", **pairs)
    book.system("hard-pairs-again", "hard pairs, two rounds", "train-refreshed", **pairs)
    book.system("top-15", "top 15", negatives="top-15-negatives")
    again: Tree = {"negatives": "top-15-negatives", "loss": book.defaults["train"]["loss"]}
    book.system("top-15-again", "top 15, two rounds", "train-refreshed", **again)
    return book.tree()


def many_collections(
    preset: DemoOrFull = "demo", collections: dict[str, Tree | str] | None = None, alone: list[str] | None = None
) -> Tree:
    """One model for several collections, mixed by size, by its square root, or evenly, compared with a model for each.

      hardneg recipe run many-collections --preset full --set "collections={a: 'beir:A', b: 'beir:B'}"

    Collections are mined separately. The row `all, T = 2` draws a collection of n queries with a probability
    proportional to n^(1/2); all rows have the same number of steps. `a alone` is trained on collection a and measured
    on all of them. The report has a table for each collection, and one with the means. Source: Raffel et al., T5 (JMLR
    2020), section 3.5.2, for the temperature. Expected: docs/results/mixtures.md.
    """
    own = {"docstrings": {**_DOCSTRINGS, "max_passages": 2000}, "code": {**CODE, "max_passages": 1000}}
    loaders: Mapping[str, Tree | str] = collections or own
    book = small_study("Many collections in one training", preset, dataset={**_DOCSTRINGS, "max_passages": 2000})
    book.defaults["search"] = {"depth": 100}
    book.top["seeds"] = [1, 2, 3]
    for name, loader in loaders.items():
        book.add(name, "dataset", loader=loader)
        book.add(f"{name}-index", "encode", dataset=name)
        book.add(f"{name}-test", "search", index=f"{name}-index", dataset=name)
        labelled_negatives(book, f"{name}-negatives", f"{name}-index", dataset=name)
    models = {}
    for heat in (1, 2, 1000):
        datasets = {name: f"{name}-negatives" for name in loaders}
        model = book.add(f"all-t-{heat}", "train", datasets=datasets, mixing={"temperature": heat})
        models[f"all, T = {heat}"] = model
    for name in alone or loaders:
        models[f"{name} alone"] = book.add(f"alone-{name}", "train", negatives=f"{name}-negatives", dataset=name)
    for name in loaders:
        runs = {"as shipped": f"{name}-test"}
        for label, model in models.items():
            index = book.add(f"{model}-{name}-index", "encode", model=model, dataset=name)
            runs[label] = book.add(f"{model}-{name}", "search", index=index, dataset=name)
        compared = {"baselines": [f"{name} alone", "as shipped"], "metrics": ["mrr@10", "ndcg@10", "recall@100"]}
        book.add(f"scores-{name}", "evaluate", dataset=name, runs=runs, equivalence_margin=0.015, **compared)
    scores = {name: f"scores-{name}" for name in loaders}
    book.add("across", "analyze", analysis={"across-collections": {"evaluations": scores}})
    book.add("report", "report", evaluation=f"scores-{next(iter(loaders))}", analyses={"mean": "across", **scores})
    book.top["outputs"] = {"model": "all-t-2"}
    return book.tree()


def mining_depth(preset: Literal["demo"] = "demo", depths: list[int] | None = None) -> Tree:
    """Mining depth: negatives from the top 10, 50, 100 and 200, compared on the dev queries.

      hardneg recipe run mining-depth --set 'depths=[20, 80, 320]'
      hardneg recipe run star-passage --set stages.static-negatives.miner.depth=50  then: the best depth on the test set

    The model is all-MiniLM-L6-v2. Source: Zhan et al., SIGIR 2021, section 7.3 (top 200); Xiong et al., ICLR 2021,
    section A.4 (several depths). The best depth depends on how many relevant documents are unlabelled. Expected from
    the demo: differences on 800 dev queries that are mostly noise, as the tests in the report show. On MedQuAD with a
    static model, the top 10 are better than the top 200 by .044 MRR@10 (docs/results/more-recipes.md).
    """
    tried = depths or [10, 50, 100, 200]
    options = {"max_steps": 42, "batch_size": 16, "negatives_per_query": 1, "learning_rate": 5e-5, "warmup_steps": 5}
    defaults: Tree = {verb: {"split": "dev"} for verb in ("search", "evaluate")}
    defaults["train"] = {"loss": {"name": "star", "temperature": 0.05}, "options": options}
    model = {"name": "packaged:all-MiniLM-L6-v2", "query_length": 32, "document_length": 64}
    source = {"name": "pydocs", "max_passages": 2000, "dev_share": 0.4, "test_share": 0.1}
    book = Book("How deep to mine", source, model, defaults)
    book.add("start-index", "encode", model="start")
    book.add("start-dev", "search", index="start-index")
    # Ten more than the deepest list needs, for the positives among them.
    book.add("start-train", "search", index="start-index", split="train", depth=max(tried) + 10)
    book.tables({}, ["as shipped", f"STAR, top {max(tried)}"], ["mrr@10", "ndcg@10", "recall@100"])
    book.searches = {"dev": {}}
    for depth in tried:
        book.system(f"star-{depth}", f"STAR, top {depth}", negatives=mined(book, f"negatives-{depth}", depth))
    book.row("as shipped", "start-dev")
    return book.tree()


def negatives_compared(preset: Literal["demo", "minilm"] = "demo") -> Tree:
    """Ways to choose negatives, compared on a static model with five seeds each.

    `hardneg recipe run negatives-compared`. Except for In-Batch Neg (RankNet) and ADORE, all rows use the loss of STAR
    and the same number of steps, so they differ only in their negatives. ADORE continues from STAR: it trains the query
    encoder with LambdaLoss for another 60 steps. ANCE-Tele has three training runs. Source: see star-static and the
    pages in docs/methods. Expected, on 895 queries: docs/results/negatives.md.
    """
    options: Tree = {"max_steps": 60, "batch_size": 32, "weight_decay": 0.0, "warmup_steps": 5}
    loss = {"name": "star", "temperature": 0.05}
    train = {"loss": loss, "options": {**options, "negatives_per_query": 1}}
    source = {"name": "pydocs", "max_passages": 3000, "test_share": 0.3}
    table = {**STATIC, "name": "packaged:all-MiniLM-L6-v2", "encoder": "static"}
    model = table if preset == "minilm" else STATIC
    book = Book("Negatives compared, five seeds", source, model, {"train": train}, seeds=[1, 2, 3, 4, 5])
    book.bm25(language="auto")
    book.start()
    book.tables({}, ["In-Batch Neg", "STAR"], ["mrr@10", "ndcg@10", "recall@100"])
    static = book.mined("static-negatives", "start-index")
    book.change("start-train", positives=True)
    inbatch: Tree = {"loss": {"name": "ranknet", "pairs": "all"}, "options": {"negatives_per_query": 0}}
    book.system("inbatch-neg", "In-Batch Neg", **inbatch)
    book.system("star", "STAR", negatives=static)
    book.row("BM25", "bm25")
    book.row("as shipped", "start-test")
    # Masks documents that a model trained on in-batch negatives scores above the positive.
    masked: Tree = {"guide": "inbatch-neg-index", "guided_mask": {"margin": 0.0}}
    book.system("gist", "STAR, GIST mask", negatives=static, **masked)
    # Filters and draws.
    below: Tree = {"name": "pos-percent", "share": 0.95, "depth": 200, "count": 200}
    simans: Tree = {"name": "simans", "count": 50, "sharpness": 100.0}
    book.system("simans", "SimANS", negatives=mined(book, "ambiguous", miner=simans))
    book.system("pos-percent", "pos-percent .95", negatives=mined(book, "below", miner=below))
    filled = mined(book, "below-filled", miner=below, fill_to=200)
    book.system("filled", "pos-percent .95, filled", negatives=filled)
    # Negatives of the current model.
    refresh = {"policy": "synchronous", "every": 15, "depth": 200, "negatives": 20}
    own = {**options, "learning_rate": 0.03, "negatives_per_query": 1}
    book.system("ance", "ANCE", "train-refreshed", negatives=static, loss=loss, refresh=refresh, options=own)
    for number, lists in teleported(book, "start-train"):
        union = {"name": "union", "count": 60 * number}
        negatives = book.add(f"tele-negatives-{number}", "mine", runs=lists, miner=union)
        label = "ANCE-Tele" if number == 3 else f"ANCE-Tele, round {number}"
        book.system(f"tele-{number}", label, negatives=negatives)
    # TAS-B's batches.
    topics: Tree = {"batches": {"name": "topic-balanced", "clusters": 20}, "batches_from": "start-index"}
    book.system("topics", "STAR, TAS-B batches", negatives=static, **topics)
    # Query encoder only, on STAR's index.
    adore: Tree = {"model": "star", "index": "star-index", "loss": {"name": "lambda", "cut": 200, "temperature": 0.05}}
    book.system("adore", "ADORE on STAR", "train-queries", **adore, options={**options, "learning_rate": 0.01})
    book.top["outputs"] = {"model": "star", "index": "star-index"}
    return book.tree()


def written_queries(preset: DemoOrFull = "demo", writers: dict[str, list[str]] | None = None) -> Tree:
    """Retrievers trained only on generated queries and evaluated on real ones, compared with training on labels.

      hardneg recipe run written-queries --set "writers={heading: [heading]}"              where passages have titles

    Rows are named after the writer. `mix, random negatives` has no hard negatives, to show what they add; `labels` is
    the upper bound. Source: Lee et al., ACL 2019, and Izacard et al., TMLR 2022, for the writers. Expected: labels gain
    .1 to .28 MRR@10, and written queries up to two thirds of that; BM25 remains better
    (docs/results/written-queries.md). The best learning rate is .003 to .03, depending on the collection.
    """
    book = small_study("Written queries", preset)
    book.start()
    book.add("bm25", "index", backend="bm25")
    book.add("bm25-test", "search", index="bm25")
    table(book, baselines=["as shipped", "mix, random negatives"])
    own = {"inverse-cloze": ["inverse-cloze"], "crop": ["crop"], "mix": ["inverse-cloze", "crop"]}
    for name, chosen in {**own, **(writers or {})}.items():
        written = book.add(f"written-{name}", "write-queries", writers=chosen, dev_share=0, test_share=0)
        run = book.add(f"run-{name}", "search", index="start-index", split="train", depth=210, dataset=written)
        kept = book.add(f"kept-{name}", "round-trip", run=run, depth=20, dataset=written)
        negatives = mined(book, f"negatives-{name}", runs={"dense": kept}, dataset=kept)
        book.system(f"trained-{name}", name, negatives=negatives, dataset=kept)
    drawn = book.add("random-negatives", "mine", miner={"name": "random", "count": 10}, dataset="kept-mix")
    book.system("trained-random", "mix, random negatives", negatives=drawn, dataset="kept-mix")
    book.system("labelled", "labels", negatives=labelled_negatives(book, "labelled-negatives"))
    book.row("as shipped", "start-test")
    book.row("BM25", "bm25-test")
    book.top["outputs"] = {"model": "trained-mix", "index": "trained-mix-index"}
    return book.tree()
