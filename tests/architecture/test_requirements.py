"""Every promise has a test."""

from requirements_table import listing, marked, promised


def test_every_requirement_has_a_test() -> None:
    held = marked()
    assert [number for number in promised() if number not in held] == []


def test_every_marked_number_is_promised() -> None:
    known = promised()
    assert [number for number in marked() if number not in known] == []


def test_listing_names_the_tests_of_a_requirement() -> None:
    head, *tests = listing(["R0.8"])
    assert head.startswith("R0.8  ")
    assert f"    {marked()['R0.8'][0]}" in tests
