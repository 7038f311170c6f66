"""ADORE on compressed indexes: Tables 3 and 5 of Zhan et al., SIGIR 2021."""

from hardneg_papers.adore import adore_on, adoring
from hardneg_papers.book import Book, DemoOrPaper, Tree

_SIZES = ("6", "12", "24", "48", "96")
_ADORE = {"flat": "adore-bm25-neg", **{size: f"adore-pq{size}" for size in _SIZES}}
"""The stages of ADORE, by the index on which it is trained."""
_INDEXES = {"flat": "bm25-neg-index", **{size: f"pq{size}" for size in _SIZES}}
_OTHERS = {"OPQ 48": "opq48", "IVFPQ 48": "ivfpq48", "SQ8": "sq8", "FP16": "fp16"}
_LARGE = ("24", "48", "96")


def adore_pq(preset: DemoOrPaper = "demo") -> Tree:
    """ADORE trained on the compressed index that is later searched.

    `hardneg recipe run adore-pq` takes half an hour on one core. Source: Zhan et al., SIGIR 2021, sections 6.2.3 and
    8.4.2, Tables 3 and 5; JPQ (which also trains centroids): CIKM 2021. Expected from the paper preset, MRR@10 on the
    dev queries (not run by us): trained and searched on 24, 48 and 96 subvectors .247, .283, .291; searched without
    compression .324, .327, .326; trained and searched without it .329. Systems are named "trained on → searched on":
    flat is no compression, 24 is PQ with 24 subvectors, `it` is the index of the row.
    """
    paper = preset == "paper"
    book = adore_on("bm25-neg", preset)
    book.top["title"] = "ADORE on compressed indexes"
    _add_indexes(book, paper)
    own = {"model": "bm25-neg", **adoring("bm25-neg", paper)}
    for index in ("pq6", "pq12", "pq24", "pq48", "pq96", "opq48"):
        book.add(f"adore-{index}", "train-queries", index=index, **own)
    book.add("jpq48", "train-queries", index="opq48", centroids="trained", **own)
    _add_searches(book)
    shown = {"BM25 Neg → 48": "bm25-neg-48", "flat → 48": "flat-48", "48 → 48": "48-48", "OPQ 48 → OPQ 48": "opq-opq"}
    for label, run in {**shown, "JPQ 48": "jpq-jpq"}.items():
        book.row(label, run)
    book.change("scores", baselines=["flat → 48", "ADORE+BM25 Neg"])
    for label, name in {"ADORE 48": "adore-pq48", "ADORE OPQ 48": "adore-opq48", "JPQ 48": "jpq48"}.items():
        book.row(label, name, "report", "training")
    _add_tables(book)
    if paper:
        _add_test_queries(book)
    book.top["outputs"] = {"model": "adore-pq48", "index": "pq48"}
    return book.tree()


def _add_indexes(book: Book, paper: bool) -> None:
    lists = {"lists": 4096, "nprobe": 64, "sample": 200000} if paper else {"lists": 64, "nprobe": 16}
    backends = {f"pq{size}": {"name": "pq", "subvectors": size} for size in (6, 12, 24, 48, 96)}
    opq = {"name": "opq-pq", "subvectors": 48, "iterations": 50 if paper else 10}
    ivfpq = {"name": "ivfpq", "subvectors": 48, **lists}
    for name, backend in {**backends, "opq48": opq, "ivfpq48": ivfpq, "sq8": "sq8", "fp16": "fp16"}.items():
        book.add(name, "index", vectors="bm25-neg-index", backend=backend)


