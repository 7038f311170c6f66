"""All rates of one device and of the machine that it is in."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from hardneg.costs.estimated_seconds import UNKNOWN, Basis, Rate


def network_operations(hidden: int, layers: int, length: float) -> float:
    """Multiplications and additions of a transformer's forward pass, by token, embeddings and logits left out.

    A layer has 12 h^2 weights, each of which multiplies and adds once. Attention to L tokens takes 4 L h more: L h of
    each for the scores, and as many for what they weigh.

    Source: J. Kaplan et al., Scaling laws for neural language models, 2020, table 1 (there N = 12 n_layer d_model^2,
    and 2 N + 2 n_layer n_ctx d_attn for attention that looks one way: both ways are twice its second part).
    """
    return layers * (24.0 * hidden * hidden + 4.0 * length * hidden)


@dataclass(frozen=True)
class Pace:
    """How fast a transformer of one size goes: `tokens` a second of texts of `length` tokens; no layers: a table."""

    hidden: Annotated[int, Field(gt=0)]
    layers: Annotated[int, Field(ge=0)]
    length: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    tokens: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    @property
    def operations(self) -> float:
        """Those of a token."""
        return network_operations(self.hidden, self.layers, self.length)


@dataclass(frozen=True)
class Rates:
    """What a device does in a second; without a GPU the device is all cores of a machine.

    encode, train: paces that were measured; of training a token counts once, however often it is passed. network:
    operations of a network, for what was not measured. search: multiplications and additions of exact search, selection
    included. resident: bytes of vectors that are read where they stay in a GPU's memory. codes: that are looked up in a
    compressed index. tokenise: tokens, by the whole machine. read, write: bytes of its disk. between: bytes that it
    exchanges with others. capacity: bytes of a GPU's memory; 0 where it is not known. basis: of the paces. date: of the
    measurement.
    """

    device: str
    gpu: bool = False
    encode: tuple[Pace, ...] = ()
    train: tuple[Pace, ...] = ()
    network: Rate = UNKNOWN
    search: Rate = UNKNOWN
    resident: Rate = UNKNOWN
    codes: Rate = UNKNOWN
    tokenise: Rate = UNKNOWN
    read: Rate = UNKNOWN
    write: Rate = UNKNOWN
    between: Rate = UNKNOWN
    capacity: float = 0
    basis: Basis = "measured"
    date: str = ""

    def of_network(self, a_token: float, learning: bool = False) -> Rate:
        """Operations a second of a network that takes `a_token` operations for a token: between the nearest paces.

        Those of a training are its three passes'.
        """
        paces = [pace for pace in (self.train if learning else self.encode) if pace.layers]
        if not paces:
            return self.network
        passes = 3 if learning else 1
        known = sorted((pace.operations, passes * pace.tokens * pace.operations) for pace in paces)
        return Rate(_between(known, a_token), self.basis)

    @property
    def table(self) -> Rate:
        """Tokens a second of a model without a transformer."""
        paces = [pace.tokens for pace in self.encode if not pace.layers]
        return Rate(max(paces), self.basis) if paces else self.tokenise


def _between(known: Sequence[tuple[float, float]], at: float) -> float:
    """On a straight line between neighbours, both axes logarithmic; beyond the ends as at the ends."""
    right = bisect_left(known, (at,))
    if right in (0, len(known)):
        return known[min(right, len(known) - 1)][1]
    (below, low), (above, high) = known[right - 1], known[right]
    share = math.log(at / below) / math.log(above / below)
    return float(low * (high / low) ** share)
