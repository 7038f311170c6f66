"""Verb `train-refreshed`: a dual encoder trained on negatives that a second process mines with its checkpoints."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from hardneg.fields import (
    FREE,
    LATER,
    FilterSettings,
    Name,
    OwnIndexSetting,
    OwnMinerSetting,
    Reference,
    has_answers,
    without_problems,
)
from hardneg.formats.collection import StoredCollection
from hardneg.mining.choosing import needs_answers
from hardneg.protocols import EstimatedBackend, RunJoiner
from hardneg.registry import configure
from hardneg.runtime import world
from hardneg.stages.shared.context import StageContext
from hardneg.stages.shared.inputs import open_learner
from hardneg.stages.shared.stage_spec import FORM_WORDS, RecipeView, Row, Sizes
from hardneg.stages.shared.stage_spec import encoding as encoding_of
from hardneg.stages.shared.train_config import DualOptions, Told
from hardneg.stages.shared.training_data import (
    data_facts,
    encoder_training,
    ordered,
    pseudo_positives,
    terms_facts,
    terms_of,
    training_data,
    with_guide,
)
from hardneg.store import SCRATCH
from hardneg.training.examples import TrainingData
from hardneg.training.options import Devices, RefreshOptions
from hardneg.training.refresh.folder import RefreshFolder, refresh_facts

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.training.loop import TrainingResult
    from hardneg.training.methods.ance import AnceTraining
    from hardneg.training.refresh.provider import RefreshProvider


class TrainRefreshed(DualOptions):
    """Trains a dual encoder on negatives that it mines itself, again and again, while it trains."""

    version = 2
    purpose = "teach the model, with hard negatives that are mined again on the way"
    stage: Literal["train-refreshed"]
    split: Name = Field(default="train", description="The queries to train on.")
    negatives: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None,
        description="What is trained on until the first refresh, which then is not mined from the model as it starts; "
        "without them that one is waited for.",
    )
    refresh: Annotated[RefreshOptions, AfterValidator(without_problems)] = Field(
        description="When negatives are mined, and which."
    )
    miner: OwnMinerSetting = Field(
        default=None, description="Selects negatives from the top of what the model finds, as `refresh.choice` may too."
    )
    filters: FilterSettings = Field(default=(), description="Leave candidates out before, one after another.")
    devices: Annotated[Devices, AfterValidator(without_problems)] = Field(
        default=Devices(), json_schema_extra=FREE, description="What the two processes may use."
    )
    backend: OwnIndexSetting = Field(
        default=None,
        json_schema_extra=LATER,
        description="The index that each refresh builds of the corpus and searches; without one it searches what the "
        "corpus was encoded into, exactly.",
    )

    @model_validator(mode="after")
    def _mines(self) -> "TrainRefreshed":
        if self.miner is not None and self.refresh.choice != "sampled":
            raise ValueError("refresh.choice: does not go with miner, which sets what is chosen; leave it out")
        return self

    def identity(self) -> dict[str, Any]:
        identity = {**super().identity(), "refresh": self.refresh.identity()}
        if self.miner is not None:
            del identity["refresh"]["choice"]
        return identity

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A miner of other lists, and an index that is not built from what the recipe's model makes."""
        if isinstance(miner := recipe.plugin("miner"), RunJoiner):
            yield from (f"miner: {problem}" for problem in miner.problems(["dense"]))
        source = getattr(recipe.plugin("backend"), "input", None)
        family = recipe.models.of(self.began_with(recipe)).known_family
        if self.backend is not None and source == "texts":
            problem = f"{self.backend.name} is built from texts, which no refresh changes"
            yield f"backend: {problem}; leave it out, or name one of {FORM_WORDS['vectors']}"
        elif self.backend is not None and family is not None and source not in (None, family.form):
            problem = f"{self.backend.name} is built from {FORM_WORDS.get(str(source), source)}"
            yield f"backend: {problem}, and the recipe's model makes {FORM_WORDS[family.form]}; name another"

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Also answers, where they decide what is negative."""
        yield from super().missing(collection)
        if self.refresh.without_answers and not has_answers(collection, self.split):
            yield f"refresh.without_answers: needs answers, and split {self.split} has none: leave it out"
        if needs_answers(self.filters) and not has_answers(collection, self.split):
            yield f"filters: needs answers, and split {self.split} has none: leave it out"

    def estimate(self, sizes: Sizes) -> Row:
        training, encoding = encoder_training(self, sizes), encoding_of(self.segments, sizes)
        backend = None if self.backend is None else configure("indexes", self.backend)
        rows = sizes.documents * (1 if self.segments is None else self.segments.count)
        disk = training.disk + encoding.disk
        if isinstance(backend, EstimatedBackend):
            disk += backend.disk_bytes(sizes.documents, rows, sizes.dimension)
        return replace(training, disk=disk)

    @contextmanager
    def opened(self, context: StageContext[Any], collection: StoredCollection) -> "Iterator[tuple[AnceTraining, Told]]":
        from hardneg.training.methods.ance import AnceTraining
        from hardneg.training.refresh.mining import known_to_be_relevant

        refresh, refreshes = self.refresh, RefreshFolder(context.folder / SCRATCH / "refreshes")
        encoder = open_learner(context, context.device)
        data = training_data(collection, collection.queries(self.split), context.inputs.get("negatives"))
        data = replace(data, positives=known_to_be_relevant(data.positives, refresh), segments=self.segments)
        data = with_guide(context, ordered(context, data))

        with _supply(context, encoder, data, refreshes) as supply:
            way = AnceTraining(encoder, data, self.options, refresh, supply, terms_of(context, encoder))

            def told(result: "TrainingResult") -> tuple[Mapping[str, object], Mapping[str, object]]:
                facts = refresh_facts(result.history, refreshes.records(), way.waited, len(collection.corpus))
                context.progress.note(
                    f"{context.name}: " + ", ".join(f"{name} {value}" for name, value in facts.items())
                )
                by = "" if self.miner is None else f" by {self.miner.name}"
                often = f"{refresh.policy}, {refresh.every} steps"
                top = f"{refresh.negatives} a query of the model's own top {refresh.depth}{by}, refreshed: {often}"
                said = data_facts(context, collection.corpus, len(data.query_ids))
                return {**said, "Negatives": top, **terms_facts(context)}, facts

            yield way, told


@contextmanager
def _supply(
    context: StageContext[TrainRefreshed], encoder: "Encoder", data: TrainingData, refreshes: RefreshFolder
) -> "Iterator[RefreshProvider]":
    """Where negatives come from; ends the process beside this one, and gives back the threads it had."""
    import torch

    from hardneg.training.checkpoint import Checkpoints
    from hardneg.training.refresh.mining import Settings
    from hardneg.training.refresh.provider import BackgroundProvider, Process, SynchronousProvider

    spec, note, scratch = context.spec, context.progress.note, context.folder / SCRATCH
    every, had = spec.refresh.every or 1, torch.get_num_threads()
    first = 0 if data.negatives is None else every
    of_trainer, of_inferencer = spec.devices.threads(had * world().local_size, world())
    pseudo = pseudo_positives(context.inputs.get("negatives"))
    settings = Settings(
        model=encoder.spec,
        collection=str(context.inputs["dataset"].folder),
        split=spec.split,
        checkpoints=str(scratch),
        refreshes=str(refreshes.folder),
        options=spec.refresh,
        seed=spec.options.seed,
        first=first,
        devices=spec.devices.mining(encoder.device, world(), torch.cuda.device_count()),
        threads=of_inferencer,
        segments=spec.segments,
        pseudo_positives=None if pseudo is None else str(pseudo),
        miner=spec.miner,
        filters=spec.filters,
        backend=spec.backend,
    )
    if spec.refresh.policy == "synchronous":
        checkpoints = Checkpoints(scratch, "")
        yield SynchronousProvider(encoder, settings.mining(), refreshes, checkpoints, first, every, note)
        return
    process = Process(settings, note)
    torch.set_num_threads(of_trainer)
    try:
        yield BackgroundProvider(process, refreshes, data.negatives is None, every, note)
    finally:
        process.stop()
        torch.set_num_threads(had)
