"""From one encoder for queries and documents to two that start with the same weights."""

from hardneg.models.encoder import Encoder
from hardneg.models.load import assembled, with_prompts
from hardneg.models.towers import side, twins, with_own_queries


def split(encoder: Encoder) -> Encoder:
    """A twin of an encoder: its own modules for documents, copies of them for queries.

    An encoder that has two sides already gives one with the same document side and a copy of its query side.
    """
    queries = with_own_queries(side(encoder.module, "query"))
    modules = [twins(queries, side(encoder.module, "document"))]
    whole = assembled(modules, encoder.spec, str(encoder.device))
    return Encoder(with_prompts(whole, encoder.module.prompts, encoder.module.default_prompt_name), encoder.spec)
