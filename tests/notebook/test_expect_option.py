"""``%%agent --expect``: conditions on a finished run."""

from __future__ import annotations

import pytest
from IPython.core.magic_arguments import parse_argstring
from real_kernel import Kernel

from agentnb.errors import ExpressionError
from agentnb.notebook.cells.extension_options import chosen_extensions
from agentnb.notebook.magics import AgentMagics

MODEL = """
from agentnb.models import ScriptedModel
calls = []
class Counted(ScriptedModel):
    async def stream(self, request):
        calls.append(request)
        async for item in super().stream(request):
            yield item
"""


def test_invalid_expectation_is_refused_first_and_failed_one_afterwards(kernel: Kernel) -> None:
    assert kernel.run(MODEL + "model = Counted(['One.', 'Two.', 'Three.'])").status == "ok"
    refused = kernel.run('%%agent -m model --expect "rounds == 1" --expect "lops == 0"\nGo')
    assert refused.status == "error" and "lops is unknown. Did you mean loops?" in refused.error
    assert kernel.run("print(len(calls), 'run' in globals())").printed.split() == ["0", "False"]

    kept = kernel.run(
        '%%agent -m model -o kept --expect "rounds == 1" "tool_calls == 0" --expect \'status == "completed"\'\nGo'
    )
    assert kept.status == "ok", kept.error
    assert kept.shown.count("✓") == 3 and "✓ rounds == 1 (rounds is 1)" in kept.shown
    assert "As expected" in kept.displays[-1]["text/html"]

    broken = kernel.run('%%agent -m model -o broken --expect "tool_calls == 0" "rounds > 1"\nGo')
    assert "tables.rounds(broken)" in broken.error
    assert broken.status == "error" and "ExpectationFailed" in broken.error
    assert "rounds > 1: rounds is 1" in broken.error and "tool_calls" not in broken.error
    assert "✓ tool_calls == 0" in broken.shown and "✗ rounds > 1: rounds is 1" in broken.shown
    assert "Not as expected" in broken.displays[-1]["text/html"]
    assert kernel.run("print(broken.text, len(calls))").printed.split() == ["Two.", "2"]


def test_failed_expectation_shows_no_traceback(kernel: Kernel) -> None:
    told = kernel.run("from agentnb import expect\nexpect('complex-fails', 'loops == 0')").error
    assert "ExpectationFailed: Run " in told and "loops is 4, broken in round 4" in told and "See round 4" in told
    assert "Traceback" not in told and "expect.py" not in told


def test_expectation_texts_keep_their_inner_quotation_marks(subtests: pytest.Subtests) -> None:
    for line, texts in {
        '--expect "loops == 0" "todos_closed"': ["loops == 0", "todos_closed"],
        '--expect "loops == 0" -m x --expect \'"find" in tools\'': ["loops == 0", '"find" in tools'],
        "--expect 'status == \"completed\"'": ['status == "completed"'],
        "--expect todos_closed": ["todos_closed"],
    }.items():
        with subtests.test(line):
            (made,) = chosen_extensions(parse_argstring(AgentMagics.agent_cell, line))
            assert made.settings["texts"] == texts
    with pytest.raises(ExpressionError):
        chosen_extensions(parse_argstring(AgentMagics.agent_cell, "--expect loops == 0"))
