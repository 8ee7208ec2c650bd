"""What a log from elsewhere wants when its run is resumed: what the person takes as their own if they say so."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.core.approvals import AUTO, arguments_as_json
from agentnb.core.events import ToolAdmitted
from agentnb.core.questions import AskedQuestion, choice_in_words
from agentnb.core.work_events import StepStarted
from agentnb.detect.run import Run
from agentnb.display.labels import counted, cut
from agentnb.display.visible_text import visible
from agentnb.policies.gates.approval_mode import ALWAYS, SETTING

MAX_SHOWN = 2_000
"""Characters of each thing that a log wants; how many more there are is said."""
MAX_ANSWERS = 10
"""Answers that are shown, the newest; earlier ones are counted, except those that allow all calls of a tool."""
TAKE, ASK_AGAIN = "yes", "ask"
"""What is typed to take what the log says, and to be asked again."""
CHOICES = f"Answer ({TAKE}: take this as yours; {ASK_AGAIN}: ask me about each call; nothing: leave the run alone): "


def log_wants(run: Run) -> str:
    """Return what a log from elsewhere would have the run do without asking, as lines for a person."""
    lines = [
        f"The log of run {run.id} was not written by your agentnb, or was changed since. If you take what it says:",
        *(f"  {name:<14} {_indented(cut(visible(value), MAX_SHOWN))}" for name, value in _wants(run)),
    ]
    return "\n".join(lines)


def _indented(text: str) -> str:
    """Return a text of which no line can look like another of the list."""
    return text.replace("\n", f"\n{' ' * 19}")


def answer_of(typed: str) -> bool | None:
    """Return whether the log counts, by what the person typed; None if the run is to be left alone."""
    return {TAKE: True, "y": True, ASK_AGAIN: False}.get(typed.strip().lower())


def _wants(run: Run) -> Iterator[tuple[str, str]]:
    settings = run.settings
    if run.model:
        yield "model", run.model
    mode = str(settings.get(SETTING, AUTO))
    yield "approval mode", f"{mode}: no call is asked about unless a gate does" if mode == AUTO else mode
    gates = settings.get("gates")
    yield "gates", ", ".join(map(str, gates)) if isinstance(gates, list | tuple) and gates else "none"
    yield "tools", ", ".join(tool.name for tool in run.tools) or "those of its steps"
    for name in ("budget", "agent_settings", "inputs"):
        if settings.get(name):
            yield name.replace("_", " "), str(settings[name])
    workflow = settings.get("workflow")
    if isinstance(workflow, dict):
        yield "workflow", str(workflow.get("text", ""))
        files = workflow.get("files")
        for name, text in files.items() if isinstance(files, dict) else ():
            yield "file", f"{name}\n{text}"
    judged = sum(isinstance(event, ToolAdmitted) and not event.reason for event in run.events)
    if judged:
        yield "let through", counted(judged, "call")
    current = run.open_round
    for record in current.records if current is not None else ():
        if record.result is None:
            yield "runs next", f"{record.call.name} {arguments_as_json(record.call.arguments)}"
    answered = [one for one in run.questions if one.outcome == "answered"]
    others = [one for one in answered if not _allows_all(one)]
    for one in (*filter(_allows_all, answered), *others[-MAX_ANSWERS:]):
        word = "always allowed" if _allows_all(one) else "answered"
        about = "" if one.question.about is None else f" ({one.question.about.tool} {one.question.about.arguments})"
        yield word, f"{choice_in_words(one.answer)}, to: {one.question.message}{about}"
    if len(others) > MAX_ANSWERS:
        yield "answered", f"{len(others) - MAX_ANSWERS:,} more questions"
    nested = sum(isinstance(event, StepStarted) and bool(event.nested) for event in run.events)
    if nested:
        yield "nested runs", f"{counted(nested, 'log')} of nested runs too, as far as they are beside it"


def _allows_all(asked: AskedQuestion) -> bool:
    """Return whether the answer allows all calls of a tool."""
    return asked.answer == ALWAYS and asked.question.kind == "approval"
