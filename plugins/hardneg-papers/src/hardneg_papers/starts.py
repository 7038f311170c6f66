"""Starting points of recipes: docstrings for demos, MS MARCO passages or documents for papers."""

from collections.abc import Iterator
from typing import Any

from hardneg_papers.book import Book, Tree, deep

DOCSTRINGS = {"name": "pydocs", "max_passages": 6000, "dev_share": 0.055, "test_share": 0.12}
"""The dataset of the presets `small` and of some demos: `pydocs` with its default options."""
BY_START: Tree = {"validation_run": "start-dev", "validation": {"split": "dev", "depth": 10, "queries": 150}}
"""Training options of demos for validation on 150 dev queries, in a pool of the start model's top 10 documents."""
WARM_UP: Tree = {
    "max_steps": 60000,
    "batch_size": 32,
    "weight_decay": 0.0,
    "decay": "constant",
    "checkpoint_every": 2000,
}
"""Training options for the warm-up on BM25's negatives, as in the papers on STAR and ANCE."""
INBATCH = {"name": "ranknet", "pairs": "all"}
"""The loss of In-Batch Neg: RankNet over all documents of the batch."""

READER: Tree = {
    "reader": {"name": "packaged:all-MiniLM-L6-v2", "length": 160},
    "depth": 50,
    "options": {"batch_size": 8, "negatives_per_query": 5, "max_steps": 200, "learning_rate": 2e-4},
}
"""Options for training a reader in demos."""
_DPRS: Tree = {"batch_size": 2, "accumulate": 8, "negatives_per_query": 23, "epochs": 20, "learning_rate": 1e-5}
DPRS_READER: Tree = {
    "reader": {"name": "google-bert/bert-base-uncased", "length": 350},
    "depth": 100,  # DPR's: 24 of the first 100 passages are read
    "validation": {"depth": 50, "queries": 500},
    # 16 questions a step; DPR's learning rate is unchanged.
    "options": {**_DPRS, "weight_decay": 0.0, "warmup_ratio": 0.0, "decay": "constant", "evaluate_every": 10000},
}
"""Options for training the reader of DPR."""


def docstrings(title: str, dataset: Any = "pydocs", validated: bool = False, **model: Any) -> Book:
    """Return a book for a demo: docstrings, BM25, the start model, and a table with these two systems.

    validated: whether to validate training runs on dev queries; see `BY_START`. model: options that replace defaults.
    """
    whole = {"name": "packaged:all-MiniLM-L6-v2", "query_length": 128, "document_length": 128, **model}
    options = {"max_steps": 100, "batch_size": 24, "learning_rate": 5e-5, "warmup_steps": 10}
    train: Tree = {"loss": {"temperature": 0.05}, "options": options}
    if validated:
        train = deep(train, BY_START, {"options": {"evaluate_every": 50}})
    book = Book(title, dataset, whole, {"train": train})
    book.bm25()
    book.start()
    runs = {"BM25": "bm25", "as shipped": "start-test"}
    book.tables(runs, ["as shipped", "BM25"], ["mrr@10", "ndcg@10", "recall@100"])
    if validated:
        book.add("start-dev", "search", index="start-index", split="dev", depth=50)
    return book


def msmarco(title: str, **model: Any) -> Book:
    """Return a book for a paper preset: MS MARCO passages, BM25 with a table, and the authors' training options.

    There is no row for the start model, because RoBERTa and BERT cannot rank before training.
    """
    whole = {"query_prompt": "", "document_prompt": "", "similarity": "dot", "query_length": 32, "document_length": 120}
    options = {"optimizer": "lamb", "learning_rate": 2e-4, "warmup_steps": 1000, "warmup_from_zero": True}
    options |= {"evaluate_every": 10000, "keep_best": False}
    validation = {"split": "dev", "depth": 50, "queries": 1000}
    train = {"validation_run": "bm25", "validation": validation, "options": options}
    defaults: Tree = {"search": {"split": "dev"}, "evaluate": {"split": "dev"}, "train": train}
    # MTEB's commit; its splits train, dev (6,980 queries) and test (the 43 of TREC 2019 DL) are the papers'.
    source = {"name": "hf", "source": "mteb/msmarco", "revision": "c5a29a104738b98a9e76336939199e264163d4a0"}
    sizes = {"documents": 8841823, "queries": {"train": 502939, "dev": 6980}}
    book = Book(title, source, {**whole, **model}, defaults, sizes=sizes)
    book.bm25(k1=0.82, b=0.68)  # Anserini's, tuned on MS MARCO passages
    book.tables({"BM25": "bm25"}, ["BM25"], ["mrr@10", "recall@100"])
    return book


