"""Numbers as texts, in tables and sentences of a report."""

from hardneg.evaluation.intervals import Interval


def number(value: float) -> str:
    """Return four digits after the point, as papers print them."""
    return f"{value:.4f}"


def signed(value: float) -> str:
    """Return four digits with a sign."""
    return f"{value:+.4f}".replace("-", "−")


def p_value(value: float) -> str:
    """Return three digits, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def equation(name: str, value: float) -> str:
    """Return `p = 0.012` or `p < 0.001`."""
    shown = p_value(value)
    return f"{name} {shown}" if shown.startswith("<") else f"{name} = {shown}"


def bounds(interval: Interval | None, show: str = ".3f", empty: str = "–") -> str:
    """Return the two ends in brackets; `empty` without an interval."""
    return f"[{interval.low:{show}}, {interval.high:{show}}]".replace("-", "−") if interval else empty


def difference(value: float, interval: Interval | None) -> str:
    """Return a difference of means, with its 95 % interval if there is one."""
    bounded = within(interval, -1.0)
    ends = f", 95 % interval {bounded.low:+.3f} to {bounded.high:+.3f}".replace("-", "−") if bounded else ""
    return f"{signed(value)}{ends}"


def within(interval: Interval | None, low: float, high: float = 1.0) -> Interval | None:
    """Return the part of an interval from `low` to `high`, the least and the most that a mean can be.

    An interval by Student's t may reach beyond; no mean lies there, so the rest covers as much.
    """
    return interval and Interval(max(interval.low, low), min(interval.high, high))
