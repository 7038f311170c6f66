"""The spec of an encoder in a recipe, with its adapter and prompts, and the full spec, completed from the model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

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
"""The placeholder for the task description in a prompt, as in `Instruct: {task}\\nQuery: `."""
AUTO = "auto"
_ALLOWED = {"pooling": get_args(Pooling), "similarity": SIMILARITIES}
_ALLOWED |= {"activation": get_args(Activation), "dtype": get_args(Weights)}
_OF_ADAPTERS = {"type": ("lora", "rslora", "dora"), "save": ("merged", "apart")}
_LEAST = dict.fromkeys(("projection", "truncate_dim"), 1) | dict.fromkeys(TOKEN_TYPES, 0)
_LEAST |= dict.fromkeys(("query_length", "document_length"), 3)


@dataclass(frozen=True)
class PromptName:
    """The name of a prompt in a model's folder, such as `s2p_query`."""

    name: str


Prompt = str | PromptName | None
"""Text to put before each query or document, or the name of a saved prompt; None uses the model's own prompt."""


@dataclass(frozen=True)
class AdapterSpec:
    """A low-rank adapter of a transformer; only the adapter weights are trained.

    source: folder or hub id of a trained adapter saved by peft; by default a new adapter is trained.
    revision: a branch, tag or commit of a hub id.
    type: `lora`, `rslora` (alpha is divided by the square root of the rank) or `dora`.
    rank: rank of the matrices. alpha: scale; the matrix product is multiplied by alpha / rank.
    dropout: dropout rate on the adapter's input.
    target_modules: name suffixes of the linear layers to adapt; `auto` adapts every linear layer in transformer layers.
    save: `merged` saves the base model with the adapter merged in; `apart` saves the adapter and the base model's name.

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
        """The name suffixes of the layers to adapt; None for all linear layers."""
        if self.target_modules == AUTO:
            return None
        return (self.target_modules,) if isinstance(self.target_modules, str) else tuple(self.target_modules)

    def settings(self) -> dict[str, Any]:
        """Return the settings that define a new adapter, by field name."""
        return {name: getattr(self, name) for name in ("type", "rank", "alpha", "dropout", "target_modules")}

    def weights(self, hidden: int, layers: int) -> int:
        """Estimate a new adapter's number of weights, for six linear layers per transformer layer of size `hidden`."""
        return self.rank * layers * 18 * hidden

    def problems(self) -> list[str]:
        """Return one message per invalid field."""
        lines = [
            f"adapter.{field} is {getattr(self, field)!r}; set {', '.join(allowed[:-1])} or {allowed[-1]}"
            for field, allowed in _OF_ADAPTERS.items()
            if getattr(self, field) not in allowed
        ]
        usual = AdapterSpec().settings()
        changed = ", ".join(f"adapter.{name}" for name, value in self.settings().items() if value != usual[name])
        unnamed = self.targets is not None and not all(name.strip() for name in self.targets or ("",))
        lost = self.type == "dora" and self.save == "apart"
        wrong = {
            f"rank is {self.rank}; it must be at least 1": self.rank < 1,
            f"alpha is {self.alpha:g}; it must be above 0": not self.alpha > 0,
            f"dropout is {self.dropout:g}; it must be at least 0 and below 1": not 0 <= self.dropout < 1,
            "target_modules is empty; give name suffixes of layers, or omit it": unnamed,
            "save is 'apart', but transformers cannot reload dora; set save: merged": lost,
            "revision is set without source; set source too, or omit revision": self.source is None
            and bool(self.revision),
        }
        lines += [f"adapter.{line}" for line, is_so in wrong.items() if is_so]
        if self.source is not None and changed:
            lines.append(f"{changed}: a trained adapter has its own settings; omit these, or omit source")
        return lines


