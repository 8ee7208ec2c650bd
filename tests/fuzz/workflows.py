"""Damaged and hostile workflow and task files: each is read and drawn; one that validates is run on scripted replies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from agentnb import RunOptions, Workflow
from agentnb.core.questions import WaitingOnUser
from agentnb.errors import AgentnbError
from agentnb.models import ScriptedModel
from agentnb.workflow.files.declared_files import drawing_of

EXAMPLES = Path(__file__).parents[1] / "workflow" / "examples"
NAMES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml") if ".run." not in path.name)
MAX_SECONDS_OF_RUNS = 0.2
KEYS = (
    *("agents", "workflow", "inputs", "output", "limits", "max_loop_iterations", "steps", "overrides", "stage", "pipeline"),
    *("id", "type", "name", "prompt", "context", "condition", "true", "false", "goto", "args", "ask", "confirm", "choices"),
    *(
        "form",
        "over",
        "step",
        "max_concurrency",
        "file",
        "timeout",
        "retry",
        "on_error",
        "end",
        "max_attempts",
        "on",
        "backoff",
    ),
    *("action", "input", "when", "post", "onError", "abort", "dependsOn", "async", "emit", "forEach", "as", "task", "await"),
    *("init", "vars", "approval", "structured_output", "instruction", "tools", "model", "replies", "continue", "budget"),
)
FILES = ("other.yaml", "chain0.yaml", "none.yaml", "/etc/passwd", "/proc/kmsg", "/dev/zero", "pipe.yaml", "link.yaml", ".")
"""Files that a step may run: others, and irregular ones."""
KINDS = ("agent", "condition", "parallel", "goto", "tool", "human", "map", "workflow")
VALUES = (
    *(
        "",
        "~",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "1e999",
        ".inf",
        "9" * 400,
        "0x10",
        "0o17",
        "end",
        "[]",
        "{}",
        "[[]]",
        "*a",
        "&a 1",
    ),
    *("|\n  x", ">-\n  y", "'", '"', "!!python/object:os.system x", "!tag x", "\x00", "\ufeff", "\ud83d", "\u202e", "a: b: c"),
    *("'{{ $steps.s0.output }}'", "'{{ $steps.s0.output == 5 }}'", "'{{ len($steps) }}'", "'{{ $item }}'", "'{{'", "'{{ $ }}'"),
    *("'{{ $steps.s0.runs[0].output }}'", "'{{ $prompt * 9 }}'", "'{{ 9 ** 9 }}'", "'{{ $inputs.a.b[$index] }}'", "'${'"),
    *("'${result}'", "'${x.y[0]}'", "'${len(results)}'", "'${query + query}'", "'{{ $steps[\"s0\"].output }}'"),
    *(
        "/(a+)+$/",
        "'/(/'",
        "['/(x+x+)+y/', timeout]",
        "/etc/passwd",
        "/proc/kmsg",
        "/dev/zero",
        "pipe.yaml",
        "link.yaml",
        "own.yaml",
        "other.yaml",
        "../x",
    ),
    *("s0", "s1", "back_to_s0", "ok", "fail", "answer", "{goto: s0}", "{continue: 1}", "{goto: 0}", "[s0, s1]", "all", "none"),
)
"""Texts in the place of a value; the backslashes are YAML's."""


def ok(**arguments: Any) -> Any:
    """Return the arguments."""
    return arguments or "ok"


async def fail(**arguments: Any) -> str:
    """Fail with a long error."""
    raise ValueError("a" * 40 + str(arguments)[:100])


def answer() -> str:
    """Return JSON within prose."""
    return 'Here it is: {"ok": true, "score": 5, "list": [1, 2, 3], "text": "x"} and [1]'


def reply(question: WaitingOnUser) -> Any:
    """Answer a question of a step."""
    schema = question.schema or {}
    return schema["enum"][0] if "enum" in schema else True if schema.get("type") == "boolean" else "x"


