"""Reports: tables, figures and pages."""

from functools import partial
from typing import TYPE_CHECKING

from hardneg import on_demand

if TYPE_CHECKING:
    from hardneg.report import content, page, query_section, table

__getattr__ = partial(on_demand, __name__)