@dataclass(frozen=True)
class ModelSpec:
    """The spec of an encoder, with weights that queries and documents share or with separate weights for each.

    A field that is None takes its value from the model's folder; any other value overrides the folder.

    name: a folder, a hub id, or `packaged:all-MiniLM-L6-v2`.
    revision: a branch, tag or commit of a hub id.
    pooling: `own` keeps the model's pooling; other values replace it, or add a pooling to a model without one.
    projection: output size of a linear layer after the pooling; None adds none. activation: activation of that layer.
    layer_norm: whether to add a LayerNorm after the pooling or projection.
    similarity: `cosine` normalises vectors, `dot` does not; `maxsim` and `meanmaxsim` are for token vectors.
    query_prompt, document_prompt: text before each query or document; "" for none. `{name: NAME}` is the prompt with
        this name in the model's folder. `{task}` is replaced by the task.
    task: description of the search task, for prompts with an instruction.
    code: `native` opens a model that declares custom code, but with transformers' own code; custom code is never run.
    twins: whether to train separate weights for queries and documents, starting from the same model.
    query_length, document_length: maximum length in tokens, special tokens included.
    query_token_type, document_token_type: the token type (segment) of every token; 0 for both is the model's default.
    truncate_dim: number of dimensions to truncate vectors to.
    encoder: the encoder family with options (`hardneg.encoders`); None detects the family of the folder.
    dtype: dtype of the transformer's weights for encoding; `auto` and `fp32` follow the stage's `precision`, and `fp32`
        first loads all weights as float32. Training is always in float32.
    adapter: low-rank adapter of the transformer; only the adapter weights are trained.
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
        """Whether the spec sets token types."""
        return bool(self.query_token_type or self.document_token_type)

    def token_type(self, side: Side) -> int:
        """Return the token type of all tokens of a query or document."""
        return self.query_token_type if side == "query" else self.document_token_type

    def changed(self, names: Iterable[str]) -> list[str]:
        """Return the names of the given fields that differ from their defaults."""
        return [name for name in names if getattr(self, name) != getattr(ModelSpec, name)]

    def problems(self) -> list[str]:
        """Return one message per invalid field."""
        lines = [] if self.name.strip() else ["name is empty; give a folder, a hub id or packaged:all-MiniLM-L6-v2"]
        for field, allowed in _ALLOWED.items():
            if (value := getattr(self, field)) not in allowed and not (field == "similarity" and value is None):
                lines.append(f"{field} is {value!r}; set {', '.join(allowed[:-1])} or {allowed[-1]}")
        for field, least in _LEAST.items():
            if (value := getattr(self, field)) is not None and value < least:
                lines.append(f"{field} is {value}; it must be at least {least} if set")
        if self.activation == "tanh" and self.projection is None:
            lines.append("activation is 'tanh', but there is no projection; set projection, or omit activation")
        prompts = {f"{side}_prompt": getattr(self, f"{side}_prompt") for side in SIDES}
        lines += [f"{field}.name is empty" for field, prompt in prompts.items() if prompt == PromptName("")]
        templates = [field for field, prompt in prompts.items() if isinstance(prompt, str) and TASK in prompt]
        if self.task is None:
            lines += [f"{field} contains {TASK}, but there is no task; set model.task" for field in templates]
        elif not templates and all(isinstance(prompt, str) for prompt in prompts.values()):
            lines.append(f"task is set, but no prompt contains {TASK}; add it to a prompt, or omit task")
        return lines if self.adapter is None else [*lines, *self.adapter.problems()]


def spec_from(content: Mapping[str, Any]) -> ModelSpec:
    """Create a spec from `content`, a mapping returned by `dataclasses.asdict`."""
    classes: dict[str, Any] = {"adapter": AdapterSpec, "encoder": PluginSetting}
    classes |= {f"{side}_prompt": PromptName for side in SIDES}
    built = {name: classes[name](**content[name]) for name in classes if isinstance(content.get(name), Mapping)}
    return ModelSpec(**{**content, **built})


@dataclass(frozen=True)
class FullSpec(ModelSpec):
    """A complete spec: fields that the recipe does not set have the model's own values."""

    similarity: Similarity = "cosine"
    query_prompt: str = ""
    document_prompt: str = ""
    query_length: int = 64
    document_length: int = 256

    def prompt(self, side: Side) -> str:
        """Return the prompt to put before each query or document."""
        return self.query_prompt if side == "query" else self.document_prompt

    def length(self, side: Side) -> int:
        """Return the maximum length of a query or document in tokens, special tokens included."""
        return self.query_length if side == "query" else self.document_length


def whole_prompts(
    name: str, prompts: Mapping[str, str | PromptName], task: str | None, own: Mapping[str, str]
) -> dict[str, str]:
    """Return prompt texts by field. Look up prompt names in `own` and insert `task`. Raises ModelError on failure."""
    texts = dict[str, str]()
    for field, prompt in prompts.items():
        if isinstance(prompt, PromptName) and prompt.name not in own:
            has = ", ".join(sorted(named for named, text in own.items() if text)) or "none"
            raise ModelError(f"model {name!r}: no prompt named {prompt.name!r}; available: {has}")
        texts[field] = own[prompt.name] if isinstance(prompt, PromptName) else prompt
    if task is not None and not any(TASK in text for text in texts.values()):
        example = 'query_prompt: "Instruct: {task}\\nQuery: "'
        raise ModelError(f"model {name!r}: task is set, but no prompt contains {TASK}; add one, such as {example}")
    return texts if task is None else {field: text.replace(TASK, task) for field, text in texts.items()}
