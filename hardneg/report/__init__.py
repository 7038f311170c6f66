"""Reports: tables, figures and pages."""

from typing import TYPE_CHECKING

from hardneg import modules_on_demand

if TYPE_CHECKING:
    from hardneg.report import content, page, query_section, table

__getattr__ = modules_on_demand(__name__)
