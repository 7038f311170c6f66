"""`average`: one model whose weights are the mean of several models'."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from hardneg.lines.base import Argument, Arguments, Job, Line
from hardneg.lines.shared_arguments import MODEL
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from hardneg.api.results import TrainedModel
    from hardneg.api.workplace import Workplace
    from hardneg.encoders.encoder import Encoder


def _positive(value: Any) -> list[float]:
    """Raises UsageError where something is no number above 0."""
    numbers = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    for number in numbers:
        if not isinstance(number, int | float) or not (number > 0 and isfinite(number)):
            raise UsageError(f"{{weights}}: must be numbers above 0 (got {number!r:.60})", "weights")
    return [float(number) for number in numbers]


class AverageLine(Line):
    """Average the weights of several models into one, such as those of several seeds, or a start and what it became.

    The models are of one architecture and vocabulary; the tokenizer, prompts and lengths are those of the first. To
    choose among models on dev queries, and to average what a recipe trains, there is the stage `average`.

    Raises:
        UsageError: there is one model alone, or there are not as many weights as models.
        ModelError: the models are not of one architecture and vocabulary, or one is an adapter.

    Example: hardneg average --model start --model trained --weight 1 --weight 3 --output between
    """

    name = "average"
    returns = "TrainedModel"
    shows = ("store", "device")
    arguments = (
        replace(
            MODEL,
            name="models",
            help="A folder, a hub id, or packaged:NAME; give it twice or more.",
            type="Sequence[Model]",
            form=list[str],
            flag="model",
        ),
        Argument(
            "weights",
            "The weight of each model, in their order; by default all count alike.",
            "Sequence[float] | None",
            None,
            list[float],
            _positive,
            flag="weight",
            metavar="NUMBER",
        ),
    )
    positional = 1

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """Reads the models one by one, and keeps their mean in the store."""
        from hardneg.api.model_argument import named_model

        workplace.refuse_settings()
        several = isinstance(args.models, list | tuple)
        names = [named_model(each, workplace.store) for each in (args.models if several else [args.models])]
        weights = args.weights or [1.0] * len(names)
        if len(names) < 2:
            raise UsageError("average: give {models} twice or more", "models")
        if len(weights) != len(names):
            problem = f"average: {len(weights)} {{weights}} for {len(names)} {{models}}: give one of each, in order"
            raise UsageError(problem, "weights", "models")
        if twice := [name for name in names if names.count(name) > 1]:
            problem = f"average: {twice[0]} stands twice in {{models}}: give it larger {{weights}}"
            raise UsageError(problem, "models", "weights")
        return Job(None, partial(_result, dict(zip(names, weights, strict=True))))


def _result(shares: Mapping[str, float], plan: None, workplace: "Workplace") -> "TrainedModel":
    from hardneg.api.content_store import keep_result
    from hardneg.api.results import TrainedModel
    from hardneg.encoders.open.model_card import model_card, without_folder
    from hardneg.encoders.open.resolved import load_learner, resolve
    from hardneg.encoders.spec import ModelSpec
    from hardneg.records.layout import MODEL_FOLDER
    from hardneg.store.digest import Content
    from hardneg.training.averaging import weighted

    def opened(name: str) -> "Encoder":
        return load_learner(ModelSpec(name), workplace.device)

    def make(folder: "Path") -> dict[str, int]:
        mean = weighted(opened, shares)
        parts = ", ".join(f"{without_folder(name)} (weight {share:g})" for name, share in shares.items())
        mean.save(folder / MODEL_FOLDER, card=model_card(mean, {"Average of": parts}))
        for content in contents:
            content.check()
        return {"models": len(shares)}

    contents = [Content.of(lambda name=name: resolve(ModelSpec(name)).digest) for name in shares]  # type: ignore[misc]
    digests = [[content.digest, share] for content, share in zip(contents, shares.values(), strict=True)]
    origin = {"stage": "averaged", "version": 1, "inputs": digests, "name": "average"}
    result = keep_result(workplace.store, "model", origin, make)
    return TrainedModel("average", result.key, result.path / MODEL_FOLDER, result.facts)
