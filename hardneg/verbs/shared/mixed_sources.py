"""The sources of a training on several collections, opened, and what is said of them."""

from collections.abc import Mapping
from dataclasses import replace

from hardneg.encoders.spec import SIDES
from hardneg.records.wording import counted
from hardneg.registry.protocols import Loss
from hardneg.training.sources import MixedSource, Mixture
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.inputs import open_collection
from hardneg.verbs.shared.mixture_options import ManyCollections
from hardneg.verbs.shared.training_common import examples_of


def mixture_of(context: StageContext[ManyCollections]) -> Mixture:
    """The stage's sources, by the alphabet, so that their order in a recipe does not count."""
    mixing = context.spec.mixing
    sources = {name: _source(context, name) for name in sorted(context.spec.datasets)}
    return Mixture(sources, mixing.temperature, mixing.one_source, context.spec.segments)


def _source(context: StageContext[ManyCollections], name: str) -> MixedSource:
    options, path = context.spec.datasets[name], f"datasets.{name}"
    collection = open_collection(context.inputs[f"{path}.dataset"])
    data = examples_of(collection, context.inputs.get(f"{path}.negatives"))
    own = {side: getattr(options, f"{side}_prompt") for side in SIDES}
    prompts = {side: prompt for side, prompt in own.items() if prompt is not None}
    loss = None if options.loss is None else context.plugin(f"{path}.loss", Loss)
    return MixedSource(replace(data, segments=context.spec.segments), options.cap, prompts, loss)


def drawn_of(context: StageContext[ManyCollections], mixture: Mixture, steps: int) -> dict[str, int]:
    """How many examples of each source that many steps have, by the source's name."""
    options = context.spec.options
    return mixture.examples(options).counts(steps * options.accumulate)


def card_facts(context: StageContext[ManyCollections], mixture: Mixture, drawn: Mapping[str, int]) -> dict[str, object]:
    """What a model card says of what was trained on; drawn: how many examples of each source."""
    facts: dict[str, object] = {}
    for name, source in mixture.sources.items():
        queries = counted(len(source.data.query_ids), "query", "queries")
        capped = "" if source.cap is None else f", {source.cap:,} at most"
        passages = counted(len(source.data.corpus), "passage")
        facts[f"Dataset {name}"] = f"{passages}, {queries}{capped}; {counted(drawn[name], 'example')}"
        facts |= {f"Prompt of {side} texts of {name}": repr(prompt) for side, prompt in source.prompts.items()}
        facts |= {} if source.loss is None else {f"Loss of {name}": source.loss}
    by = "one a batch" if mixture.one_source else "mixed in a batch"
    facts["Mixing"] = f"temperature {mixture.temperature:g}, {by}"
    width = context.spec.options.negatives_per_query
    facts["Negatives"] = f"{width} a query, mined apart" if width else "the other queries' documents"
    return facts
