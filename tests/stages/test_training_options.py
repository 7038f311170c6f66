"""The options of the training verbs are said once, in groups; and what stages are estimated to take."""

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import pytest

from hardneg.encoders.open.contract import BASE, Shape
from hardneg.encoders.spec import AdapterSpec, FullSpec
from hardneg.records import PluginSetting
from hardneg.registry import list_plugins, load_plugin, plugin_options
from hardneg.stages import Sizes, StageSpec, encoding, train, training
from hardneg.stages.train import Train
from hardneg.stages.training import OptionGroup, TrainConfig
from hardneg.training import options as run_options
from hardneg.training.options import LearningOptions

VERBS: list[type[OptionGroup]] = [
    kind
    for kind in (load_plugin("stages", plugin.name) for plugin in list_plugins("stages"))
    if issubclass(kind, TrainConfig)
]
GROUPS = [
    each
    for each in {**vars(training), **vars(train)}.values()
    if isinstance(each, type)
    and issubclass(each, OptionGroup)
    and {"stage"}.isdisjoint(vars(each).get("__annotations__", ["stage"]))
]
RUN_GROUPS = [
    each for each in vars(run_options).values() if isinstance(each, type) and issubclass(each, LearningOptions)
]


def own(kind: type[Any]) -> set[str]:
    """The fields that a class declares itself."""
    known = kind.model_fields if issubclass(kind, OptionGroup) else kind.__dataclass_fields__
    return {name for name in vars(kind).get("__annotations__", {}) if name in known}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_the_options_of_its_groups_and_its_own(verb: type[OptionGroup]) -> None:
    groups = [each for each in verb.__mro__ if each in GROUPS]
    assert groups and {*verb.model_fields} == own(verb).union(StageSpec.model_fields, *map(own, groups))
    run = verb.model_fields["options"].annotation
    names = {each.name for each in fields(LearningOptions)}
    assert isinstance(run, type) and {each.name for each in fields(run)} >= names


def test_an_option_is_declared_by_one_group() -> None:
    assert len(GROUPS) > 5 and len(RUN_GROUPS) > 2 and len(VERBS) > 3
    for one, other in combinations(GROUPS, 2):
        assert own(one) & own(other) <= {"options"}
    told_anew = {"negatives_per_query", "learning_rate"}  # of the reranker, with other defaults
    for one, other in combinations(RUN_GROUPS, 2):
        assert own(one) & own(other) <= told_anew
    for verb in VERBS:
        assert {name for group in GROUPS if issubclass(verb, group) for name in own(group)} & own(verb) <= {
            "options",
            "loss",
        }


def test_every_option_is_explained() -> None:
    silent = {row["name"] for verb in VERBS for row in plugin_options(verb) if not row["meaning"]}
    silent |= {each.name for kind in RUN_GROUPS for each in fields(kind) if not each.metadata.get("help")}
    assert not silent


_MODEL = FullSpec("tested", similarity="dot", query_length=10, document_length=100)
_VECTORS = Sizes(1_000_000, {}, _MODEL, BASE)


def test_an_index_of_a_million_documents_takes_its_vectors() -> None:
    assert encoding(None, _VECTORS).disk == 1_000_000 * (768 * 4 + 20)


def test_weights_take_a_number_a_term_twice_and_are_there_twice_for_a_moment() -> None:
    sizes = replace(_VECTORS, form="weights")
    assert encoding(None, sizes).disk == 1_000_000 * (2 * (120 * 4 * 2 + 8) + 20)


def test_token_vectors_take_one_a_token() -> None:
    sizes = replace(_VECTORS, form="token-vectors")
    assert encoding(None, sizes).disk == 1_000_000 * (60 * 768 * 4 + 20)


SIZES = Sizes(100, {"train": 50}, FullSpec("m"), Shape(hidden=100, layers=2, weights=4_000_000))


def test_an_adapter_has_few_weights_with_a_state() -> None:
    adapted = replace(SIZES, model=FullSpec("m", adapter=AdapterSpec(rank=4)))
    learning = 4 * 4 * 2 * 18 * 100  # float32, rank, layers, sizes of six pairs of matrices
    spec = Train(stage="train", loss=PluginSetting("infonce"), negatives="mined")
    whole, few = (spec.estimate(sizes) for sizes in (SIZES, adapted))
    assert whole.disk == 4 * 4_000_000 and few.disk == 4_000_000 + 3 * learning
