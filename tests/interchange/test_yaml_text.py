"""YAML is read as plain data: nothing is executed, and the expansion of aliases is bounded."""

from __future__ import annotations

import pytest

from agentnb.errors import TraceError
from agentnb.interchange import yaml_text
from agentnb.interchange.yaml_text import load_yaml


def test_plain_data_and_aliases_are_read() -> None:
    data = b"---\na: &x [1, two, null]\nb: *x\nc: !!binary aGk=\nd: |\n  text\n"
    assert load_yaml(data, "a.yaml") == {"a": [1, "two", None], "b": [1, "two", None], "c": b"hi", "d": "text\n"}
    assert load_yaml(b"a: 1\n---\nb: 2\n", "a.yaml") == {"a": 1} and load_yaml(b"", "a.yaml") is None


def test_yaml_beyond_plain_data_or_bounds_is_refused(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MAX_VALUES", 10_000)
    monkeypatch.setattr(yaml_text, "MAX_YAML_BYTES", 10_000)
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    merges = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))
    for name, data, told in (
        ("a tag of Python", "!!python/object/apply:os.system ['true']", "is not YAML"),
        ("an unknown tag", "a: !thing {b: 1}", "is not YAML"),
        ("damaged", "a: [1,", "is not YAML"),
        ("control characters", "a: \x00", "is not YAML"),
        ("aliases of aliases", bomb, "expands to more than"),
        ("merges of merges", merges, "is not YAML"),
        ("contains itself", "&a [*a]", "contains itself"),
        ("too large", "a" * 10_001, "is larger than 0 MB"),
        ("too deep", "[" * 9_000, "is not YAML"),
    ):
        with subtests.test(name), pytest.raises(TraceError, match=told):
            load_yaml(data.encode(), "a.yaml")
