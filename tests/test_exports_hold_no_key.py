"""Exports reveal no key that a user or a model has written into a run.

`EXPORTS` lists the forms that are made to be sent. Add new forms there.
"""

from __future__ import annotations

import asyncio
import html
import io
import itertools
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from property_settings import AT_NIGHT

from agentnb import (
    Agent,
    Run,
    RunOptions,
    Store,
    ToolCall,
    Workflow,
    load_trace,
    plots,
    save_trace,
    settings,
    tables,
    to_code,
    to_test,
)
from agentnb.cli import main
from agentnb.core.log.wire import encode
from agentnb.errors import AgentnbError, ModelError
from agentnb.interchange.exports import EXPORTS as FORMS
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

UNKNOWN = "ghp_" + "a1B2c3D4e5" * 4
"""An unknown key, recognized by its shape."""
KNOWN = "localsecret-zz99yy88xx77"
"""A shapeless key that becomes known after the runs."""
BOTH = f"{UNKNOWN} and {KNOWN}"


def look(where: dict[str, str]) -> str:
    """Look."""
    return f"seen {BOTH}"


def fail(x: str = "") -> str:
    """Fail."""
    raise ValueError(BOTH)


async def choose(context: ToolContext) -> str:
    """Ask."""
    return str(await context.ask(f"Which of {BOTH}?"))


def planted() -> dict[str, Run]:
    """Return runs with the keys in every text that a user or model can write."""
    calls = [ToolCall("look", {"where": {BOTH: BOTH}}), ToolCall("fail", {"x": BOTH}), ToolCall("choose", {})]
    agent = Agent(ScriptedModel([calls, BOTH]), tools=[look, fail, choose], system=BOTH, name=UNKNOWN, todos=False)
    named: dict[str, Any] = {"tags": (BOTH,), "entity": BOTH, "context_type": BOTH, "notebook": f"{BOTH}.ipynb"}
    runs = {"an agent": asyncio.run(agent.run(BOTH, RunOptions(answer=lambda question: BOTH, show=False, **named)))}
    try:
        Agent(ScriptedModel([ModelError(BOTH)])).run_sync(BOTH, show=False)
    except AgentnbError as error:
        assert error.run is not None
        runs["a failure"] = error.run
    text = f"""
inputs: {{k: "{BOTH}"}}
agents: {{a: {{replies: ["{BOTH}"], instruction: "{BOTH}"}}}}
workflow:
  - {{id: s, type: agent, name: a, prompt: "{BOTH}"}}
  - {{id: t, type: tool, name: fail, on_error: {{continue: "{BOTH}"}}}}
output: "{{{{ $steps.s.output }}}}"
"""
    runs["a workflow"] = Workflow.from_yaml(text, tools=[fail]).run_sync(f"Go {BOTH}", store=Store("runs"), show=False)
    return runs


def _saved(form: str) -> Callable[[Run, Path], str]:
    def save(run: Run, log: Path) -> str:
        path = save_trace(run, f"bug.{form}", form)
        return str(pyarrow.parquet.read_table(path).to_pydict()) if form == "parquet" else path.read_text("utf-8")

    return save


def _shown(run: Run, log: Path) -> str:
    with redirect_stdout(io.StringIO()) as out:
        assert main(["show", str(log), "--html"]) == 0
    return out.getvalue() + "".join(path.read_text("utf-8") for path in Path().glob("*.html"))


def _as_test(run: Run, log: Path) -> str:
    return to_test(run, "status == 'healthy'", "len(text) == 0", "text == 'a'", path=str(log))


EXPORTS: dict[str, Callable[[Run, Path], str]] = {
    **{f"save_trace, {form}": _saved(form) for form in ("html", "agentnb", *FORMS)},
    "agentnb show --html": _shown,
    "to_test": _as_test,
    "to_code": lambda run, log: to_code(run) if run.kind == "agent" else "",
}


def held(text: str, keys: tuple[str, ...]) -> list[str]:
    """Return the keys in the text, in plain form or as a page or another JSON spells them."""
    forms = (text, html.unescape(text), text.replace("\\", ""))
    return [key for key in keys if any(key in form for form in forms)]


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, tuple[Run, Path]]:
    made: dict[str, tuple[Run, Path]] = {}
    for name, run in planted().items():
        log = tmp_path / f"{run.id}.jsonl"
        log.write_bytes(b"".join(map(encode, run.events)))
        assert held(log.read_text(), (UNKNOWN, KNOWN)) == [UNKNOWN, KNOWN]
        made[name] = run, log
    settings.keep_key("anthropic", KNOWN)
    return made


@pytest.mark.slow("three runs in ten forms")
def test_sharable_exports_contain_no_key(runs: dict[str, tuple[Run, Path]], subtests: pytest.Subtests) -> None:
    for (name, (run, log)), (export, make) in itertools.product(runs.items(), EXPORTS.items()):
        with subtests.test(run=name, export=export):
            assert held(make(run, log), (UNKNOWN, KNOWN)) == []


@pytest.mark.slow("three logs in twelve tables and four plots")
def test_views_of_a_log_never_contain_a_known_key(runs: dict[str, tuple[Run, Path]], subtests: pytest.Subtests) -> None:
    """Return tables, plots and the text of ``agentnb show`` of a log written before the key was known."""
    loaded = {name: load_trace(log) for name, (_, log) in runs.items()}
    for view in tables.NAMES:
        with subtests.test(view=view):
            assert held(getattr(tables, view)([*loaded.values()]).to_csv(), (KNOWN,)) == []
    for place, (view, (name, run)) in enumerate(itertools.product(("timeline", "cost", "tokens", "tools"), loaded.items())):
        if AT_NIGHT or place % 2 == 0:
            with subtests.test(run=name, view=f"plots.{view}"):
                assert held(_plot(view, run), (KNOWN,)) == []
    for name, (_, log) in runs.items():
        with subtests.test(run=name, view="agentnb show"), redirect_stdout(io.StringIO()) as out:
            assert main(["show", str(log)]) == 0
            assert held(out.getvalue(), (KNOWN,)) == []


def _plot(name: str, run: Run) -> str:
    figure, file = getattr(plots, name)(run), io.StringIO()
    figure.savefig(file, format="svg")
    return file.getvalue() + " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))
