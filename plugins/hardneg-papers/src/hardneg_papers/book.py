"""A builder for recipes that are written as Python functions and return a tree of plain stages."""

from collections.abc import Mapping
from typing import Any, Literal

from hardneg.plugin import recipes

Tree = dict[str, Any]
DemoOrPaper = Literal["demo", "paper"]
_INSTEAD_OF = {
    "epochs": ("max_steps", "stop_at"),
    "max_steps": ("epochs", "stop_at"),
    "warmup_ratio": ("warmup_steps",),
    "warmup_steps": ("warmup_ratio",),
}
_LAST = ("evaluate", "analyze", "report")


def deep(base: Mapping[str, Any], *changes: Mapping[str, Any]) -> Tree:
    """Return a copy of `base` with `changes` merged recursively; setting `epochs`, for example, removes `max_steps`."""
    out = dict(base)
    for change in changes:
        for other in {other for key in change for other in _INSTEAD_OF.get(key, ())} - change.keys():
            out.pop(other, None)
        for key, value in change.items():
            below = out.get(key)
            out[key] = deep(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return out


class Book:
    """A recipe under construction: its top-level fields, its stages, and default options.

    top: the top-level fields of the tree, such as title, dataset, model, sizes, seeds and outputs. defaults: default
    options of added stages, by verb. searches: the searches that each added system gets, as options by stage-name
    suffix; their keys `row` (a row label, with `{name}` for the system's) and `table` (an evaluation) are not options.
    """

    def __init__(self, title: str, dataset: Any, model: Tree, defaults: Tree | None = None, **top: Any) -> None:
        self.top: Tree = {"title": title, "dataset": dataset, "model": model, **top}
        self.defaults: Tree = defaults or {}
        self.stages: Tree = {}
        self.searches: dict[str, Tree] = {"test": {}}

    @classmethod
    def of(cls, recipe: str, preset: str, title: str) -> "Book":
        """Return a book with the fields and stages of the named recipe, under the given title."""
        tree = recipes.recipe_tree(recipe, preset)
        top = {name: value for name, value in tree.items() if name not in ("title", "dataset", "model", "stages")}
        book = cls(title, tree["dataset"], tree["model"], **top)
        book.stages = tree["stages"]
        return book

    def like(self, name: str, other: str, label: str, **options: Any) -> str:
        """Add a system with the options of `other`, changed by `options`; later systems get the same test search."""
        search = {key: value for key, value in self.stages[f"{other}-test"].items() if key not in ("stage", "index")}
        own = {key: value for key, value in self.stages[other].items() if key != "stage"}
        rows = {key: options.pop(key) for key in ("table", "report") if key in options}
        self.searches = {"test": search}
        return self.system(name, label, self.stages[other]["stage"], **rows, **deep(own, options))

    def add(self, name: str, stage: str, **options: Any) -> str:
        """Add a stage with the default options of its verb, changed by `options`; return its name."""
        self.stages[name] = {"stage": stage, **deep(self.defaults.get(stage, {}), options)}
        return name

    def change(self, name: str, **options: Any) -> None:
        """Merge options into an existing stage."""
        self.stages[name] = deep(self.stages[name], options)

    def bm25(self, **options: Any) -> None:
        """Add the BM25 index `bm25-index`, with the given backend options, and its search `bm25`."""
        self.add("bm25-index", "index", backend={"name": "bm25", **options} if options else "bm25")
        self.add("bm25", "search", index="bm25-index")

    def start(self, **encode: Any) -> None:
        """Add the start model's index `start-index`, with the options `encode`, and its search `start-test`."""
        self.add("start-index", "encode", model="start", **encode)
        self.add("start-test", "search", index="start-index")

    def tables(self, runs: Tree, baselines: list[str], metrics: list[str], end: str = "", title: str = "") -> None:
        """Add the evaluation `scores` and its page `report`; `end` is a suffix of both names, `title` the title."""
        self.add(f"scores{end}", "evaluate", runs=runs, baselines=baselines, metrics=metrics)
        self.add(f"report{end}", "report", evaluation=f"scores{end}", **({"title": title} if title else {}))

    def row(self, label: str, run: str, table: str = "scores", field: str = "runs") -> None:
        """Append a row with the label `label` and the stage `run` to the given field of a table or report."""
        self.stages[table] = {**self.stages[table], field: {**self.stages[table].get(field, {}), label: run}}

    def mined(self, name: str, index: str, label: str = "dense", **options: Any) -> str:
        """Search an index for the training queries and mine the top 200; return the name of the negatives."""
        run = self.add(f"{index.removesuffix('-index')}-train", "search", index=index, split="train", depth=210)
        return self.add(name, "mine", **{"runs": {label: run}, "miner": {"name": "topk", "depth": 200}, **options})

    def system(
        self, name: str, label: str, verb: str = "train", *, table: str = "scores", report: bool = True, **options: Any
    ) -> str:
        """Add a stage that writes a model, with its index, searches and rows; return its name.

        Searches use `index` if given, as for stages that train query encoders, or else a new index of the model.
        table: the evaluation to add rows to; if empty, no rows are added. report: whether to add the training history
        to the page of that table, which is named `report` with the table's suffix.
        """
        self.add(name, verb, **options)
        if "index" in options:
            searched = {"index": options["index"], "model": name}
        else:
            searched = {"index": self.add(f"{name}-index", "encode", model=name)}
        for end, search in self.searches.items():
            own = {key: value for key, value in search.items() if key not in ("row", "table")}
            run = self.add(f"{name}-{end}", "search", **{**searched, **own})
            if table:
                self.row(search.get("row", "{name}").replace("{name}", label), run, search.get("table", table))
        if table and report:
            self.row(label, name, table.replace("scores", "report"), "training")
        return name

    def tree(self) -> Tree:
        """Return the whole recipe, with tables and reports at the end."""
        last = {name: stage for name, stage in self.stages.items() if stage["stage"] in _LAST}
        return {**self.top, "stages": {**{n: s for n, s in self.stages.items() if n not in last}, **last}}
