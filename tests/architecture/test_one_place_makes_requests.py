"""Requests to models are prepared in one place: nowhere else is a `Request`, or a changed copy, made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from parsed import PACKAGE, calls, trees, walk

ITS_OWN = PACKAGE / "core" / "request.py"
ALLOWED = {
    "chat/plans/planning.py": ["plan_request"],
    "context/compaction.py": ["summary_request"],
    "context/request_builder.py": ["RequestBuilder.request"],
    "context/side_question.py": ["side_question"],
    "core/request.py": ["Request.and_then"],
    "models/providers/anthropic.py": ["body"],
    "workflow/plans/planner.py": ["_request"],
}
"""Functions that make one: for a summary, a round, a detector's question, a plan, to continue a reply that the provider paused,
and to name the tools of calls in the conversation of a request without tools, as one provider wants.
"""


def made_in(path: Path, tree: ast.Module) -> list[str]:
    """The functions of this file that make a request, once for each place; under its name, another, or that of its module."""
    own = path == ITS_OWN
    names = {*_names(tree), *(("Request",) if own else ())}
    copied = {"request", *(("self",) if own else ())}
    return [place for place, call in calls(tree) if _is(call.func, names, "Request") or _copies(call, copied)]


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the local names of `Request`, wherever in the package it is imported from."""
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names if one.name == "Request")


def _is(node: ast.expr, names: set[str], attribute: str) -> bool:
    """True for one of these names, or for this attribute of anything, as of a module."""
    return node.attr == attribute if isinstance(node, ast.Attribute) else isinstance(node, ast.Name) and node.id in names


def _copies(call: ast.Call, names: set[str]) -> bool:
    """True if the call replaces a field of a value with one of these names: that is another request."""
    return _is(call.func, {"replace"}, "replace") and bool(call.args) and _is(call.args[0], names, "request")


@pytest.mark.req("KX.7")
def test_requests_are_made_only_in_allowed_functions() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): made_in(path, tree) for path, tree in trees().items()}
    assert {name: places for name, places in found.items() if places} == ALLOWED
