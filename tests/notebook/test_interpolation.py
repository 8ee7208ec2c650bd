"""Variables in the body of a cell."""

import pytest

from agentnb.errors import InterpolationError
from agentnb.notebook.cells.interpolation import interpolate, near_misses

VARIABLES = {"name": "Ada", "row": {"a": 1, "b": [10, 20]}, "table": [[1, 2], [3, 4]]}


def test_spaced_name_in_double_braces_is_replaced(subtests: pytest.Subtests) -> None:
    for text, becomes in [
        ("{{ name }}", "Ada"),
        ("{{ row[\"a\"] }} {{ row['a'] }}", "1 1"),
        ('{{ row["b"][1] }} {{ table[-1][0] }}', "20 3"),
        ("a {{ name }} b {{ name }}", "a Ada b Ada"),
    ]:
        with subtests.test(text):
            assert interpolate(text, VARIABLES) == becomes


def test_other_text_is_unchanged(subtests: pytest.Subtests) -> None:
    for text in [
        "{name}",
        "{{name}}",
        "{{ name}}",
        "{{  name }}",
        '{"a": {"b": 1}}',
        r"\frac{a}{{b}}",
        "{{ name.upper }}",
        "{{ name() }}",
        "{{ 1 }}",
    ]:
        with subtests.test(text):
            assert interpolate(text, VARIABLES) == text


def test_inserted_text_is_not_interpolated_again() -> None:
    assert interpolate("{{ a }}", {"a": "{{ b }}", "b": "no"}) == "{{ b }}"


def test_missing_name_raises_an_error_that_mentions_it(subtests: pytest.Subtests) -> None:
    for text in ["{{ nam }}", '{{ row["c"] }}', "{{ table[9] }}", '{{ name["x"] }}']:
        with subtests.test(text):
            with pytest.raises(InterpolationError) as caught:
                interpolate(text, VARIABLES)
            assert text in str(caught.value) and "--raw" in str(caught.value)


def test_similar_name_is_suggested() -> None:
    with pytest.raises(InterpolationError, match=r"Did you mean name\?"):
        interpolate("{{ nam }}", VARIABLES)


def test_unreplaced_braces_around_a_variable_are_reported(subtests: pytest.Subtests) -> None:
    for text, advice in {
        "{{name}}": "write {{ name }},",
        "{{ name}}": "write {{ name }},",
        "{{  name }}": "write {{ name }},",
        '{{row["a"]}}': 'write {{ row["a"] }},',
        "{{ name.upper }}": "only {{ name }} and items",
        "{{ name.upper() }}": "Assign the value to a variable first",
        "{{ table | first }}": "only {{ table }} and items",
    }.items():
        with subtests.test(text):
            hint = near_misses(f"Look at {text} now", VARIABLES)
            assert hint.startswith(f"{text}: sent as typed") and advice in hint and "\n" not in hint


def test_several_unreplaced_braces_are_reported_in_one_line() -> None:
    hint = near_misses("{{name}} {{row}} {{table}} {{ name.x }} {{name}}", VARIABLES)
    assert hint.startswith("{{name}}, {{row}}, {{table}} and 1 more: sent as typed")


def test_foreign_templates_and_replaced_braces_are_not_reported(subtests: pytest.Subtests) -> None:
    for text in [
        "{{user}}",
        "{{ user.name }}",
        "{{ name }}",
        '{{ row["b"][1] }}',
        "{name}",
        '{"a": {"b": 1}}',
        r"\frac{a}{{b}}",
        "{{ 1 }}",
        "{{#each row}}",
        "{{name\n}}",
    ]:
        with subtests.test(text):
            assert near_misses(text, VARIABLES) == ""
    assert near_misses("{{_i}} {{ _.x }}", {"_i": 1, "_": 2}) == ""


def test_missing_name_is_not_resolved_to_notebook_functions() -> None:
    with pytest.raises(InterpolationError) as raised:
        interpolate("{{ nope }}", {"open": open, "row": 1})
    assert "Did you mean" not in str(raised.value) and "Define it first" in str(raised.value)
