"""The spec of an encoder in a recipe, its adapter and prompts, and the same with the model's own values filled in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hardneg.records import ModelError, PluginSetting

Pooling = Literal["own", "cls", "mean", "lasttoken"]
Similarity = Literal["dot", "cosine", "maxsim", "meanmaxsim"]
Activation = Literal["identity", "tanh"]
Side = Literal["query", "document"]
Precision = Literal["auto", "fp32", "bf16"]
Weights = Literal["auto", "fp32", "bf16", "fp16"]

SIMILARITIES = ("dot", "cosine", "maxsim", "meanmaxsim")
SIDES: tuple[Side, ...] = ("query", "document")
TOKEN_TYPES = ("query_token_type", "document_token_type")
TASK = "{task}"
"""Stands for the task's description in a template, such as `Instruct: {task}\\nQuery: `."""
AUTO = "auto"
_ALLOWED = {
    "pooling": ("own", "cls", "mean", "lasttoken"),
    "similarity": (*SIMILARITIES, None),
    "activation": ("identity", "tanh"),
    "dtype": ("auto", "fp32", "bf16", "fp16"),
}
_LEAST = dict.fromkeys(("projection", "truncate_dim"), 1) | dict.fromkeys(TOKEN_TYPES, 0)
_LEAST |= dict.fromkeys(("query_length", "document_length"), 3)


def _choices(field: str, value: object, allowed: Sequence[str | None]) -> list[str]:
    *first, last = filter(None, allowed)
    return [] if value in allowed else [f"{field} is {value!r}: it can be {', '.join(first)} or {last}"]


@dataclass(frozen=True)
class PromptName:
    """The name of a prompt in a model's folder, such as `s2p_query`."""

    name: str


Prompt = str | PromptName | None
"""None is the model's own prompt for queries or for documents."""


@dataclass(frozen=True)
class AdapterSpec:
    """A few weights beside those of a transformer, which alone are trained.

    source: a folder or hub id of a trained adapter, as peft saves it; without one a new adapter is trained.
    revision: a branch, tag or commit of a hub id.
    type: `lora`; `rslora` (scaled by the root of the rank); `dora`.
    rank: that of the matrices. alpha: their product is scaled by alpha / rank.
    dropout: of what goes into the adapter.
    target_modules: ends of the names of the linear layers that get one; `auto` is all those in the layers.
    save: `merged` writes the base with the adapter in its weights; `apart` writes the adapter and its base's name.

    Source: Hu et al., LoRA (ICLR 2022), eq. 3; Kalajdzievski, rsLoRA (2023); Liu et al., DoRA (ICML 2024).
    """

    source: str | None = None
    revision: str | None = None
    type: Literal["lora", "rslora", "dora"] = "lora"
    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    target_modules: str | tuple[str, ...] = AUTO
    save: Literal["merged", "apart"] = "merged"

    @property
    def targets(self) -> tuple[str, ...] | None:
        """Ends of names of the layers that get one; None for all linear layers."""
        if self.target_modules == AUTO:
            return None
        return (self.target_modules,) if isinstance(self.target_modules, str) else tuple(self.target_modules)

    def settings(self) -> dict[str, Any]:
        """The settings of a new one."""
        return {name: getattr(self, name) for name in ("type", "rank", "alpha", "dropout", "target_modules")}

    def weights(self, hidden: int, layers: int) -> int:
        """An estimate of the weights of a new one: two matrices for each of a layer's six linear ones."""
        return self.rank * layers * 18 * hidden

    def problems(self) -> list[str]:
        """One line for each field that no adapter can have."""
        lines = _choices("adapter.type", self.type, ("lora", "rslora", "dora"))
        lines += _choices("adapter.save", self.save, ("merged", "apart"))
        changed = ", ".join(f"adapter.{name}" for name, value in self.settings().items() if value != _USUAL[name])
        unnamed = self.targets is not None and not all(name.strip() for name in self.targets or ("",))
        lost = self.type == "dora" and self.save == "apart"
        wrong = {
            f"rank is {self.rank}: at least 1 is needed": self.rank < 1,
            f"alpha is {self.alpha:g}: it must be above 0": not self.alpha > 0,
            f"dropout is {self.dropout:g}: it must be at least 0 and below 1": not 0 <= self.dropout < 1,
            "target_modules names no layers: give ends of their names, or leave it out": unnamed,
            "save is 'apart': transformers cannot read back dora: set save: merged": lost,
            "revision is that of a source: give one, or leave it out": self.source is None and bool(self.revision),
        }
        lines += [f"adapter.{line}" for line, is_so in wrong.items() if is_so]
        if self.source is not None and changed:
            lines.append(f"{changed}: a trained adapter has its own: leave out, or leave out source")
        return lines


_USUAL = AdapterSpec().settings()


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
            lines += _choices(field, getattr(self, field), allowed)
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
    """The prompts by field; own: the model's, by name. Raises ModelError: no such name, or no place for the task."""
    texts = dict[str, str]()
    for field, prompt in prompts.items():
        if isinstance(prompt, PromptName) and prompt.name not in own:
            has = ", ".join(sorted(named for named, text in own.items() if text)) or "none"
            raise ModelError(f"model {name!r}: no prompt is called {prompt.name!r}; it has: {has}")
        texts[field] = own[prompt.name] if isinstance(prompt, PromptName) else prompt
    if task is not None and not any(TASK in text for text in texts.values()):
        example = 'query_prompt: "Instruct: {task}\\nQuery: "'
        raise ModelError(f"model {name!r}: task is given, and none of its prompts has {TASK}: write one, as {example}")
    return texts if task is None else {field: text.replace(TASK, task) for field, text in texts.items()}
