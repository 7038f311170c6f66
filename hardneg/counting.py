"""Counts in words."""


def counted(count: int, one: str, more: str = "") -> str:
    """`1 query`, `1,200 queries`: a count with its word, or with a few that depend on it, such as `query has`.

    Args:
        count: how many.
        one: what one of them is called.
        more: what others are called; if empty, `one` with its last y as ies, or with an s.
    """
    return f"{count:,} {one if count == 1 else more or _several(one)}"


def _several(one: str) -> str:
    return f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
