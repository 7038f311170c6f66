"""The functions `encode`, `index`, `search`, `rerank` and `fuse`, which build indexes and write runs."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Unpack

from hardneg import evaluation, formats
from hardneg.evaluation.fusion import RRF_CONSTANT, Fusion, Method, Missing, Norm
from hardneg.functions import arguments, given, results
from hardneg.functions.arguments import AnyQrels, Arg, Runs, Where, spelled_out, stage
from hardneg.functions.evaluate import RELEVANCE
from hardneg.functions.results import RankedRun, source_of_runs
from hardneg.functions.session import ENCODED, SEARCHED, Session, model_name
from hardneg.records import errors, layout, suggestion, types
from hardneg.registry import configure, load_plugin, plugin_errors
from hardneg.runtime import Progress
from hardneg.store import Artifact, Content, file_digest, plugin_identity, tree_digest

_LISTED, _LISTED_RUN, _RERANKED = "candidates-index", "candidates", "reranked"
_AT_ONCE = 65_536

Backend = Annotated[
    arguments.Setting | None, arguments.Arg("A text index, such as bm25, instead of a model.", plugin="indexes")
]
Candidates = Annotated[
    arguments.Setting | None,
    arguments.Arg("A text index, such as bm25; the model ranks only its top documents.", plugin="indexes"),
]
Reranker = Annotated[
    arguments.Setting,
    arguments.Arg("A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID.", plugin="rerankers"),
]


@arguments.spelled_out
def search(
    dataset: arguments.Dataset | None = None,
    model: arguments.Model | None = None,
    *,
    backend: Backend = None,
    index: arguments.VectorIndex | None = None,
    query_vectors: arguments.VectorFile | None = None,
    query_ids: arguments.VectorIds | None = None,
    split: arguments.Split = None,
    depth: Annotated[int, arguments.Arg("Number of documents per query.", least=1)] = layout.LIST_DEPTH,
    candidates: Candidates = None,
    **where: Unpack[arguments.Where],
) -> results.RankedRun:
    """Search a corpus with the queries of a split, or an index with query vectors, and write a TREC run.

    Raises:
        UsageError: the call does not give exactly one of a model, a backend, or an index with query vectors.

    Example: hardneg search --dataset beir:FOLDER --model NAME --split test --output run.trec.gz

    Example: hardneg search --index FOLDER --query-vectors queries.parquet --output run.trec.gz
    """
    session, searched = Session.of(where, search), arguments.stage("search", {"depth": depth})
    if vectors := QueryVectors.of("search", index, query_vectors, query_ids):
        if any(each is not None for each in (dataset, model, backend, candidates)):
            problem = "search: with {index} and {query_vectors}, omit dataset, model, backend and candidates"
            raise errors.UsageError(problem, "index", "query_vectors")
        session.begin(None, vectors.reads)
        found, count = vectors.kept_run(session, depth)
        return results.RankedRun(
            vectors.queries.stem, found.key, found.path / layout.RUN, {"queries": count}, session.store, None
        )
    if dataset is None or (model is None) == (backend is None):
        problem = "search: give {dataset}, and either {model} or {backend}"
        raise errors.UsageError(problem, "dataset", "model", "backend")
    if candidates is not None and model is None:
        raise errors.UsageError("search: {candidates} needs {model} to rank them", "candidates", "model")
    searched["split"] = split = split or given.split_of(dataset, "test")
    encoded: Any = {"stage": "encode"} if backend is None else arguments.stage("index", {"backend": backend})
    name = model_name(model) if backend is None else encoded["backend"]["name"]
    stages: dict[str, dict[str, Any]] = {ENCODED: encoded, SEARCHED: {**searched, "index": ENCODED}}
    if candidates is not None:
        stages[_LISTED] = arguments.stage("index", {"backend": candidates}, {"backend": _LISTED_RUN})
        stages[_LISTED_RUN] = {**searched, "index": _LISTED}
        stages[SEARCHED]["candidates"] = _LISTED_RUN
    recipe = session.recipe(search, dataset, model, stages, {f"{_LISTED}.backend": _LISTED_RUN})
    artifacts = session.artifacts(session.begin(recipe))
    run, source = artifacts[SEARCHED], results.TextSource(artifacts[layout.DATASET].path, split, session.store)
    return results.RankedRun(name, run.key, run.path / layout.RUN, run.facts, session.store, source)


@arguments.spelled_out
def rerank(
    dataset: arguments.Dataset,
    run: Annotated[arguments.AnyRun, arguments.Arg("The TREC run to rerank, plain or gzipped.", cli=Path)],
    reranker: Reranker,
    *,
    split: arguments.Split = None,
    depth: Annotated[int, arguments.Arg("Number of top documents to rerank per query.", least=1)] = layout.LIST_DEPTH,
    **where: Unpack[arguments.Where],
) -> results.RankedRun:
    """Rerank the top documents of a run with a model that reads a query and a document together.

    Raises:
        RecipeError: the reranker or one of its options is unknown.
        DataError: the run is malformed, or has no queries of the split.

    Example: hardneg rerank --dataset beir:FOLDER --run run.trec.gz --reranker cross-encoder:MODEL --output best.trec.gz
    """
    session, split = Session.of(where, rerank), split or given.split_of(dataset, "test")
    reranked = arguments.stage("rerank", {"plugin": reranker, "split": split, "depth": depth}, {"plugin": "reranker"})
    file, plugin = given.run_file(run, session.store), reranked["plugin"]
    stages = {  # the search is a placeholder for the given run
        ENCODED: {"stage": "index", "backend": layout.BM25},
        SEARCHED: {"stage": "search", "index": ENCODED, "split": split},
        _RERANKED: {**reranked, "run": SEARCHED},
    }
    recipe = session.recipe(rerank, dataset, None, stages, {f"{_RERANKED}.plugin": "reranker"})
    plan = session.begin(recipe, [file])
    collection = session.make_dataset(plan)
    artifact, facts = session.make_from(plan, _RERANKED, collection, {"run": file})
    name, source = plugin.get("source", plugin["name"]), results.TextSource(collection.path, split, session.store)
    return results.RankedRun(str(name), artifact.key, artifact.path / layout.RUN, facts, session.store, source)


@dataclass(frozen=True)
class QueryVectors:
    """An index folder, a file of query vectors and, if the ids are separate, a file of query ids."""

    index: Path
    queries: Path
    ids: Path | None

    @classmethod
    def of(cls, line: str, index: Any, query_vectors: Any, query_ids: Any) -> "QueryVectors | None":
        """Return the given paths, or None if there are none. line: the command to name in errors.

        Raises UsageError if the index or the query vectors are missing.
        """
        named = {"index": index, "query_vectors": query_vectors, "query_ids": query_ids}
        paths = {name: arguments.file_path(value, name) for name, value in named.items() if value is not None}
        if not paths:
            return None
        if lacking := [name for name in ("index", "query_vectors") if name not in paths]:
            problem = f"{line}: {{index}} and {{query_vectors}} must be used together; give {{{lacking[0]}}} too"
            raise errors.UsageError(problem, "index", "query_vectors")
        return cls(paths["index"], paths["query_vectors"], paths.get("query_ids"))

    @property
    def reads(self) -> list[Path]:
        """The input files and folders."""
        return [path for path in (self.index, self.queries, self.ids) if path is not None]

    def kept_run(self, session: Session, depth: int, name: str = layout.RUN) -> tuple[Artifact, int]:
        """Search with all query vectors, in file order; return the run's artifact and the number of queries.

        name: the name of the run file in the artifact.

        Raises:
            ArtifactError: the index is missing or damaged.
            DataError: vectors are missing or malformed, or an id is repeated.
            UsageError: the vectors and the index have different dimensions.
        """
        from hardneg.indexes.exact import ExactOptions, FlatSearcher
        from hardneg.indexes.open_store import DenseIndex

        index, file, counts = (
            DenseIndex.open(self.index),
            formats.vectors_import.open_vectors(self.queries, self.ids),
            list[int](),
        )
        if file.dimension != index.dimension:
            problem = f"has dimension {file.dimension}, but {self.index} has {index.dimension}"
            raise errors.UsageError(f"{self.queries}: {problem}; encode the queries with the model of the index")
        searcher = index.searcher
        if isinstance(searcher, FlatSearcher):
            searcher = replace(searcher, options=ExactOptions(device=session.device), progress=session.progress)

        def lists(queries: formats.vectors.FlatVectors) -> Iterator[tuple[str, types.RankedList]]:
            for start in range(0, len(queries), _AT_ONCE):
                stop = min(start + _AT_ONCE, len(queries))
                hits = searcher.search(queries.read(start, stop), min(depth, len(index.doc_ids)))
                for query_id, rows, scores in zip(queries.doc_ids[start:stop], hits.rows, hits.scores, strict=True):
                    there = rows >= 0
                    yield query_id, types.RankedList([index.doc_ids[row] for row in rows[there]], scores[there])

        def write(folder: Path) -> None:
            with TemporaryDirectory() as aside:
                counts.append(formats.vectors_import.import_vectors(file, Path(aside), session.progress))
                formats.runs.write_run(folder / name, lists(formats.vectors.FlatVectors.open(Path(aside))))

        return given.keep_content(session.store, "given-run", write), counts[0]


Vectors = Annotated[
    str | Path | Any,
    arguments.Arg("A folder of vectors or weights to index, instead of texts.", "the result of `encode`", cli=Path),
]
_BACKEND = arguments.Arg("The type of index; `hardneg plugins list indexes` shows all.", plugin="indexes")


@arguments.spelled_out
def encode(dataset: arguments.Dataset, model: arguments.Model, **where: Unpack[arguments.Where]) -> results.BuiltIndex:
    """Encode a corpus into a dense index for Pyserini's FaissSearcher.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index
    """
    session = Session.of(where, encode)
    plan = session.begin(session.recipe(encode, dataset, model, {ENCODED: arguments.stage("encode", {})}))
    return results.BuiltIndex.of(model_name(model), session.artifacts(plan)[ENCODED])


@arguments.spelled_out
def index(
    dataset: arguments.Dataset | None = None,
    backend: Annotated[arguments.Setting, _BACKEND] = layout.BM25,
    *,
    vectors: Vectors | None = None,
    **where: Unpack[arguments.Where],
) -> results.BuiltIndex:
    """Build an index over the texts of a corpus or over encoded vectors; Pyserini's searchers open most kinds.

    Raises:
        UsageError: the backend is built from a different kind of input.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """
    session, built = Session.of(where, index), arguments.stage("index", {"backend": backend})
    setting, folder = built["backend"], None if vectors is None else arguments.file_path(vectors, "vectors")
    name, takes = setting["name"], load_plugin("indexes", setting["name"]).input
    if (dataset is None) == (folder is None) or (takes == "texts") != (dataset is not None):
        wanted = "{dataset}" if takes == "texts" else f"{{vectors}}, a folder of {takes}"
        problem = f"index build: {name} is built from {takes}; give only {wanted}"
        raise errors.UsageError(problem, "dataset", "vectors")
    if folder is not None:
        return _of_vectors(setting, folder, vectors.key if isinstance(vectors, results.BuiltIndex) else "", session)
    plan = session.begin(session.recipe(index, dataset, None, {ENCODED: built}))
    return results.BuiltIndex.of(name, session.artifacts(plan)[ENCODED])


def _of_vectors(setting: Mapping[str, Any], vectors: Path, key: str, session: Session) -> results.BuiltIndex:
    """Build an index over a folder of vectors; key: the key of their artifact, or empty if the folder is not one."""
    from hardneg.indexes.open_store import form_in

    name, options = setting["name"], {key: value for key, value in setting.items() if key != "name"}
    plugin: Any = configure("indexes", types.PluginSetting(name, options))
    if (form := form_in(vectors)) != plugin.input:
        problem = f"contains {form}" if form else "was not written by `hardneg encode` or `hardneg index import`"
        wanted = f"but {name} is built from {plugin.input}; give a folder of {plugin.input}"
        raise errors.UsageError(f"index build: {vectors} {problem}, {wanted}")
    session.begin(None, [vectors])
    content = Content.of(lambda: key or tree_digest(vectors))
    identity = plugin_identity(name, plugin)
    origin = {"stage": "compressed", "plugins": identity, "inputs": {"vectors": content.digest}, "name": "compressed"}

    def make(folder: Path) -> dict[str, int]:
        with plugin_errors([plugin]):
            count = plugin.build(vectors, folder, session.progress)
        content.check()
        return {"passages": count, "bytes": formats.vectors.index_bytes(folder)}

    return results.BuiltIndex.of(name, given.keep_result(session.store, "index", origin, make))


_log = logging.getLogger("hardneg")

_TUNING = "Tuning"
_METHODS = "zip (alternate between runs), weighted-sum (of scores), reciprocal-rank; ranx's max, mnz, wsum."
_MISSING = "For weighted-sum: score of a document missing from a run, the run's lowest or 0."
_TUNED = "Runs of other queries to tune on, one per fused run, in the same order."
_JUDGED = Arg("Judgements of the queries to tune on.", cli=Path, panel=_TUNING)
_TRIED = "Values to try for a run's weight or for `constant`, in all combinations; default: steps of 0.1."
_GRID = Arg(_TRIED, cli=dict[str, list[float]], metavar="NAME=VALUE,VALUE", panel=_TUNING)
_WEIGHT = Arg("Weight of each run, by label; default: 1.", cli=dict[str, float], flag="weight", metavar="LABEL=VALUE")

TuneRuns = Annotated[Runs | None, Arg(_TUNED, cli=list[Path], flag="tune-run", panel=_TUNING)]
Metric = Annotated[str, Arg("Metric to maximise in tuning.", same=("metrics",), panel=_TUNING, metrics=True)]


@spelled_out
def fuse(
    runs: Runs,
    method: Annotated[Method, Arg(_METHODS)] = "weighted-sum",
    *,
    weights: Annotated[Mapping[str, float], _WEIGHT] = {},
    missing_scores: Annotated[Missing, Arg(_MISSING)] = "lowest",
    constant: Annotated[int, Arg("Constant that reciprocal-rank adds to each rank.", least=0)] = RRF_CONSTANT,
    norm: Annotated[Norm | None, Arg("For ranx's methods: min-max (the default), none, zmuv, ...")] = None,
    depth: Annotated[int, Arg("Number of documents per query.", least=1)] = layout.LIST_DEPTH,
    tune_runs: TuneRuns = None,
    qrels: Annotated[AnyQrels | None, _JUDGED] = None,
    metric: Metric = "ndcg@10",
    relevance_level: Annotated[int, replace(RELEVANCE, panel=_TUNING)] = 1,
    grid: Annotated[Mapping[str, Sequence[float]], _GRID] = {},
    **where: Unpack[Where],
) -> RankedRun:
    """Fuse runs by weighted sums of scores, reciprocal ranks, alternating between runs (zip), or a method of ranx.

    Raises:
        UsageError: a parameter does not apply to the method, or a label is unknown.
        DataError: a run is malformed, or the queries to tune on include queries to fuse.

    Example: hardneg fuse --run cort.trec.gz --run bm25.trec.gz --method zip --depth 1000 --output cort-bm25.trec.gz
    """
    session = Session.of(where, fuse)
    session.refuse_settings()
    fields: dict[str, Any] = {"method": method, "weights": weights, "missing_scores": missing_scores}
    fields |= {"constant": constant, "norm": norm, "depth": depth}
    fields |= {"tuning.metric": metric, "tuning.relevance_level": relevance_level, "tuning.grid": grid}
    return _fused(session, runs, tune_runs, given.named_qrels(qrels), stage("fuse", fields))


def _fused(session: Session, runs: Any, tune_runs: Any, judged: Any, fields: Mapping[str, Any]) -> RankedRun:
    """Fuse runs into the store; fields: the fields of stage `fuse`."""
    files = given.labelled_runs(runs, session.store)
    tuning = given.labelled_runs(tune_runs, session.store) if tune_runs else {}
    fusion, labels = _checked(fields, list(files), tuning, judged), list(files)
    session.begin(None, [*files.values(), *tuning.values(), *([judged] if isinstance(judged, Path) else [])])
    contents = {label: Content.of(partial(file_digest, path)) for label, path in files.items()}
    lists = {label: formats.runs.read_run(path) for label, path in files.items()}
    for content in contents.values():
        content.check()
    query_ids = list(dict.fromkeys(query_id for run in lists.values() for query_id in run))
    tuned: dict[str, str] = {}
    if tuning:
        paths = [tuning[label] for label in labels] if tuning.keys() == files.keys() else list(tuning.values())
        aligned = dict(zip(labels, paths, strict=True))
        fusion, tuned["tuned"] = _tuned(fusion, aligned, judged, query_ids, fields, session.progress)
    inputs = [(label, content.digest) for label, content in contents.items()]
    origin = {"stage": "fused", "options": asdict(fusion), "inputs": inputs, "name": "fused"}

    def make(folder: Path) -> dict[str, int]:
        fused = zip(query_ids, fusion.over(evaluation.fusion.lists_of(list(lists.values()), query_ids)), strict=True)
        listed = ((query_id, ranked) for query_id, ranked in fused if ranked.doc_ids)
        return {
            "queries": len(query_ids),
            "documents": formats.runs.write_run(folder / layout.RUN, listed, tag="fused"),
        }

    result = given.keep_result(session.store, "run", origin, make)
    lacking = {f"queries missing from {label}": len(query_ids) - len(run) for label, run in lists.items()}
    facts = {**result.facts, **tuned, **lacking}
    return RankedRun(fusion.method, result.key, result.path / layout.RUN, facts, session.store, source_of_runs(runs))


def _checked(fields: Mapping[str, Any], labels: Sequence[str], tuning: Mapping[str, Path], judged: Any) -> Fusion:
    """The fusion with its parameters. Raises UsageError for invalid parameters or tuning arguments."""
    if len(labels) < 2:
        raise errors.UsageError("fuse: give at least two {runs}", "runs")
    if unknown := [label for label in fields["weights"] if label not in labels]:
        problem = f"no run has the label {unknown[0]!r}{suggestion(unknown[0], labels)}; available: {', '.join(labels)}"
        raise errors.UsageError(f"{{weights}}: {problem}", "weights")
    weights = tuple(fields["weights"].get(label, 1.0) for label in labels)
    numbers = (fields["constant"], fields.get("norm"), fields["depth"])
    fusion = Fusion(fields["method"], weights, fields["missing_scores"], *numbers)
    if problems := fusion.problems():
        raise errors.UsageError("; ".join(problems))
    if not tuning and (fields["tuning.grid"] or judged is not None):
        problem = "fuse: {grid} and {qrels} are for tuning; give one {tune_runs} per {runs}"
        raise errors.UsageError(problem, "grid", "qrels", "tune_runs", "runs")
    if tuning and len(tuning) != len(labels):
        counts = f"{len(tuning)} {{tune_runs}} for {len(labels)} {{runs}}"
        raise errors.UsageError(f"fuse: {counts}; give one per run, in the same order", "tune_runs", "runs")
    if tuning and judged is None:
        raise errors.UsageError("fuse: {tune_runs} needs {qrels}, the judgements of its queries", "tune_runs", "qrels")
    return fusion


def _tuned(
    fusion: Fusion,
    files: Mapping[str, Path],
    judged: Any,
    query_ids: Sequence[str],
    fields: Mapping[str, Any],
    progress: Progress,
) -> tuple[Fusion, str]:
    """Tune a fusion on development queries; log a line about the best one, and return both."""
    qrels = formats.qrels.read_qrels(judged) if isinstance(judged, Path) else judged
    runs = [formats.runs.read_run(path) for path in files.values()]
    known = evaluation.fusion.Development(
        list(files), runs, qrels, fields["tuning.metric"], fields["tuning.relevance_level"]
    )
    tried = evaluation.fusion.tune(
        fusion, known, fields["tuning.grid"], query_ids, evaluation.metrics.mean_of, progress
    )
    chosen = dict(evaluation.fusion.numbers(tried[0].fusion, list(files)))
    values = ", ".join(f"{name} {value:g}" for name, value in {**chosen.pop("weights", {}), **chosen}.items())
    summary = f"{known.metric} {tried[0].worth:.4f}, best of {len(tried)}: {values}"
    _log.info("tuned: %s", summary)
    return tried[0].fusion, summary