def roberta(title: str) -> Book:
    """Return a book for STAR, ADORE or ANCE: MS MARCO and RoBERTa with a new head, trained at temperature 1."""
    book = msmarco(title, name="FacebookAI/roberta-base", pooling="cls", projection=768, layer_norm=True)
    book.defaults["train"]["loss"] = {"temperature": 1.0}
    return book


def passages(title: str, preset: str) -> Book:
    """Return a book for RoBERTa on MS MARCO in the preset `paper`, else for a demo with validation on dev queries."""
    return roberta(title) if preset == "paper" else docstrings(title, validated=True)


def documents(book: Book, preset: str) -> None:
    """Switch a book to documents: MS MARCO documents in the preset `paper`, else docstrings of up to 256 tokens."""
    book.top["model"]["document_length"] = 512 if preset == "paper" else 256
    if preset == "paper":
        names = {"train": "train", "dev": "dev", "test": "trec-dl-2019/judged"}
        splits = {split: f"msmarco-document/{name}" for split, name in names.items()}
        book.top["dataset"] = {"name": "ir-datasets", "source": "msmarco-document", "splits": splits}
        book.top["sizes"] = {"documents": 3213835, "queries": {"train": 367013, "dev": 5193, "test": 43}}


def trained(title: str, folder: str) -> Book:
    """Return a book for training on MS MARCO that starts from the model in `folder`, trained by another recipe."""
    book = roberta(title)
    model = book.top["model"]
    del model["pooling"], model["projection"], model["layer_norm"]
    model["name"] = folder
    return book


def rand_neg(book: Book, paper: bool) -> None:
    """Add Rand Neg, with negatives from the whole corpus; each query is compared with all negatives of its batch."""
    negatives = book.add("random-negatives", "mine", miner={"name": "random", "count": 200})
    # The paper does not give the number of steps: 100,000 is our choice.
    options = {"max_steps": 100000, "batch_size": 256, "gradient_checkpointing": True} if paper else {}
    loss = {"name": "ranknet", "pairs": "mined"}
    book.system("rand-neg", "Rand Neg", negatives=negatives, loss=loss, options=options)


def inbatch_neg(book: Book, paper: bool) -> None:
    """Add In-Batch Neg, with the positives of other queries as negatives."""
    steps = {"max_steps": 100000, "batch_size": 256} if paper else {}  # as of Rand Neg
    book.system("inbatch-neg", "In-Batch Neg", loss=INBATCH, options={"negatives_per_query": 0, **steps})


def bm25_neg(book: Book, paper: bool) -> None:
    """Add BM25 Neg: static hard negatives from the top of BM25."""
    negatives = book.mined("bm25-negatives", "bm25-index", "bm25")
    loss = {"name": "ranknet", "pairs": "own"}
    book.system("bm25-neg", "BM25 Neg", negatives=negatives, loss=loss, options=WARM_UP if paper else {})


def teleported(book: Book, first: str = "") -> Iterator[tuple[int, dict[str, str]]]:
    """Add the searches of ANCE-Tele's three rounds; yield each round's number and the searches to mine, by label.

    Each round searches for the queries (ANN) and for the texts of their positives (lookahead) with the current model.
    Searches of earlier rounds (momentum) are mined again, after these. The caller must add the model `tele-N` of round
    N before it asks for the next round. first: an existing search for the queries to use in round 1.
    """
    lists: dict[str, str] = {}
    for number in (1, 2, 3):
        index = "start-index" if number == 1 else f"tele-{number - 1}-index"
        searched: Tree = {"index": index, "split": "train", "depth": 200}
        ann, ahead = f"ann-{number}", f"ahead-{number}"
        run = first if first and number == 1 else book.add(ann, "search", **searched)
        lists = {ann: run, book.add(ahead, "search", **searched, text_of="positive"): ahead, **lists}
        yield number, lists
