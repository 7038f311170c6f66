"""Shared vocabulary: frozen records in the field's terms, errors, message wording, and file and plugin names."""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand
from hardneg.records.errors import *
from hardneg.records.layout import *
from hardneg.records.types import *
from hardneg.records.wording import *

if TYPE_CHECKING:
    from hardneg.records.encoded import Encoded as Encoded, EncodedRows as EncodedRows

__getattr__ = partial(on_demand, __name__)