def _add_searches(book: Book) -> None:
    """Add searches of the initial model and of ADORE's models, named `trained on-searched on`, and their table.

    ADORE is searched on the index of its training, without compression, and on another index; JPQ on its own index.
    """
    runs = {"BM25 Neg → flat": "bm25-neg-test"}
    for size in _SIZES:
        runs[f"BM25 Neg → {size}"] = book.add(f"bm25-neg-{size}", "search", index=_INDEXES[size])
    for label, index in _OTHERS.items():
        runs[f"BM25 Neg → {label}"] = book.add(f"bm25-neg-{index.removesuffix('48')}", "search", index=index)
    pairs = [(trained, searched) for trained in (*_LARGE, "flat") for searched in (*_LARGE, "flat")]
    for trained, searched in [*pairs, ("6", "6"), ("6", "flat"), ("12", "12"), ("12", "flat")]:
        run = "adore-bm25-neg-test"
        if trained != "flat" or searched != "flat":
            index, model = _INDEXES[searched], _ADORE[trained]
            run = book.add(f"{trained}-{searched}", "search", index=index, model=model)
        runs[f"{trained} → {searched}"] = run
    runs["OPQ 48 → OPQ 48"] = book.add("opq-opq", "search", index="opq48", model="adore-opq48")
    runs["OPQ 48 → flat"] = book.add("opq-flat", "search", index="bm25-neg-index", model="adore-opq48")
    runs["JPQ 48"] = book.add("jpq-jpq", "search", index="jpq48")
    for label, index in _OTHERS.items():
        name = f"flat-{index.removesuffix('48')}"
        runs[f"flat → {label}"] = book.add(name, "search", index=index, model="adore-bm25-neg")
    book.add("cells", "evaluate", metrics=["mrr@10", "ndcg@10"], runs=runs)


def _add_tables(book: Book) -> None:
    rows: Tree = {size: {at: f"{size} → {at}" for at in (*_LARGE, "flat")} for size in (*_LARGE, "flat")}
    axes = ["trained on", "searched on"]
    book.add("table3", "analyze", analysis={"matrix": {"evaluation": "cells", "axes": axes, "rows": rows}})

    def ways(size: str, own: str, flat: bool = True) -> Tree:
        beside = {"flat → it": f"flat → {size}"} if flat else {}
        return {"BM25 Neg → it": f"BM25 Neg → {size}", **beside, "it → it": own, "it → flat": f"{size} → flat"}

    rows = {size: ways(size, f"{size} → {size}", size not in ("6", "12")) for size in _INDEXES}
    rows["OPQ 48"] = ways("OPQ 48", "OPQ 48 → OPQ 48")
    others = {label: index for label, index in _OTHERS.items() if index != "opq48"}
    untrained = {it: {"BM25 Neg → it": f"BM25 Neg → {it}", "flat → it": f"flat → {it}"} for it in others}
    rows = {**rows, "JPQ 48": {"it → it": "JPQ 48"}, **untrained}
    matrix = {"evaluation": "cells", "axes": ["index", "trained on → searched on"], "rows": rows}
    sizes = {"indexes": {**_INDEXES, "OPQ 48": "opq48", "JPQ 48": "jpq48", **others}}
    costs = {"methods": {**_ADORE, "OPQ 48": "adore-opq48", "JPQ 48": "jpq48"}}
    book.add("table5", "analyze", analysis={"sizes": sizes, "costs": costs, "matrix": matrix})
    book.change("report", analyses={"Table 3": "table3", "Table 5": "table5"})


def _add_test_queries(book: Book) -> None:
    """Add "Test NDCG@10" of Table 5: trained on each index, searched without compression, on TREC 2019 DL queries."""
    models = {**{size: _ADORE[size] for size in _ADORE if size != "flat"}, "OPQ 48": "adore-opq48"}
    runs = {}
    for label, model in {**models, "flat": _ADORE["flat"]}.items():
        name = f"{'opq' if label == 'OPQ 48' else label}-flat-dl"
        runs[f"{label} → flat"] = book.add(name, "search", index="bm25-neg-index", model=model, split="test")
    book.add("dl-cells", "evaluate", split="test", metrics=["ndcg@10"], runs=runs)
    rows = {label.removesuffix(" → flat"): {"it → flat": label} for label in runs}
    matrix = {"evaluation": "dl-cells", "axes": ["index", "trained on → searched on"], "rows": rows}
    book.add("table5-test", "analyze", analysis={"matrix": matrix})
    book.change("report", analyses={"Table 5, test": "table5-test"})
