"""Every built-in verb keeps the contract of verbs."""

from hardneg.registry import load_plugin, plugin_names
from hardneg.testing import StageTests

_VECTORS, _RUN, _OTHER = "some-index", "some-run", "other-run"
_RERANKER = {"name": "cross-encoder", "source": "somebody/some-model"}
_MAPPINGS = {
    "analyze": {"analysis": {"overlap": {"runs": {"a": _RUN, "b": _OTHER}}}},
    "dataset": {"loader": "pydocs"},
    "encode": {},
    "evaluate": {"runs": {"row": _RUN}},
    "fuse": {"runs": {"one": _RUN, "two": _OTHER}},
    "import": {"vectors": "some-file"},
    "index": {"backend": "sq8", "vectors": _VECTORS},
    "label": {"run": _RUN, "scores": _OTHER},
    "mine": {"miner": "topk", "runs": {"dense": _RUN}},
    "model": {"model": "somebody/some-model"},
    "report": {"evaluation": "some-scores"},
    "rerank": {"reranker": "some-reranker", "run": _RUN},
    "round-trip": {"run": _RUN},
    "search": {"index": _VECTORS},
    "train": {"negatives": "some-negatives", "loss": "star", "options": {"max_steps": 9}},
    "train-queries": {"index": _VECTORS, "loss": {"name": "lambda", "cut": 9}, "options": {"max_steps": 9}},
    "train-refreshed": {"loss": "nll", "refresh": {"every": 3}, "options": {"max_steps": 9}},
    "write-queries": {"writers": ["inverse-cloze", {"name": "crop", "words": 20}]},
    "train-reranker": {"reranker": _RERANKER, "negatives": "some-negatives", "options": {"max_steps": 9}},
}


def _of(verb: str) -> type[StageTests]:
    body = {"stage": load_plugin("stages", verb), "mapping": {"stage": verb, **_MAPPINGS[verb]}}
    return type(f"Test{verb.title().replace('-', '')}", (StageTests,), body)


globals().update({kind.__name__: kind for kind in map(_of, _MAPPINGS)})


def test_no_verb_of_ours_is_left_out() -> None:
    modules = {name: load_plugin("stages", name).__module__ for name in plugin_names("stages")}
    assert {name for name, module in modules.items() if module.startswith("hardneg.stages.")} == _MAPPINGS.keys()
