"""`average`: one model whose weights are the mean of several models'."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.api.arguments import Arg, Model, Where, spelled_out
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.results import TrainedModel
    from hardneg.api.workplace import Workplace
    from hardneg.encoders.encoder import Encoder

Models = Annotated[
    Sequence[Model], Arg("A folder, a hub id, or packaged:NAME; give it twice or more.", cli=list[str], flag="model")
]
Weights = Annotated[
    Sequence[float] | None,
    Arg(
        "The weight of each model, in their order; by default all count alike.",
        cli=list[float],
        flag="weight",
        metavar="NUMBER",
    ),
]


@spelled_out
def average(models: Models, *, weights: Weights = None, **where: Unpack[Where]) -> "TrainedModel":
    """Average the weights of several models into one, such as those of several seeds, or a start and what it became.

    The models are of one architecture and vocabulary; the tokenizer, prompts and lengths are those of the first. To
    choose among models on dev queries, and to average what a recipe trains, there is the stage `average`.

    Raises:
        UsageError: there is one model alone, or there are not as many weights as models.
        ModelError: the models are not of one architecture and vocabulary, or one is an adapter.

    Example: hardneg average --model start --model trained --weight 1 --weight 3 --output between
    """
    from hardneg.api.dataset_argument import named_model
    from hardneg.api.workplace import Workplace

    workplace = Workplace.of(where, average)
    workplace.refuse_settings()
    several = isinstance(models, list | tuple)
    names = [named_model(each, workplace.store) for each in (models if several else [models])]
    given: Any = weights if isinstance(weights, Iterable) and not isinstance(weights, str) else [weights]
    shares: list[float] = [1.0] * len(names) if weights is None else list(given)
    for number in shares:
        if not isinstance(number, int | float) or not (number > 0 and isfinite(number)):
            raise UsageError(f"{{weights}}: must be numbers above 0 (got {number!r:.60})", "weights")
    if len(names) < 2:
        raise UsageError("average: give {models} twice or more", "models")
    if len(shares) != len(names):
        problem = f"average: {len(shares)} {{weights}} for {len(names)} {{models}}: give one of each, in order"
        raise UsageError(problem, "weights", "models")
    if twice := [name for name in names if names.count(name) > 1]:
        problem = f"average: {twice[0]} stands twice in {{models}}: give it larger {{weights}}"
        raise UsageError(problem, "models", "weights")
    workplace.begin(None)
    return _averaged(dict(zip(names, map(float, shares), strict=True)), workplace)


def _averaged(shares: Mapping[str, float], workplace: "Workplace") -> "TrainedModel":
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

    def make(folder: Path) -> dict[str, int]:
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
