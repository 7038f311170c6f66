"""Figures as texts: what tables and sentences of a report show them as."""

from hardneg.evaluation.significance import Interval


def number(value: float) -> str:
    """Four digits after the point, as papers print them."""
    return f"{value:.4f}"


def signed(value: float) -> str:
    """Four digits with a sign."""
    return f"{value:+.4f}".replace("-", "−")


def p_value(value: float) -> str:
    """Three digits, or how small it is."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def equation(name: str, value: float) -> str:
    """A p value with its sign of comparison."""
    shown = p_value(value)
    return f"{name} {shown}" if shown.startswith("<") else f"{name} = {shown}"


def bounds(interval: Interval | None, show: str = ".3f") -> str:
    """The two ends in brackets; a dash where there is no interval."""
    return f"[{interval.low:{show}}, {interval.high:{show}}]".replace("-", "−") if interval else "–"


def difference(value: float, interval: Interval | None) -> str:
    """A difference of means with its 95 % interval, where there is one."""
    bounded = within(interval, -1.0)
    ends = f", 95 % interval {bounded.low:+.3f} to {bounded.high:+.3f}".replace("-", "−") if bounded else ""
    return f"{signed(value)}{ends}"


def within(interval: Interval | None, low: float, high: float = 1.0) -> Interval | None:
    """The part of an interval from `low` to `high`, the least and the most that a mean can be.

    An interval by Student's t knows no such ends; what is cut off holds no value, so that the rest covers as much.
    """
    return interval and Interval(max(interval.low, low), min(interval.high, high))
