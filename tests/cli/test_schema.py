"""``agentnb schema``: the JSON Schemas of files, for editors."""

from __future__ import annotations

import json

from shell_calls import Call

from agentnb.workflow.files.workflow_schema import workflow_schema
from agentnb.workflow.tasks.task_schema import tasks_schema


def test_schema_of_each_file_format_is_printed(cli: Call) -> None:
    for name, schema in {"workflow": workflow_schema(), "tasks": tasks_schema()}.items():
        done = cli("schema", name)
        assert (done.code, done.err, json.loads(done.out)) == (0, "", schema)


def test_unknown_schema_name_is_refused_with_valid_ones(cli: Call) -> None:
    done = cli("schema", "workflows")
    assert done.code == 2 and "There is no schema workflows" in done.err and "workflow" in done.err
