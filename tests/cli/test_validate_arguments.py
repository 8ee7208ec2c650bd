"""``agentnb validate --tools`` checks the arguments of tool steps against the schemas of their tools."""

from __future__ import annotations

from shell_calls import Call, module, written

TOOLS = """
def fetch(station: str, rows: int = 3) -> str:
    '''Fetch.'''
    return station

def now() -> str:
    '''Now.'''
    return 'now'
"""


def test_wrong_arguments_are_problems_with_their_lines(cli: Call) -> None:
    path = written(
        "args.yaml",
        "workflow:\n"
        "  - {id: a, type: tool, name: fetch, args: {staton: brest}}\n"
        '  - {id: b, type: tool, name: fetch, args: {station: "{{ $steps.a.output }}", rows: many}}\n'
        "  - {id: c, type: tool, name: now, args: {zone: utc}}\n"
        "  - id: d\n    type: tool\n    name: fetch\n    args:\n      station: [5]\n",
    )
    tools = f"{module(TOOLS)}:fetch,{module(TOOLS)}:now"
    done = cli("validate", path, "--tools", tools)
    takes = "It takes station, rows (optional)"
    assert done.code == 2 and done.out.splitlines() == [
        f"{path}:2: workflow step[0]: args of fetch: There is no argument 'staton'. Did you mean station? {takes}",
        f'{path}:2: workflow step[0]: args of fetch: "station" is missing. {takes}',
        f'{path}:3: workflow step[1]: args of fetch: rows: "many" is not of type "integer". {takes}',
        f"{path}:4: workflow step[2]: args of now: There is no argument 'zone'. It takes no arguments",
        f'{path}:8: workflow step[3]: args of fetch: station: [5] is not of type "string". {takes}',
        f"{path}: 5 problems",
    ]


def test_arguments_that_templates_give_are_left_to_the_run(cli: Call) -> None:
    path = written(
        "later.yaml",
        "inputs: {rows: 3}\nworkflow:\n"
        '  - {id: a, type: tool, name: fetch, args: {station: oban, rows: "{{ $inputs.rows }}"}}\n'
        '  - {id: b, type: tool, name: fetch, args: {station: "at {{ $steps.a.output }}"}}\n',
    )
    assert cli("validate", path, "--tools", f"{module(TOOLS)}:fetch").code == 0
    wrong = written("unchecked.yaml", "workflow:\n  - {id: a, type: tool, name: fetch, args: {staton: brest}}\n")
    assert cli("validate", wrong).code == 0
