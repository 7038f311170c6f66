"""The family `http`: a model that a server holds; what is known of it is what the recipe says."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from hardneg.plugin import encoding, errors, model_server, model_specs, records, resolving, stores

if TYPE_CHECKING:
    from hardneg_http.client import EmbeddingClient
    from hardneg_http.encoder import HttpEncoder

_LEFT_TO_SERVER = (
    "pooling", "projection", "layer_norm", "activation", "twins", "query_length", "document_length",
    "query_token_type", "document_token_type", "dtype", "adapter",
)  # fmt: skip


@dataclass(frozen=True)
class Http:
    """A model behind an OpenAI-compatible server, as TEI, infinity and vLLM are; it encodes and cannot be trained.

    Attributes:
        url: What `/embeddings` is put behind, such as http://localhost:8080/v1; it does not count in a key.
        key: The environment variable that holds the API key; none is sent where it is not given.
        dimensions: How many numbers of a vector the server is asked for, of a model that can shorten its own.
        characters: How many characters of a text are sent; all where it is not given, and the server cuts.
        batch: Texts of a request, at most.
        batch_characters: Characters of a request, at most, unless one text has more.
        in_flight: Requests that wait for an answer at a time, at most.
        timeout: Seconds in which the server must begin to answer, and go on.
        deadline: Seconds for a request with all its attempts.
        cache: Gigabytes of vectors that are kept on this machine for a model; 0 keeps none.
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
        model_server.check_address(self.url, "http://localhost:8080/v1")
        for name in ("dimensions", "characters", "batch", "batch_characters", "in_flight", "timeout", "deadline"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"{name}: {value} must be above 0")
        if self.cache < 0:
            raise ValueError(f"cache: {self.cache} must not be below 0")

    def full(self, model: resolving.ResolvedModel) -> model_specs.FullSpec:
        """The spec, with no prompts, and cosines, where it does not say otherwise.

        Raises ModelError where it says what only the server can.
        """
        spec = model.spec
        plain = model_specs.ModelSpec(spec.name)
        if said := [name for name in _LEFT_TO_SERVER if getattr(spec, name) != getattr(plain, name)]:
            raise errors.ModelError(f"model {spec.name!r}: {', '.join(said)}: a server decides on that; leave it out")
        own = {field.name: getattr(spec, field.name) for field in fields(model_specs.ModelSpec)}
        own_prompts = {f"{side}_prompt": getattr(spec, f"{side}_prompt") or "" for side in ("query", "document")}
        lengths = {name: getattr(model_specs.FullSpec, name) for name in ("query_length", "document_length")}
        prompts = model_specs.whole_prompts(spec.name, own_prompts, spec.task, {})
        return model_specs.FullSpec(
            **{**own, **lengths, **prompts, "task": None, "similarity": spec.similarity or "cosine"}
        )

    def digest(self, model: resolving.ResolvedModel) -> str:
        """That of the model's name and revision, and of what changes vectors on their way; the server is not asked.

        A vector's last digits differ from answer to answer of one server, so vectors cannot name a model. Whoever
        changes a server's weights under the same name gives another `revision`.
        """
        full = model.full
        said = [full.similarity, full.query_prompt, full.document_prompt, full.truncate_dim]
        return stores.digest(["http", self.version, *self.content(full), *said])

    def content(self, spec: model_specs.ModelSpec) -> list[object]:
        """What a text's vector from the server depends on, besides the text."""
        return [spec.name, spec.revision, self.dimensions, self.characters]

    def look_up(self, model: resolving.ResolvedModel) -> records.Lookup:
        """That the server answers. Raises ModelError where it does not, or the variable of the key is empty."""
        client = self.client(model.full)
        try:
            client.reach()
        finally:
            client.close()
        return records.Lookup(note=f"served at {self.url}")

    def client(self, spec: model_specs.ModelSpec) -> "EmbeddingClient":
        """Who asks the server. Raises ModelError where the variable holds no key."""
        from hardneg_http.client import EmbeddingClient

        said: dict[str, object] = {"model": spec.name, "encoding_format": "float"}
        if self.dimensions is not None:
            said["dimensions"] = self.dimensions
        key, url = model_server.key_of(spec.name, self.key), self.url.rstrip("/")
        return EmbeddingClient(url, key, said, self.timeout, self.deadline, self.in_flight)

    def load(
        self, model: resolving.ResolvedModel, device: str | None = None, precision: str | None = None
    ) -> "HttpEncoder":
        """The model, asked for one vector; device and precision are the server's own.

        Raises:
            ModelError: the server does not answer as it should, or its weights are others than those of kept vectors.
        """
        from hardneg_http.encoder import HttpEncoder

        return HttpEncoder.opened(self, model.full)
