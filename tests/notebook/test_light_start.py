"""Imports of a kernel before the first frame or the first question: only fast ones."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pretend_browser import Browser
from real_kernel import Kernel

from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY

HEAVY = frozenset(
    {
        # The package `jsonschema` and its imports for format checks, installed with frontends.
        *("jsonschema", "rfc3987_syntax", "rfc3987", "lark", "fqdn", "isoduration", "arrow", "jsonpointer", "uri_template"),
        *("pandas", "numpy", "matplotlib", "pyarrow"),
        *("anthropic", "openai", "httpx2", "genai_prices", "mcp", "pydantic"),
    }
)
"""Modules that take 100 ms or more to import, and their parts. Features requested by name may load them."""
IMPORTED = ()
"""Nothing heavy in the kernels of this file before they load it."""

CELLS = r'''
import json, sys
from IPython.core.interactiveshell import InteractiveShell

def typed(cell):
    assert shell.run_cell(cell).success

def now():
    return sorted({name.partition(".")[0] for name in sys.modules})

shell = InteractiveShell.instance()
shell.user_ns.update(loaded={}, now=now)
typed("%load_ext agentnb")
typed("""
from agentnb import Agent, tool
from agentnb.core.messages import ToolCall
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

@tool(blocking=True)
async def count(context: ToolContext, place: str) -> int:
    "Count the birds."
    return await context.ask("How many?", {"type": "integer", "minimum": 0})

def first(request):
    loaded["frame"] = now()
    return ToolCall("count", {"place": 5})  # refused, with all that is wrong

def answer(question):
    loaded["question"] = now()
    return 12

cell = ScriptedModel([first, "Sorry."])
model = ScriptedModel([ToolCall("count", {"place": "pier"}), '{"birds": "12"}', '{"birds": 12}'])
output = {"type": "object", "properties": {"birds": {"type": "integer"}, "on": {"type": "string", "format": "date"}}}
""")
typed("%%agent -m cell -t count\nCount the birds")
typed("run = Agent(model, tools=[count], output=output).run_sync('Count', answer=answer)")
run = shell.user_ns["run"]
loaded = {**shell.user_ns["loaded"], "end": now()}
print("\n" + json.dumps([run.status, run.output, len(run.rounds), loaded]))
'''


def test_questions_calls_and_outputs_import_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", CELLS], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    status, output, rounds, loaded = json.loads(done.stdout.splitlines()[-1])
    assert (status, output, rounds) == ("completed", {"birds": 12}, 3), done.stdout
    assert {when: sorted(HEAVY & set(names)) for when, names in loaded.items()} == {"frame": [], "question": [], "end": []}
    assert "jsonschema_rs" in loaded["question"], "the answer has a schema, which was checked"


LIVE = """
%load_ext agentnb
import asyncio, pathlib, sys
from agentnb import ToolCall
from agentnb.models import ScriptedModel

def now():
    return sorted({name.partition(".")[0] for name in sys.modules})

async def seen(place: str) -> dict:
    "Wait until the page shows the card."
    while not pathlib.Path("seen").exists():
        await asyncio.sleep(0.01)
    loaded["frame"] = now()
    return {"place": place, "birds": 12}

loaded = {"extension": now()}
model = ScriptedModel([["I look at the **pier**.", ToolCall("seen", {"place": "pier"})], "There are *12*."])
"""


@pytest.mark.skipif(not HEARS_WHILE_BUSY, reason="ipykernel 6 hears no widget while a cell runs")
def test_live_card_imports_nothing_heavy_until_first_frame_or_end(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    browser = Browser(kernel)
    try:
        browser.run(LIVE)
        request = browser.start_card("%%agent -m model -t seen\nCount the birds")
        assert browser.greet()["kind"] != "ended"
        Path(tmp_path, "seen").touch()
        browser.until(lambda: request in browser.ended)
        assert "12" in browser.shown[-1]["text/html"]
        browser.run("loaded['end'] = now(); print(loaded)")
        loaded = ast.literal_eval(browser.printed.splitlines()[-1])
    finally:
        browser.close()
        kernel.close()
    assert {when: sorted(HEAVY & set(names)) for when, names in loaded.items()} == {"extension": [], "frame": [], "end": []}
    assert "anywidget" in loaded["frame"], "the card is a widget"
