"""Whether the modules of a model fit each other, which its files alone do not tell."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from hardneg.encoders.spec import KINDS
from hardneg.encoders.towers import evaluating

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_TEXT = "a trial"


def check_fit(encoder: "Encoder") -> None:
    """Encodes a few words as a query and as a document.

    Raises:
        Exception: of any class, where a module does not give what the one behind it takes, or the last one not what
            the kind stores.
    """
    made = encoder.representation
    with evaluating(encoder.module), torch.inference_mode():
        for kind in KINDS:
            encoded = made.run(encoder.parts(kind), encoder.features([_TEXT], kind), encoder.device, kind)
            made.gathered([(np.zeros(1, np.int64), encoded)], 1, encoder.dimension)
