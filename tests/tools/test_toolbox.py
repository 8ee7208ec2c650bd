"""The tools of an agent by name: unique, ordered, with suggestions for unknown names."""

from __future__ import annotations

import pytest

from agentnb.errors import InvalidTool, UnknownTool
from agentnb.tools.function import FunctionTool, tool
from agentnb.tools.toolbox import Toolbox


def read_table() -> None:
    """Read."""


def write_table() -> None:
    """Write."""


def plot() -> None:
    """Plot."""


@pytest.mark.req("R2.6")
def test_tools_keep_their_order() -> None:
    for functions in ([plot, read_table, write_table], [write_table, plot, read_table]):
        box = Toolbox(functions)
        names = [function.__name__ for function in functions]
        assert [spec.name for spec in box.specs] == names
        assert [one.spec.name for one in box] == names
        assert len(box) == 3


@pytest.mark.req("R2.6")
def test_second_tool_with_one_name_is_refused() -> None:
    with pytest.raises(InvalidTool, match='tool "plot" already registered'):
        Toolbox([plot, read_table, FunctionTool(read_table, name="plot")])
    box = Toolbox([plot])
    with pytest.raises(InvalidTool, match='tool "plot" already registered'):
        box.register(FunctionTool(plot))
    assert [spec.name for spec in box.specs] == ["plot"]


@pytest.mark.req("R2.6")
def test_tool_is_found_by_name() -> None:
    @tool(name="other")
    def read_another() -> None: ...

    box = Toolbox([plot, read_another])
    result = box.get("other")
    assert result is not None and result.spec.name == "other"
    assert (box.get("read_another"), box.get("Plot")) == (None, None)


@pytest.mark.req("R2.6", "R0.72", "KX.6")
def test_unknown_tool_is_answered_with_similar_names(subtests: pytest.Subtests) -> None:
    cases = [
        ("read_tabel", "Did you mean read_table"),
        ("zzz", "Available: read_table, write_table, plot."),
        ("", "Available: read_table, write_table, plot."),
    ]
    for asked, advice in cases:
        with subtests.test(asked):
            outcome = Toolbox([read_table, write_table, plot]).not_found(asked)
            assert (outcome.ok, outcome.error_code) == (False, "unknown_tool")
            assert outcome.text.startswith(f"tool not found: {asked}. {advice}")
            assert outcome.as_result("toolu_1", asked).is_error


@pytest.mark.req("R2.6")
def test_unknown_tool_error_without_tools_advises_answering_with_text() -> None:
    assert "answer with text" in Toolbox().not_found("plot").text


@pytest.mark.req("R2.6")
def test_name_instead_of_a_function_is_refused() -> None:
    with pytest.raises(UnknownTool, match="'fils'"):
        Toolbox(["fils"])


def test_known_tool_runs_without_being_advertised() -> None:
    box = Toolbox([plot])
    other = box.knowing(FunctionTool(read_table))
    assert [spec.name for spec in other.specs] == ["plot"]
    assert other.get("read_table") is not None
    assert box.get("read_table") is None
