"""Lines and tables cut to the width."""

from streamling.cli.canvas import Canvas


def test_text_is_truncated_at_the_end_of_the_line():
    assert Canvas(width=12, unicode=True).fit("abcdefghijklmnop") == "abcdefghijk…"
    assert Canvas(width=20).fit("abcdefghijklmnop", used=8) == "abcdefghijk>"
    assert Canvas().fit("x" * 500) == "x" * 500


def test_a_table_aligns_its_columns_and_truncates_the_last():
    lines = list(Canvas(width=20).table(("A", "B"), [("long", "x"), ("s", "y" * 40)]))
    assert lines == ["A     B", "long  x", "s     yyyyyyyyyyyyy>"]


def test_colours_are_off_by_default():
    assert Canvas().style("x", bold=True) == "x"
    assert Canvas(colour=True).style("x", bold=True) == "\x1b[1mx\x1b[0m"
