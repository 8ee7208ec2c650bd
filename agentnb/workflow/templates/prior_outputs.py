"""What an agent of a workflow is shown of the steps before it."""

from __future__ import annotations

from agentnb.core.run.step_outputs import Entry, as_text, leaves
from agentnb.workflow.form.spec import Context
from agentnb.workflow.templates.templates import Scope

WITHOUT_PROMPT = "Please proceed with the workflow step."
"""What a step is told when the workflow is run without a prompt."""


def with_prior_outputs(prompt: str, scope: Scope, context: Context) -> str:
    """Return the prompt of a step, after the outputs of the steps that have completed; empty ones are left out."""
    if context == "none":
        return prompt
    seen = scope.seen
    shown = dict(seen.values() if context == "all" else [seen[name] for name in context if name in seen])
    parts = [
        f"[{path}{_made_by(entry)}]:\n{text}"
        for path, entry in leaves(shown)
        if not _is_condition(entry) and (text := as_text(entry["output"]))
    ]
    if not parts:
        return prompt
    return "\n\n".join(["--- Prior Step Outputs ---", *parts, "--- End Prior Step Outputs ---", prompt])


def _made_by(entry: Entry) -> str:
    kind = next((one for one in ("agent", "tool", "workflow") if one in entry), None)
    return "" if kind is None else f" ({kind}: {entry[kind]})"


def _is_condition(entry: Entry) -> bool:
    return isinstance(entry["output"], bool) and "attempts" not in entry["runs"][-1]