def own_step(random: Random, depth: int = 0, *, in_block: bool = False) -> str:
    """Return a step in flow style, mostly a sound one."""
    kind = random.choice(KINDS)
    kind = "tool" if in_block and kind == "goto" else kind
    target = random.choice(("s0", "0", "end"))
    value = random.choice(VALUES) if random.random() < 0.05 else "'{{ $steps.s0.output.score >= 5 }}'"

    def inner(*, around: str = "") -> str:
        if random.random() > 0.8**depth:  # the deeper the fewer, so that it ends
            return f"{{id: s{random.randrange(10**9)}, type: tool, name: ok}}"
        return own_step(random, depth + 1, in_block=in_block or around != "")

    def branch() -> str:
        return inner() if in_block or random.random() < 0.5 else f"{{goto: {target}}}"

    keys: dict[str, Callable[[], str]] = {
        "agent": lambda: f"name: a, prompt: {value}",
        "condition": lambda: f"condition: {value}, true: {inner()}, false: {branch()}",
        "parallel": lambda: f"steps: [{inner(around=kind)}, {inner(around=kind)}]",
        "goto": lambda: f"goto: {target}",
        "tool": lambda: f"name: {random.choice(('ok', 'fail', 'answer'))}, args: {{x: {value}}}",
        "human": lambda: f"ask: {value}",
        "map": lambda: f"over: {random.choice(('[1, 2]', '[]', value))}, step: {inner(around=kind)}",
        "workflow": lambda: f"file: {random.choice(FILES)}",
    }
    more = (
        f", {random.choice(KEYS)}: {random.choice(VALUES)}" if random.random() < 0.03 else "",
        ", timeout: 0.05" if kind not in ("condition", "goto") and random.random() < 0.1 else "",
        ", retry: {max_attempts: 3, initial_delay_seconds: 0}" if kind in ("agent", "tool") and random.random() < 0.2 else "",
        f", on_error: {random.choice(('{continue: true}', '{goto: s0}'))}" if kind == "tool" and not in_block else "",
    )
    own_id = f"s{random.randrange(10**9) if random.random() < 0.98 else 0}"
    return f"{{id: {own_id}, type: {kind}, {keys[kind]()}{''.join(more)}}}"


def own_workflow(random: Random) -> str:
    """Return a workflow made of steps of every kind."""
    first = "  - {id: s0, type: tool, name: answer}\n"
    steps = "".join(f"  - {own_step(random)}\n" for _ in range(random.choice((0, 1, 3, 8, 40))))
    limit = random.choice((1, 5, 10**9))
    return f"agents: {{a: {{instruction: Work., replies: [x]}}}}\nmax_loop_iterations: {limit}\nworkflow:\n{first}{steps}"


def own_tasks(random: Random) -> str:
    """Return a task file made of tasks of every kind."""
    lines = []
    for number in range(random.choice((1, 3, 8, 40))):
        target = f"t{random.randrange(number + 1)}"
        value = random.choice(VALUES) if random.random() < 0.1 else "'${len(results)}'"
        keys = random.sample(
            (
                f"action: {random.choice(('ok', 'fail', 'answer', 'x:y'))}",
                f"input: {{x: {value}}}",
                f"when: {random.choice(('len(results) > 0', 'query == 1', value))}",
                f"post: {{v{number}: {value}}}",
                f"goto: {{task: {target}}}",
                f"goto: [{{task: {target}, when: {value}}}]",
                f"onError: {{action: ok, input: {{x: {value}}}}}",
                "abort: true",
                f"dependsOn: [{target}]",
                "async: true",
                f"emit: {{forEach: {value}, as: i, task: {{one{number}: {{action: ok}}}}}}",
                f"await: {random.choice(('true', f'{{on: [{target}], mode: first}}'))}",
                f"retry: {{maxRetries: {random.choice((1, 9))}, delay: 0}}",
            ),
            random.randrange(1, 5),
        )
        lines.append(f"    t{number}: {{{', '.join(keys)}}}")
    return f"max_loop_iterations: {random.choice((1, 5, 10**9))}\nstage:\n  main:\n" + "\n".join(lines)


def slow(random: Random) -> str:
    """Return a file that repeats one part many times."""
    count = random.choice((100, 100, 100, 3_000, 3_000, 20_000))
    return random.choice(
        (
            lambda: "workflow:\n" + "  - {id: s, type: tool, name: ok}\n" * count,
            lambda: "workflow:\n" + "".join(f"  - {{goto: q{n}}}\n" for n in range(count)),
            lambda: "workflow:\n  - &s {type: tool, name: ok}\n" + "  - *s\n" * count,
            lambda: "workflow: " + "[" * count,
            lambda: "workflow: [{type: tool, name: ok, args: {x: '" + "{{ $prompt }}" * count + "'}}]",
            lambda: "workflow: [{type: tool, name: ok, args: {x: '" + "{{ " * count + "'}}]",
            lambda: "workflow: [{type: condition, condition: '{{ " + "!" * count + "true }}'}]",
            lambda: (
                "workflow:\n"
                + "".join(f"  - {{id: s{n}, type: condition, condition: 'true', true: {{goto: s0}}}}\n" for n in range(count))
            ),
            lambda: "x: &a [1, 1]\n" + "".join(f"y{n}: &b{n} [*a, *a]\n" for n in range(count)) + "workflow: []",
            lambda: (
                "stage:\n  m:\n"
                + "".join(f"    t{n}: {{post: {{v: '${{v{n}}}'}}, goto: {{task: q{n}}}}}\n" for n in range(count))
            ),
            lambda: (
                "stage:\n  m:\n"
                + "".join(f"    t{n}: {{async: true, action: ok, dependsOn: [t{n - 1}]}}\n" for n in range(count))
            ),
            lambda: "a: &a " + "x" * count * 40 + "\nb: [" + "*a, " * count + "]\nworkflow: []",
            lambda: f"workflow: [{{type: map, over: [{'1, ' * count}], step: {{type: tool, name: ok}}}}]",
        )
    )()


