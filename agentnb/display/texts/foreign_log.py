"""The question about resuming a run from a foreign log: what the run does next, and whether its answers are trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentnb.core.log.events import ToolAdmitted
from agentnb.core.log.work_events import StepStarted
from agentnb.core.questions import AskedQuestion, choice_in_words
from agentnb.core.run.approvals import ALWAYS, RULES, arguments_as_json, given_grant
from agentnb.detect.run import Run
from agentnb.display.texts.labels import cut, pluralize
from agentnb.display.texts.question_labels import mode_text
from agentnb.display.texts.visible_text import visible
from agentnb.errors import SettingsError
from agentnb.policies.permissions.approval_mode import SETTING as MODE
from agentnb.policies.permissions.run_permissions import Permissions

MAX_SHOWN = 2_000
"""Maximum characters of each fact about a log; the rest are counted."""
MAX_ANSWERS = 10
"""Maximum answers shown, starting with the newest; earlier ones are counted, except grants for all calls of a tool."""
TAKE, ASK_AGAIN = "yes", "ask"
"""Answers that accept the log, or require a new question about every call."""
CHOICES = f"Answer ({TAKE}: accept this as yours; {ASK_AGAIN}: ask me about each call; nothing: leave the run alone): "
ANSWER_UNUSED = "Your answer was not used, because the log is not yours; you will be asked again"


def decide_trust(run: Run, trust_log: bool | None, ask: Callable[[str], str] | None, *, show: str) -> bool | None:
    """Return ``trust_log``; if it is None and the run's log is foreign, return the person's decision.

    ``ask``: writes a question and returns the line that the person types, or None if nobody is present. ``show``: the command
    that shows the run. Raises `SettingsError` if the person declines both.
    """
    if trust_log is not None or run.gives_consent or ask is None:
        return trust_log
    typed = ask(f"{describe_log(run)}\n{CHOICES}").strip().lower()
    decision = {TAKE: True, "y": True, ASK_AGAIN: False}.get(typed)
    if decision is None:
        raise SettingsError("Nothing was resumed", f"{show} shows the run")
    return decision


def describe_log(run: Run) -> str:
    """Return lines that tell the person everything the log would have the run do without asking."""
    lines = [
        f"The log of run {run.id} was not written by your agentnb, or has been changed since. If you accept it as yours:",
        *(f"  {name:<14} {_indent(cut(visible(value), MAX_SHOWN))}" for name, value in _facts(run)),
    ]
    return "\n".join(lines)


def _indent(text: str) -> str:
    """Indent all lines after the first, so that they cannot pass for another fact."""
    return text.replace("\n", f"\n{' ' * 19}")


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact that the person would be accepting."""
    settings = run.settings
    if run.model:
        yield "model", run.model
    mode = str(settings.get(MODE, RULES))
    yield "mode", mode_text(mode)
    for layer in Permissions.from_log(settings, loosens=True).layers:
        for rule in layer.rules:
            yield "rule", f"{rule.verdict}: {rule.text}"
    gates = settings.get("gates")
    yield "gates", ", ".join(map(str, gates)) if isinstance(gates, list | tuple) and gates else "none"
    yield "tools", ", ".join(tool.name for tool in run.tools) or "as its steps list them"
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
        yield "let through", pluralize(judged, "call")
    current = run.open_round
    for record in current.records if current is not None else ():
        if record.result is None:
            yield "runs next", f"{record.call.name} {arguments_as_json(record.call.arguments)}"
    yield from _answers_and_grants(run)
    nested = sum(isinstance(event, StepStarted) and bool(event.nested) for event in run.events)
    if nested:
        yield "nested runs", f"also {pluralize(nested, 'log')} of nested runs, if stored beside it"


def _answers_and_grants(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the answers and grants."""
    answered = [asked for asked in run.questions if asked.outcome == "answered"]
    granted = [asked for asked in answered if _is_always(asked)]
    others = [asked for asked in answered if not _is_always(asked)]
    for asked in (*granted, *others[-MAX_ANSWERS:]):
        name, call = "always allowed" if _is_always(asked) else "answered", asked.question.about
        call_text = "" if call is None else f" ({call.tool} {call.arguments})"
        yield name, f"{choice_in_words(asked.answer)}, to: {asked.question.message}{call_text}"
    shown = {asked.question.id for asked in granted}
    for grant in run.grants:
        if grant.question_id not in shown:
            yield "always allowed", grant.rule or grant.tool
    if len(others) > MAX_ANSWERS:
        yield "answered", f"{len(others) - MAX_ANSWERS:,} more questions"


def _is_always(asked: AskedQuestion) -> bool:
    """True if the answer allows all calls of a tool, in response to a mode or a custom gate."""
    is_of_gate = asked.answer == ALWAYS and asked.question.kind == "approval"
    return is_of_gate or given_grant(asked.question, asked.answer) is not None
