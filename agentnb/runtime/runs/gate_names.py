"""Names of gates, used to check that a resumed run has all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

from agentnb.advice import GiveGates
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates import Gate

LAMBDA = "<lambda>"
"""Name of every lambda; in logs of earlier versions, the name has no digest."""


def name_of_gate(gate: Gate) -> str:
    """Return a gate's name for the log: the name of its function or class; for a lambda, a name with a digest of its code."""
    name = str(getattr(gate, "__name__", type(gate).__name__))
    return f"{LAMBDA}-{_digest(gate.__code__)}" if name == LAMBDA and hasattr(gate, "__code__") else name


def names_of_gates(run: Run) -> list[str]:
    """Return the names of the run's gates, in order."""
    logged = run.settings.get("gates")
    return [str(name) for name in logged] if isinstance(logged, list | tuple) else []


def missing_gates(run: Run, names: Iterable[str]) -> list[str]:
    """Return the names of the run's gates that are not in ``names``; a name that occurred twice must occur twice."""
    missing = names_of_gates(run)
    for name in names:
        former = LAMBDA if name.startswith(LAMBDA) else name
        if name in missing:
            missing.remove(name)
        elif former in missing:
            missing.remove(former)
    return missing


def check_gates(run: Run, gates: Iterable[Gate] = (), names: Iterable[str] = ()) -> None:
    """Raise `SettingsError` if a gate of the run is missing. ``names``: the names of further gates that are present."""
    missing = missing_gates(run, [*map(name_of_gate, gates), *names])
    if missing:
        subject, them = missing_subject(run, "gate", missing)
        raise SettingsError(
            f"{subject}, which you did not pass",
            GiveGates(tuple(missing), tuple(names_of_gates(run)), lead=f"Define and pass {them}"),
        )


def missing_subject(run: Run, noun: str, missing: Sequence[str]) -> tuple[str, str]:
    """Return the beginning of a sentence naming the run's missing tools or gates, and ``it`` or ``them``."""
    is_one = len(missing) == 1
    return f"Run {run.id} had the {noun}{'' if is_one else 's'} {', '.join(missing)}", "it" if is_one else "them"


def _digest(code: CodeType) -> str:
    """Return six hex digits of a function's instructions, names and constants."""
    parts: list[Any] = [_digest(constant) if isinstance(constant, CodeType) else repr(constant) for constant in code.co_consts]
    return hashlib.sha256(repr((code.co_code, code.co_names, parts)).encode()).hexdigest()[:6]
