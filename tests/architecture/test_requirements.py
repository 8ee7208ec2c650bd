"""Every promise has a test."""

from requirements_table import listing, marked, promised


def test_every_requirement_has_a_test() -> None:
    held = marked()
    assert [number for number in promised() if number not in held] == []


def test_every_requirement_number_on_a_test_exists() -> None:
    known = promised()
    assert [number for number in marked() if number not in known] == []


def test_requirement_listing_names_its_tests() -> None:
    head, *tests = listing(["R0.8"])
    assert head.startswith("R0.8  ")
    assert f"    {marked()['R0.8'][0]}" in tests
