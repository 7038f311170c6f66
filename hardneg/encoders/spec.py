"""The spec of an encoder in a recipe, its prompts, and the same with the model's own values filled in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.records import ModelError, PluginSetting

Pooling = Literal["own", "cls", "mean", "lasttoken"]
Similarity = Literal["dot", "cosine", "maxsim", "meanmaxsim"]
Activation = Literal["identity", "tanh"]
Side = Literal["query", "document"]
Precision = Literal["auto", "fp32", "bf16"]
Weights = Literal["auto", "fp32", "bf16", "fp16"]

SIMILARITIES = ("dot", "cosine", "maxsim", "meanmaxsim")
SIDES: tuple[Side, ...] = ("query", "document")
POOLINGS = ("own", "cls", "mean", "lasttoken")
TOKEN_TYPES = ("query_token_type", "document_token_type")
_ALLOWED = {"pooling": POOLINGS, "similarity": SIMILARITIES, "activation": ("identity", "tanh")}
_ALLOWED |= {"dtype": ("auto", "fp32", "bf16", "fp16")}
_LEAST = dict.fromkeys(("projection", "truncate_dim"), 1) | dict.fromkeys(TOKEN_TYPES, 0)
_LEAST |= dict.fromkeys(("query_length", "document_length"), 3)
TASK = "{task}"
"""Stands for the task's description in a template, such as `Instruct: {task}\\nQuery: `."""


@dataclass(frozen=True)
class PromptName:
    """The name of a prompt in a model's folder, such as `s2p_query`."""

    name: str


Prompt = str | PromptName | None
"""None is the model's own prompt for queries or for documents."""


@dataclass(frozen=True)
class ModelSpec:
    """A dense encoder, shared by queries and documents, or two of them.

    A field that is None takes the value of the model's own folder; any other value overrides it.

    name: a folder, a hub id, or `packaged:all-MiniLM-L6-v2`.
    revision: a branch, tag or commit of a hub id.
    pooling: `own` keeps what a SentenceTransformer has; the others replace it.
    projection: size of a linear layer after the pooling; none if None. activation: what its output goes through.
    layer_norm: a LayerNorm after that.
    similarity: `cosine` ends in a normalisation, `dot` does not; of token vectors `maxsim` or `meanmaxsim`.
    query_prompt, document_prompt: put before each text; "" is none. `{name: NAME}` is the prompt of that name in the
        model's folder. `{task}` in one stands for the task.
    task: the aim of the search, in the words of an instruction.
    code: `native` has transformers' own code compute a model whose files name code of their own, which is never run.
    twins: queries and documents begin with the same weights and are trained apart.
    query_length, document_length: number of tokens read, special ones included.
    query_token_type, document_token_type: the token type (segment) of every token; 0 for both is what the model has.
    truncate_dim: number of dimensions of a vector that are kept.
    encoder: its family with options (`hardneg.encoders`); None is that of the folder.
    dtype: that of the transformer's weights where texts are encoded; `auto` and `fp32` follow the
        stage's `precision`, and `fp32` loads all weights as float32 first. Training is always in float32.
    adapter: a few weights beside the transformer's, which alone are trained.
    """

    free: ClassVar[frozenset[str]] = frozenset({"code"})
    later: ClassVar[frozenset[str]] = frozenset({"twins", "activation", "query_token_type", "document_token_type"})
    later |= {"truncate_dim", "dtype", "adapter", "encoder", "task"}

    name: str
    revision: str | None = None
    pooling: Pooling = "own"
    projection: int | None = None
    layer_norm: bool = False
    similarity: Similarity | None = None
    query_prompt: Prompt = None
    document_prompt: Prompt = None
    query_length: int | None = None
    document_length: int | None = None
    twins: bool = False
    activation: Activation = "identity"
    query_token_type: int = 0
    document_token_type: int = 0
    truncate_dim: int | None = None
    dtype: Weights = "auto"
    adapter: AdapterSpec | None = None
    encoder: PluginSetting | None = None
    task: str | None = None
    code: Literal["native"] | None = None

    @property
    def typed(self) -> bool:
        """Whether it sets token types."""
        return bool(self.query_token_type or self.document_token_type)

    def token_type(self, side: Side) -> int:
        """The token type of every token of a text of this side."""
        return self.query_token_type if side == "query" else self.document_token_type

    def changed(self, names: Iterable[str]) -> list[str]:
        """Return those of these fields that have another value than their default."""
        return [name for name in names if getattr(self, name) != getattr(ModelSpec, name)]

    def problems(self) -> list[str]:
        """One line for each field that no model can have."""
        lines = [] if self.name.strip() else ["name is empty: give a folder, a hub id or packaged:all-MiniLM-L6-v2"]
        for field, allowed in _ALLOWED.items():
            if (value := getattr(self, field)) not in allowed and (field, value) != ("similarity", None):
                lines.append(f"{field} is {value!r}: it can be {', '.join(allowed[:-1])} or {allowed[-1]}")
        for field, least in _LEAST.items():
            if (value := getattr(self, field)) is not None and value < least:
                lines.append(f"{field} is {value}: give {least} or more, or leave it out")
        if self.activation == "tanh" and self.projection is None:
            lines.append("activation is 'tanh' with no projection before it: give one, or leave it out")
        lines += prompt_problems({f"{side}_prompt": getattr(self, f"{side}_prompt") for side in SIDES}, self.task)
        return lines if self.adapter is None else [*lines, *self.adapter.problems()]


