"""``agentnb schema``: the JSON Schema of a kind of file, for editors."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from agentnb.cli.command import Command, argument
from agentnb.errors import SettingsError, suggest_names
from agentnb.workflow.files.workflow_schema import workflow_schema
from agentnb.workflow.tasks.task_schema import tasks_schema

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"workflow": workflow_schema, "tasks": tasks_schema}


def schema(args: Namespace) -> str:
    """Write the JSON Schema of workflow files, or of task files, for editors that complete and check YAML."""
    if args.name not in SCHEMAS:
        raise SettingsError(f"There is no schema {args.name}", suggest_names(args.name, SCHEMAS))
    return json.dumps(SCHEMAS[args.name](), indent=2, ensure_ascii=False) + "\n"


SCHEMA = Command(
    schema,
    (argument("name", metavar="NAME", help=", ".join(SCHEMAS)),),
    "agentnb schema workflow > workflow.schema.json\nagentnb schema tasks > tasks.schema.json\n\n"
    "Name it in the first line of a file, as a path from there or a URL:\n# yaml-language-server: $schema=workflow.schema.json",
)
