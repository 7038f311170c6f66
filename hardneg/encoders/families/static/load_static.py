"""Opens static models of a folder, and builds them from a transformer's token table."""

from typing import TYPE_CHECKING

from torch import nn

from hardneg.encoders.families.static.static_encoder import StaticEncoder, bound, table_module
from hardneg.encoders.families.static.static_files import TableFiles
from hardneg.encoders.families.static.token_table import read_table, table_of, untrained, word_embeddings
from hardneg.encoders.open.loading import assembled, check_tokenizer, with_head, with_prompts
from hardneg.encoders.open.model_files import load_options
from hardneg.encoders.spec import SIDES, FullSpec
from hardneg.encoders.towers import folded, has_twins, route, twins, with_own_queries
from hardneg.records.errors import ModelError

if TYPE_CHECKING:
    from hardneg.encoders.families.static.static_family import Static
    from hardneg.encoders.open.resolved import ResolvedModel


def open_static(model: "ResolvedModel", files: TableFiles, device: str | None) -> StaticEncoder:
    """The static model of a folder, with the modules after its table, by its spec.

    Raises:
        ModelError: the files are not those of one whole model, or it does not support what the spec sets.
    """
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    spec, contract = model.full, model.contract
    for folder in {path.parent for path in files.weights}:
        load_options(folder)  # refuses anything but tensors
    if files.modules:
        whole = SentenceTransformer(str(files.folder), device="cpu", trust_remote_code=False, local_files_only=True)
        modules = list(whole.float().children())
    else:
        modules = [table_module(Tokenizer.from_file(str(files.tokenizer)), read_table(files))]
    encoder = _encoder(modules, spec, device)
    with_prompts(encoder.module, contract.prompts, contract.default_prompt_name)
    return encoder


def make_static(model: "ResolvedModel", options: "Static", device: str | None) -> StaticEncoder:
    """Builds a static model from the token table of a transformer.

    Raises:
        ModelError: its weights have no token table, or the folder cannot be opened.
    """
    from transformers import AutoTokenizer

    spec, folder = model.full, model.path
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer: name a model with a tokenizer.json")
    vectors = word_embeddings(folder)
    vectors = untrained(vectors) if options.untrained else vectors
    table = table_of(vectors, options.dimensions, options.sif)
    backend.no_truncation()
    return _encoder([table_module(backend, table)], spec, device)


def _encoder(modules: list[nn.Module], spec: FullSpec, device: str | None) -> StaticEncoder:
    modules = folded(modules, spec.name)
    whole = nn.Sequential(*modules)
    sides = {side: route(whole, side) for side in SIDES}
    for table, *_ in sides.values():
        check_tokenizer(table.tokenizer, table.num_embeddings, spec.name)
        bound(table.tokenizer, [spec.length(side) for side in SIDES])
    if has_twins(whole):
        arranged = [twins(*(with_head(sides[side], spec) for side in SIDES))]
    else:
        arranged = with_head(modules, spec)
        arranged = [twins(with_own_queries(arranged), arranged)] if spec.twins else arranged
    return StaticEncoder(assembled(arranged, spec, device), spec)
