"""Small recorded runs of loops that end their turns in different ways, each in the form in which its product writes it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentnb import Run, load_trace


def _magentic(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


MAGENTIC_ONE = _magentic(
    ("human", "Who plays the violin?"),
    ("Orchestrator (thought)", "Initial plan: ask WebSurfer."),
    ("Orchestrator (thought)", '{"is_in_loop": {"answer": false}}'),
    ("Orchestrator (-> WebSurfer)", "Please look for the violinist."),
    ("WebSurfer", "I typed 'violinist' into the search bar."),
    ("Orchestrator (thought)", '{"is_progress_being_made": {"answer": true}}'),
    ("Orchestrator (thought)", "The page names her."),
    ("Orchestrator (-> WebSurfer)", "Please open the first page."),
    ("WebSurfer", "I clicked on the first page. It names Hilary."),
    ("Orchestrator (termination condition)", "No agent selected."),
    ("Orchestrator (thought)", '{"is_request_satisfied": {"answer": true}}'),
)
WHO_AND_WHEN = {
    "is_correct": False,
    "mistake_agent": "Excel_Expert",
    "mistake_step": "1",
    "history": [
        {"role": "user", "name": "Excel_Expert", "content": "You are given a task: sum the column."},
        {"role": "assistant", "name": "Excel_Expert", "content": "Let us read the file first."},
        {"role": "assistant", "name": "DataAnalysis_Expert", "content": "```python\nprint(sum(column))\n```"},
        {"role": "assistant", "name": "Computer_terminal", "content": "exitcode: 0\nCode output: 42"},
        {"role": "assistant", "name": "DataAnalysis_Expert", "content": "The sum is 42."},
        {"role": "assistant", "name": "Excel_Expert", "content": "TERMINATE"},
    ],
}
MASFT_AG2 = {
    "instance_id": "i-1",
    "problem_statement": ["1 + 1"],
    "trajectory": [
        {"role": "assistant", "name": "mathproxyagent", "content": ["Solve:", "1 + 1"]},
        {"role": "user", "name": "assistant", "content": ["Let us add."]},
        {"role": "assistant", "name": "mathproxyagent", "content": "Continue, and box the answer."},
        {"role": "user", "name": "assistant", "content": ["It is \\boxed{2}."]},
    ],
    "note": {"text": ["x"], "options": {"Lost": "no"}},
}
HYPERAGENT = {
    "trace_id": 3,
    "mas_name": "HyperAgent",
    "trace": "\n".join(
        f"HyperAgent_django - INFO - {line}"
        for line in (
            "Initialized HyperAgent instance",
            "Planner's Response: Thought: read the file.",
            "Inner-Navigator-Assistant's Response: Thought: I open it.",
            "Inner-Editor-Assistant's Response: Thought: I edit it.",
            "Planner's Response: Final Answer: it is mended.",
        )
    ),
    "annotations": "{}",
}


def _bash(number: int) -> dict[str, Any]:
    call = {"tool_call_id": f"c{number}", "function_name": "Bash", "arguments": {"command": f"echo {number}"}}
    return {
        "source": "agent",
        "message": f"Executed Bash {number}",
        "tool_calls": [call],
        "observation": {"results": [{"source_call_id": f"c{number}", "content": str(number)}]},
    }


ATIF = {
    "schema_version": "ATIF-v1.6",
    "session_id": "kimi",
    "agent": {"name": "kimi-cli", "version": "1", "model_name": "kimi-k2.5"},
    "steps": [
        {"source": "user", "message": "Count to two."},
        {"source": "agent", "message": "", "reasoning_content": "I count."},
        {"source": "agent", "message": "I will now call Bash."},
        _bash(1),
        {"source": "agent", "message": "", "reasoning_content": "One more."},
        {"source": "agent", "message": "", "reasoning_content": "And now the second."},
        _bash(2),
        {"source": "agent", "message": "Two."},
    ],
}


def _claude(number: int, kind: str, content: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"m{number}", "model": "claude-x"}
    about = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "s-1"}
    return {"type": kind, **about, "message": message}


CLAUDE_CODE = (
    _claude(0, "user", "What is here?"),
    _claude(1, "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]),
    _claude(2, "user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]),
    _claude(3, "assistant", [{"type": "text", "text": "One file, a.py."}]),
    _claude(4, "user", "Is it long?"),
    _claude(5, "assistant", [{"type": "text", "text": "I have not read it."}]),
    _claude(6, "user", "Then read it."),
    _claude(7, "assistant", [{"type": "tool_use", "id": "t2", "name": "Read", "input": {"path": "a.py"}}]),
    _claude(8, "user", [{"type": "tool_result", "tool_use_id": "t2", "content": "x = 1"}]),
    _claude(9, "assistant", [{"type": "text", "text": "It has one line."}]),
)


def _bash_block(command: str) -> str:
    return f"THOUGHT: look\n\n```bash\n{command}\n```"


MINI_SWE_AGENT = {
    "info": {"mini_version": "1.9.0", "exit_status": "Submitted", "submission": "diff"},
    "trajectory_format": "mini-swe-agent-1",
    "instance_id": "django-1",
    "messages": [
        {"role": "system", "content": "One block a turn."},
        {"role": "user", "content": "Mend it."},
        {"role": "assistant", "content": "I think about it first."},
        {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks, found 0 actions."},
        {"role": "assistant", "content": _bash_block("ls") + "\n" + _bash_block("pwd")},
        {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."},
        {"role": "assistant", "content": _bash_block("ls")},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"},
        {"role": "assistant", "content": _bash_block("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")},
        {"role": "user", "content": "diff"},
    ],
}


def _chat_call(number: int, name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


TAU_BENCH = [
    {
        "task_id": 7,
        "trial": 0,
        "reward": 0.0,
        "info": {"source": "user"},
        "traj": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Cancel my order."},
            {"role": "assistant", "content": "Which one, please?"},
            {"role": "user", "content": "W1."},
            _chat_call(1, "get_order"),
            {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": "pending"},
            {"role": "assistant", "content": "Shall I cancel it?"},
            {"role": "user", "content": "Yes."},
            _chat_call(2, "cancel_order"),
            {"role": "tool", "tool_call_id": "c2", "name": "cancel_order", "content": "cancelled"},
            {"role": "assistant", "content": "It is cancelled."},
            {"role": "user", "content": "###STOP###"},
        ],
    }
]
SWE_AGENT = {
    "trajectory": [
        {"action": "ls", "observation": "a.py", "response": "I look.", "thought": "", "state": {}},
        {"action": "submit", "observation": "", "response": "I submit.", "thought": "", "state": {}},
    ],
    "history": [
        {"role": "system", "content": "Be brief.", "agent": "main"},
        {"role": "user", "content": "Mend it.", "agent": "main"},
        {"role": "assistant", "content": "I look.", "action": "ls", "thought": "", "agent": "main"},
        {"role": "user", "content": "a.py", "agent": "main"},
        {"role": "assistant", "content": "I submit.", "action": "submit", "thought": "", "agent": "main"},
    ],
    "info": {"exit_status": "submitted", "submission": "diff"},
    "environment": "swe",
}
ONE_ANSWER = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Good morning."}]
LOOPS: dict[str, tuple[Any, str]] = {
    "Magentic-One": (MAGENTIC_ONE, "agent"),
    "Who&When": (WHO_AND_WHEN, "agent"),
    "HyperAgent": (HYPERAGENT, "agent"),
    "MASFT": (MASFT_AG2, "person"),
    "Kimi in ATIF": (ATIF, "same_agent"),
    "Claude Code": (CLAUDE_CODE, "person"),
    "mini-swe-agent": (MINI_SWE_AGENT, "harness"),
    "SWE-agent": (SWE_AGENT, "calls"),
    "tau-bench": (TAU_BENCH, "person"),
    "one answer": (ONE_ANSWER, "end"),
}
"""Recorded runs by product, each with the kind of turn ending that is true of it."""


@cache
def recorded_loop(name: str) -> Run:
    """The run of this name, read from a file: JSON Lines for a tuple of records."""
    data, _ = LOOPS[name]
    lines = isinstance(data, tuple)
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("x.jsonl" if lines else "x.json")
        path.write_text("".join(json.dumps(one) + "\n" for one in data) if lines else json.dumps(data), encoding="utf-8")
        return load_trace(path)
