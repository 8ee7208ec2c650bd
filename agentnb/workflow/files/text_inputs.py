"""Workflow inputs given as text, in a shell or a cell."""

from __future__ import annotations

import json
from typing import Any

from agentnb.errors import SettingsError
from agentnb.workflow.files.nested_files import file_text, path_of
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import plain, read_yaml

EXAMPLE = 'For example: -i \'{"subject": "tides"}\''


def read_inputs(given: str | None) -> dict[str, Any]:
    """Parse the inputs: JSON text that starts with ``{``, or the path of a JSON or YAML file."""
    if given is None:
        return {}
    if given.lstrip().startswith("{"):
        inputs = _from_json(given, "-i")
    else:
        path = path_of(given)
        text = file_text(path)
        inputs = _from_json(text, str(path)) if path.suffix.lower() == ".json" else _from_yaml(text, str(path))
    if not isinstance(inputs, dict):
        raise SettingsError(f"-i {given}: inputs must be a mapping of names", EXAMPLE)
    return inputs


def _from_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{source} is not JSON: {error}", EXAMPLE) from error


def _from_yaml(text: str, source: str) -> Any:
    problems = Problems(source)
    node = read_yaml(text, problems)
    problems.check()
    return None if node is None else plain(node)
