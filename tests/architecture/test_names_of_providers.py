"""Servers differ by their rows in the data file: no other code decides by the name of a provider."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from parsed import PACKAGE, trees, walk

from agentnb.settings import REFUSED_SERVERS, SERVERS

NAMES = {*SERVERS, *REFUSED_SERVERS}
ELSEWHERE = {
    "detect/presets/coding_agents.py": {"gemini"},  # programs of a shell
    "interchange/exports/otel_export.py": {"azure", "gemini", "mistral"},  # names that the conventions have for them
    "interchange/formats/gemini_cli.py": {"gemini"},  # a role in its traces
    "models/providers/anthropic.py": {"anthropic"},  # the wire of one provider
    "models/providers/openai_responses.py": {"openai-responses"},  # the wire of one provider
    "policies/permissions/run_permissions.py": {"github"},  # the tools
    "settings.py": {"github"},  # the tools
    "tools/builtin/github/github_group.py": {"github"},  # the tools
    "tools/subject.py": {"github"},  # the tools
}
"""Files with words that are names of providers too, and why."""


def named_in(tree: ast.AST) -> Iterator[str]:
    """The names of providers among the texts of a file, alone or with the colon of a model's name."""
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.removesuffix(":") in NAMES:
            yield node.value.removesuffix(":")


def test_code_never_branches_on_a_provider_name() -> None:
    found = {str(path.relative_to(PACKAGE)): set(named_in(tree)) for path, tree in trees().items()}
    found["testing/loopback_server.py"] -= {"compatible"}  # the name that it has unless it is like another
    assert {path: names for path, names in found.items() if names} == ELSEWHERE


def test_provider_name_is_detected_in_any_expression() -> None:
    for code in ('name == "openai"', 'name in ("mistral", other)', 'name.startswith("deepseek:")', '{"groq": 1}[name]'):
        assert len([*named_in(ast.parse(code))]) == 1
    assert not [*named_in(ast.parse('"""Speaks ``openai:``."""\nadvice = "Write openai:NAME"'))]
