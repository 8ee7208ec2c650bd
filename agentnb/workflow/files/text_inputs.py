"""The inputs that a workflow is given in a shell or a cell, as text."""

from __future__ import annotations

import json
from typing import Any

from agentnb.errors import SettingsError
from agentnb.workflow.files.files import file_text, path_of
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import plain, read_yaml

EXAMPLE = 'Such as -i \'{"subject": "tides"}\''


def read_inputs(given: str | None) -> dict[str, Any]:
    """Return the inputs by name: from JSON that begins with ``{``, or from a file of JSON or YAML."""
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