def example(random: Random) -> str:
    """Return a file of the examples."""
    return (EXAMPLES / random.choice(NAMES)).read_text()


def damage(random: Random, text: str) -> str:
    """Change lines, keys, values and characters of a text."""
    for _ in range(random.choice((0, 0, 0, 1, 2, 20))):
        lines = text.split("\n")
        at, to = random.randrange(len(lines)), random.randrange(len(lines))
        change: Callable[[], None] = random.choice(
            (
                lambda lines=lines, at=at: lines.pop(at),
                lambda lines=lines, at=at, to=to: lines.insert(to, lines[at]),
                lambda lines=lines, at=at: lines.__setitem__(at, " " * random.choice((1, 2, 4)) + lines[at]),
                lambda lines=lines, at=at: lines.__setitem__(at, lines[at].lstrip()),
                lambda lines=lines, at=at: lines.__setitem__(at, lines[at].partition(":")[0] + f": {random.choice(VALUES)}"),
                lambda lines=lines, at=at: lines.__setitem__(at, lines[at].replace(random.choice(KEYS), random.choice(KEYS))),
                lambda lines=lines, at=at: lines.insert(at, f"{random.choice(KEYS)}: {random.choice(VALUES)}"),
                lambda lines=lines, at=at: lines.extend(lines[at:] * random.choice((1, 2, 50))),
            )
        )
        change()
        text = "\n".join(lines)[:1_100_000]
        if text and random.random() < 0.3:
            place = random.randrange(len(text))
            text = text[:place] + random.choice(VALUES) + text[place + random.choice((0, 1, 9)) :]
    return text


def write_chain(random: Random, folder: Path) -> None:
    """Write files that each run the next, once or more often."""
    count, times = random.choice(((3, 1), (30, 1), (400, 1), (12, 2), (25, 2), (2, 40)))
    for number in range(count):
        steps = "".join(
            f"  - {{id: c{one}, type: workflow, file: chain{(number + 1) % (count + 1)}.yaml}}\n" for one in range(times)
        )
        (folder / f"chain{number}.yaml").write_text(f"workflow:\n{steps}")
    (folder / f"chain{count}.yaml").write_text("workflow: [{type: tool, name: ok}]")


def write(random: Random, folder: Path) -> Path:
    """Write a file, and those that it may run, into the folder."""
    makers = (example, own_workflow, own_workflow, own_tasks, slow)
    path = folder / "own.yaml"
    os.mkfifo(folder / "pipe.yaml")
    (folder / "link.yaml").symlink_to("link.yaml")
    (folder / "other.yaml").write_text(damage(random, own_workflow(random)), errors="replace")
    write_chain(random, folder) if random.random() < 0.3 else (folder / "chain0.yaml").write_text(
        "workflow: [{type: tool, name: ok}]"
    )
    path.write_text(damage(random, random.choice(makers)(random)), errors="replace")
    return path


def check(path: Path) -> bool:
    """Read the file, draw it and, if it validates, run it, with a time limit that it cannot leave out."""
    os.chdir(path.parent)
    try:
        workflow = Workflow.from_yaml(path, tools=[ok, fail, answer], inputs=("word",))
        str(workflow.warnings), workflow.mermaid(), drawing_of(workflow.declared), workflow.tool_names
        model = ScriptedModel(["x"], name="scripted:fuzz")
        inputs = None if workflow.tasks is None else {"query": "Go"}
        settings: dict[str, Any] = {"model": model, "inputs": inputs, "max_seconds": MAX_SECONDS_OF_RUNS}
        run = workflow.start("" if inputs else "Go", RunOptions(answer=reply), **settings).result()
        workflow.mermaid(run)
    except AgentnbError:
        return False
    return True
