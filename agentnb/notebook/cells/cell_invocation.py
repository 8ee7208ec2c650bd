"""Cell options recorded with a run, for the commands that continue it."""

from __future__ import annotations

from argparse import Namespace

from agentnb.advice import Invocation
from agentnb.core.messages import encodable
from agentnb.core.run.approvals import AUTO
from agentnb.notebook.variable_names import unquote, words_of


def invocation_of(options: Namespace, *, inputs: str = "") -> Invocation:
    """Return the invocation for a cell's options. ``inputs``: a workflow's inputs, as typed."""
    denies = [rule for rule in options.rules if rule.rpartition("=")[2].strip() != "allow"]
    return Invocation(
        out=options.out,
        model=encodable(unquote(options.model)),
        tools=tuple(map(encodable, words_of(options.tools))),
        gates=tuple(map(encodable, words_of([options.gate]))),
        guidance=encodable(getattr(options, "guidance", None) or ""),
        inputs=encodable(inputs),
        approve="" if options.approve in (None, AUTO) else options.approve,
        rules=tuple(map(encodable, denies)),
        allowed=options.approve == AUTO or len(denies) < len(options.rules),
    )
