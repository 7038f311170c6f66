"""The family `http`: a model on a server, identified only by its description in the recipe."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from hardneg.plugin import encoding, errors, model_specs, records, resolving, stores
from hardneg_http import server

if TYPE_CHECKING:
    from hardneg_http.client import EmbeddingClient
    from hardneg_http.encoder import HttpEncoder

_LEFT_TO_SERVER = (
    "pooling", "projection", "layer_norm", "activation", "twins", "query_length", "document_length",
    "query_token_type", "document_token_type", "dtype", "adapter",
)  # fmt: skip


@dataclass(frozen=True)
class Http:
    """A model behind an OpenAI-compatible server, such as TEI, infinity or vLLM; it can encode but not be trained.

    Attributes:
        url: The base URL before `/embeddings`, such as http://localhost:8080/v1; not part of artifact keys.
        key: The environment variable with the API key; if omitted, no key is sent.
        dimensions: The dimension to request from the server, for models that support several.
        characters: Maximum number of characters of a text to send; by default all, and the server truncates.
        batch: Maximum number of texts per request.
        batch_characters: Maximum number of characters per request, unless a single text has more.
        in_flight: Maximum number of concurrent requests.
        timeout: Seconds to wait for the start of a response, and between its parts.
        deadline: Maximum number of seconds for a request, including its retries.
        cache: Maximum size of the vector cache on this machine, in gigabytes per model; 0 disables it.
    """

    version: ClassVar[int] = 1
    form: ClassVar[encoding.Form] = "vectors"
    trainable: ClassVar[bool] = False

    url: str
    key: str | None = None
    dimensions: int | None = None
    characters: int | None = None
    batch: int = 64
    batch_characters: int = 100_000
    in_flight: int = 4
    timeout: float = 60.0
    deadline: float = 600.0
    cache: float = 10.0

    def __post_init__(self) -> None:
        server.check_address(self.url, "http://localhost:8080/v1")
        for name in ("dimensions", "characters", "batch", "batch_characters", "in_flight", "timeout", "deadline"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"{name}: must be above 0, not {value}")
        if self.cache < 0:
            raise ValueError(f"cache: must be at least 0, not {self.cache}")

    def full(self, model: resolving.ResolvedModel) -> model_specs.FullSpec:
        """Return the complete spec. By default, there are no prompts, and the similarity is cosine.

        Raises ModelError for fields that only the server can set.
        """
        spec = model.spec
        plain = model_specs.ModelSpec(spec.name)
        if given := [name for name in _LEFT_TO_SERVER if getattr(spec, name) != getattr(plain, name)]:
            raise errors.ModelError(f"model {spec.name!r}: the server decides on {', '.join(given)}; leave unset")
        own = {field.name: getattr(spec, field.name) for field in fields(model_specs.ModelSpec)}
        own_prompts = {f"{side}_prompt": getattr(spec, f"{side}_prompt") or "" for side in ("query", "document")}
        lengths = {name: getattr(model_specs.FullSpec, name) for name in ("query_length", "document_length")}
        prompts = model_specs.whole_prompts(spec.name, own_prompts, spec.task, {})
        return model_specs.FullSpec(
            **{**own, **lengths, **prompts, "task": None, "similarity": spec.similarity or "cosine"}
        )

    def digest(self, model: resolving.ResolvedModel) -> str:
        """Return a digest of the name, the revision and those options that change vectors. The server is not asked.

        Vectors cannot identify a model, because their last digits differ between responses of the same server. Change
        `revision` when the server has new weights under the same name.
        """
        full = model.full
        parts = [full.similarity, full.query_prompt, full.document_prompt, full.truncate_dim]
        return stores.digest(["http", self.version, *self.content(full), *parts])

    def content(self, spec: model_specs.ModelSpec) -> list[object]:
        """Return the values, other than the text, that determine what the server returns for a text."""
        return [spec.name, spec.revision, self.dimensions, self.characters]

    def look_up(self, model: resolving.ResolvedModel) -> records.Lookup:
        """Return a note if the server answers. Raises ModelError if not, or if the API key is unset or rejected."""
        client = self.client(model.full)
        try:
            client.reach()
        finally:
            client.close()
        return records.Lookup(note=f"served at {self.url}")

    def client(self, spec: model_specs.ModelSpec) -> "EmbeddingClient":
        """Return a client of the server. Raises ModelError if the environment variable in `key` is not set."""
        from hardneg_http.client import EmbeddingClient

        parameters: dict[str, object] = {"model": spec.name, "encoding_format": "float"}
        if self.dimensions is not None:
            parameters["dimensions"] = self.dimensions
        key, url = server.key_of(spec.name, self.key), self.url.rstrip("/")
        return EmbeddingClient(url, key, parameters, self.timeout, self.deadline, self.in_flight)

    def load(
        self, model: resolving.ResolvedModel, device: str | None = None, precision: str | None = None
    ) -> "HttpEncoder":
        """Open the model and test it with one request. `device` and `precision` have no effect.

        Raises:
            ModelError: the server's response is invalid, or its vectors differ from the cached ones.
        """
        from hardneg_http.encoder import HttpEncoder

        return HttpEncoder.opened(self, model.full)
