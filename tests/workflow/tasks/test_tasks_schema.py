"""The JSON Schema of task files, for editors."""

from __future__ import annotations

import pytest
from task_examples import HERE

from agentnb.core.schema.json_schema import check_schema, schema_problems
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import plain, read_yaml
from agentnb.workflow.tasks.task_file import OF_FILES, read_tasks
from agentnb.workflow.tasks.task_reader import ITEM_KEYS, TASK_KEYS
from agentnb.workflow.tasks.task_schema import tasks_schema

TASKS = {
    "{action: a:b, input: {x: 1}, when: len(query) > 1, post: {y: 2}, abort: true, async: true, dependsOn: first}": True,
    "{action: a:b, onError: {action: c, input: {x: 1}}, retry: {type: exponential, maxRetries: 2, delay: 500ms}}": True,
    "{when: true, goto: [{when: len(query) > 1, task: first}, {task: end}]}": True,
    "{emit: {forEach: [1], as: x, task: {one: {action: a:b, abort: true}}}, await: {mode: first, timeout: 5m}}": True,
    "{await: true}": True,
    "{inner: {action: a:b}, vars: {n: 1}}": True,
    "{action: a:b, retry: {maxRetries: 2, delay: soon}}": False,
    "{action: a:b, onerror: {action: c}}": False,
    "{action: a:b, onError: {input: {}}}": False,
    "{goto: t}": False,
    "{emit: {forEach: [1], task: {one: {action: a:b}}}}": False,
    "{emit: {forEach: [1], as: x, task: {one: {action: a:b}, two: {action: a:b}}}}": False,
    "{emit: {forEach: [1], as: x, task: {one: {action: a:b, goto: {task: end}}}}}": False,
    "{await: {mode: some}}": False,
    "{inner: 1}": False,
}
FILES = {
    "init: {a: 1}\nvars: {b: 2}\nstage: {t: {action: a:b}}\nlimits: {budget: 1}\nmax_loop_iterations: 3": True,
    "pipeline: {t: {action: a:b}}\napproval: {mode: ask, allow: [f], block: g}": True,
    "stage: {t: {action: a:b}}\napproval: maybe": False,
    "stage: {t: {action: a:b}}\npipeline: {}": False,
    "init: {}": False,
    "stage: {t: {action: a:b}}\noutput: t": False,
}


def problems_of(text: str) -> list[str]:
    node = read_yaml(text, Problems())
    assert node is not None
    return list(schema_problems(tasks_schema(), plain(node)))


def test_schema_is_valid_and_lists_exactly_the_keys_read() -> None:
    schema = check_schema(tasks_schema(), "It", "")
    assert set(schema["properties"]) == set(OF_FILES)
    assert set(schema["$defs"]["task"]["properties"]) == set(TASK_KEYS)
    assert set(schema["$defs"]["item_task"]["properties"]) == set(ITEM_KEYS)
    assert schema["$defs"]["task"]["properties"]["dependsOn"]["description"].startswith("Tasks or blocks that must")


def test_every_example_matches_the_schema(subtests: pytest.Subtests) -> None:
    files = [path for path in HERE.glob("*.yaml") if not path.name.endswith(".run.yaml") and path.stem != "problems"]
    assert len(files) == 5
    for path in files:
        with subtests.test(path.name):
            assert problems_of(path.read_text(encoding="utf-8")) == []


def test_schema_and_reader_refuse_the_same_texts(subtests: pytest.Subtests) -> None:
    texts = {f"stage: {{first: {{action: a:b}}, t: {task}}}": fits for task, fits in TASKS.items()} | FILES
    for text, fits in texts.items():
        with subtests.test(text):
            problems = Problems()
            read_tasks(text, problems)
            assert (not problems_of(text)) == (not problems.found) == fits
