"""Counts in words."""

from hardneg.counting import counted


def test_one_and_more() -> None:
    told = [counted(0, "error"), counted(1, "error"), counted(1234, "error"), counted(1, "query has", "queries have")]
    assert told == ["0 errors", "1 error", "1,234 errors", "1 query has"]
    assert counted(2, "query has", "queries have") == "2 queries have" and counted(2, "query") == "2 queries"
