"""``agentnb validate --tools`` checks the arguments of calls against the schemas of their tools, in every form."""

from __future__ import annotations

import pytest
from shell_calls import Call, module, written

TOOLS = """
def fetch(station: str, rows: int = 3) -> str:
    '''Fetch.'''
    return station

def now() -> str:
    '''Now.'''
    return 'now'
"""


CALLS = [
    "name: fetch, args: {staton: brest}",
    'name: fetch, args: {station: "REFERENCE", rows: many}',
    "name: now, args: {zone: utc}",
    "name: fetch, args: {station: [5]}",
]
FORMS = {
    "workflow": ("workflow:\n", "  - {id: step%d, type: tool, %s}\n", "{{ $steps.step0.output }}", "workflow step[%d]"),
    "tasks": ("stage:\n", "  step%d: {%s}\n", "${query}", "task step%d"),
    "plan": ("steps:\n", "  - {id: step%d, type: tool, %s}\n", "$step[0].output", "step %d"),
}


def test_wrong_arguments_are_reported_with_lines_in_every_format(cli: Call, subtests: pytest.Subtests) -> None:
    takes = "It takes station, rows (optional)"
    expected = [
        "fetch: unknown argument staton. Did you mean station?",
        'fetch: "station" is missing. Add it: the tool takes station, rows (optional)',
        f'fetch: rows: "many" is not of type "integer". {takes}',
        "now: unknown argument zone. It takes no arguments",
        f'fetch: station: [5] is not of type "string". {takes}',
    ]
    for form, (head, line, reference, where) in FORMS.items():
        with subtests.test(form):
            calls = [call.replace("REFERENCE", reference) for call in CALLS]
            if form == "tasks":
                calls = [call.replace("name:", "action:").replace("args:", "input:") for call in calls]
            path = written(f"{form}.yaml", head + "".join(line % (number, call) for number, call in enumerate(calls)))
            done = cli("validate", path, "--tools", f"{module(TOOLS)}:fetch,{module(TOOLS)}:now")
            expected_problems = zip([0, 0, 1, 2, 3], expected, strict=True)
            lines = [f"{path}:{step + 2}: {where % step}: {what}" for step, what in expected_problems]
            assert done.code == 2 and done.out.splitlines() == [*lines, f"{path}: 5 problems"]


def test_arguments_from_templates_are_checked_only_when_running(cli: Call) -> None:
    path = written(
        "later.yaml",
        "inputs: {rows: 3}\nworkflow:\n"
        '  - {id: a, type: tool, name: fetch, args: {station: oban, rows: "{{ $inputs.rows }}"}}\n'
        '  - {id: b, type: tool, name: fetch, args: {station: "at {{ $steps.a.output }}"}}\n',
    )
    assert cli("validate", path, "--tools", f"{module(TOOLS)}:fetch").code == 0
    wrong = written("unchecked.yaml", "workflow:\n  - {id: a, type: tool, name: fetch, args: {staton: brest}}\n")
    assert cli("validate", wrong).code == 0