def spec_from(content: Mapping[str, Any]) -> ModelSpec:
    """The spec from its mapping by `asdict`."""
    classes: dict[str, Any] = {"adapter": AdapterSpec, "encoder": PluginSetting}
    classes |= {f"{side}_prompt": PromptName for side in SIDES}
    built = {name: classes[name](**content[name]) for name in classes if isinstance(content.get(name), Mapping)}
    return ModelSpec(**{**content, **built})


@dataclass(frozen=True)
class FullSpec(ModelSpec):
    """A spec whose fields all have their values: the recipe's, or else the model's own."""

    similarity: Similarity = "cosine"
    query_prompt: str = ""
    document_prompt: str = ""
    query_length: int = 64
    document_length: int = 256

    def prompt(self, side: Side) -> str:
        """The prompt before each text of this side."""
        return self.query_prompt if side == "query" else self.document_prompt

    def length(self, side: Side) -> int:
        """The number of tokens read of a text of this side, special ones included."""
        return self.query_length if side == "query" else self.document_length


def prompt_problems(prompts: Mapping[str, Prompt], task: str | None) -> list[str]:
    """One line for each prompt, by its field, without a task or a name; and for a task that no prompt uses."""
    problems = [f"{field}.name is empty" for field, prompt in prompts.items() if prompt == PromptName("")]
    templates = [field for field, prompt in prompts.items() if isinstance(prompt, str) and TASK in prompt]
    if task is None:
        return [*problems, *(f"{field} has {TASK} and there is no task: give model.task" for field in templates)]
    if not templates and all(isinstance(prompt, str) for prompt in prompts.values()):
        problems.append(f"task is given, and no prompt has {TASK}: write it where the task goes, or leave task out")
    return problems


def whole_prompts(
    name: str, prompts: Mapping[str, str | PromptName], task: str | None, own: Mapping[str, str]
) -> dict[str, str]:
    """The prompts of queries and documents, by field; own: the model's prompts by name.

    Raises:
        ModelError: the model has no prompt of that name, or the task has no place in any.
    """
    texts = {field: _text(name, prompt, own) for field, prompt in prompts.items()}
    if task is None:
        return texts
    if not any(TASK in text for text in texts.values()):
        example = 'query_prompt: "Instruct: {task}\\nQuery: "'
        raise ModelError(f"model {name!r}: task is given, and none of its prompts has {TASK}: write one, as {example}")
    return {field: text.replace(TASK, task) for field, text in texts.items()}


def _text(name: str, prompt: str | PromptName, own: Mapping[str, str]) -> str:
    if isinstance(prompt, str):
        return prompt
    if prompt.name not in own:
        has = ", ".join(sorted(named for named, text in own.items() if text)) or "none"
        raise ModelError(f"model {name!r}: no prompt is called {prompt.name!r}; it has: {has}")
    return own[prompt.name]
