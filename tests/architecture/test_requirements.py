"""Every promise has a test, and the table that says so is current."""

from requirements_table import TABLE, marked, promised, text


def test_every_requirement_has_a_test() -> None:
    held = marked()
    assert [number for number in promised() if number not in held] == []


def test_every_marked_number_is_promised() -> None:
    known = promised()
    assert [number for number in marked() if number not in known] == []


def test_the_table_is_current() -> None:
    assert TABLE.read_text(encoding="utf-8") == text(), "run: python tests/architecture/requirements_table.py"
