"""Defaults for options that a cell does not give: the keys of ``%agent defaults``, and the syntax of their values."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from agentnb import settings
from agentnb.chat.context_spec import PROFILES
from agentnb.context.history_settings import NAMED as HISTORIES
from agentnb.core.run.approvals import MODES
from agentnb.errors import SettingsError
from agentnb.models.options import mask_text
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.run_limits import LIMITS, ON_LIMIT
from agentnb.policies.run_limits import SESSION_BUDGET as SESSION_BUDGET_LIMIT
from agentnb.tools.builtin.github.github_group import GitHub
from agentnb.tools.builtin.group import ToolGroup
from agentnb.tools.builtin.shell.sandbox import SANDBOXES
from agentnb.tools.builtin.shell.shell_group import Shell

APPROVE_HELP = (
    "which calls need your permission if no rule matches; without a mode: calls of tools that declare that they write, execute "
    "or use the network. auto: these calls run without asking; ask: every call of a tool that does more than read; never: "
    "calls that would ask are denied; read_only: only tools that just read may run"
)
"""Help text for ``--approve``."""
RULE_HELP = (
    "a rule about tool calls: NAME=allow, NAME=ask or NAME=deny, for a tool, a flag such as network, or a pattern such as "
    "'bash(git status *)=allow'; the first matching rule decides, but a denial always wins; repeatable"
)
"""Help text for ``--rule``."""
Reader = Callable[[str], Any]
"""Parses text into a value. Raises ValueError describing the problem."""
SESSION_BUDGET = SESSION_BUDGET_LIMIT.name.replace("_", "-")
SWITCH = ("yes", "no")
ON_STOP = ("raise", "continue")
"""Behaviour of a cell when you stop the run that it waits for: raise an error, so that Run All stops as well, or end
normally.
"""


def argument_type(read: Reader) -> Reader:
    """Return a reader for the ``type`` of an argument, which reports the error and the text."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{error}, got {text!r}") from None

    return typed


def _one_of(known: Iterable[str], text: str) -> str:
    """Parse one of several words, written with dashes or underscores."""
    word = text.replace("-", "_")
    if word not in known:
        raise ValueError(f"must be one of {', '.join(known)}")
    return word


on_limit: Callable[[str], str] = partial(_one_of, ON_LIMIT)
"""Parses the behaviour at a limit."""
approval_mode: Callable[[str], str] = partial(_one_of, MODES)
"""Parses a mode."""


def typed_rules(texts: Iterable[str]) -> RuleList | None:
    """Parse rules typed as ``RULE=VERDICT``; return None for an empty list. Raises `SettingsError` for an invalid text."""
    return RuleList.parse_typed(texts) or None


def yes_or_no(text: str) -> bool:
    """Parse a switch."""
    if text.lower() not in settings.SWITCH:
        raise ValueError("must be yes or no")
    return settings.SWITCH[text.lower()]


LIMIT_KEYS = {limit.name.replace("_", "-"): limit for limit in (*LIMITS.values(), SESSION_BUDGET_LIMIT)}
"""Keys of defaults that set limits."""
OTHERS: dict[str, Reader] = {
    "on-limit": on_limit,
    "history": partial(_one_of, HISTORIES),
    "instructions": yes_or_no,
    "unpriced": yes_or_no,
}
APPROVE, SANDBOX, REPO = "approve", "sandbox", "repo"
OF_CELLS: dict[str, Reader] = {
    "on-stop": partial(_one_of, ON_STOP),
    APPROVE: approval_mode,
    SANDBOX: partial(_one_of, SANDBOXES),
}
"""Keys that are not settings of an agent; the `Host` holds the mode, so that it also applies to runs started by Python code."""
MODELS = ("model", *PROFILES)
"""Keys for models: the usual model, and those for the profiles of contexts."""
OF_WHOLE_WORKFLOWS = ("budget", "max_seconds")
"""Limits shared by all agents of a workflow."""
CHOICES = {
    "on-limit": ON_LIMIT,
    "on-stop": ON_STOP,
    "history": tuple(HISTORIES),
    "instructions": SWITCH,
    "unpriced": SWITCH,
    APPROVE: MODES,
    SANDBOX: SANDBOXES,
}
"""Allowed values, for keys that accept only a few."""


def at_first() -> dict[str, str]:
    """Return the defaults of a new session."""
    defaults = {"model": "", "max-rounds": str(settings.max_iterations()), "guidance": "matrix", "policy": "matrix"}
    defaults |= {"history": "auto", "instructions": "yes"}
    limits = [key for key in LIMIT_KEYS if key not in (*defaults, SESSION_BUDGET)]
    defaults |= dict.fromkeys(limits, "") | {"on-limit": "stop", "on-stop": "raise", "unpriced": "no"}
    return defaults | dict.fromkeys(PROFILES, "") | {APPROVE: "", SANDBOX: "", REPO: "", SESSION_BUDGET: ""}


def may_be_empty(key: str) -> bool:
    """True if the key's setting is optional: a limit, a mode, a sandbox, a repository, a model for a profile."""
    return key in (APPROVE, SANDBOX, REPO, *PROFILES) or (key in LIMIT_KEYS and not LIMIT_KEYS[key].is_required)


def check_default(key: str, text: str) -> str:
    """Return the text as it is stored under this key. Raises `SettingsError` for an invalid value."""
    if may_be_empty(key) and text.lower() in ("", "none"):
        return ""
    if key in CHOICES:
        value = _read(key, text, (OTHERS | OF_CELLS)[key], f"For example: {key}={CHOICES[key][-1]}")
        return {True: "yes", False: "no"}.get(value, str(value))
    if key == REPO:
        GitHub(repo=text)  # raises for an invalid name
    if key in LIMIT_KEYS:
        _read(key, text, LIMIT_KEYS[key].read, f"Use a number, or {key}= for no limit" if may_be_empty(key) else "")
    return text


def agent_settings(defaults: dict[str, str]) -> dict[str, Any]:
    """Return the defaults as parsed arguments of `Agent`, except model, guidance and policy."""
    limits = {
        name: limit.read(defaults[key]) if (key := name.replace("_", "-")) and defaults[key] else None
        for name, limit in LIMITS.items()
    }
    others = {key.replace("-", "_"): reader(defaults[key]) for key, reader in OTHERS.items()}
    usual = others["on_limit"] == at_first()["on-limit"]  # then a context or a policy may set it
    return limits | others | ({"on_limit": None} if usual else {})


def tool_groups(defaults: dict[str, str]) -> dict[str, ToolGroup]:
    """Return the groups of built-in tools that the defaults configure, by word."""
    groups: dict[str, ToolGroup] = {}
    if defaults[SANDBOX]:
        groups[Shell.word] = Shell(sandbox=defaults[SANDBOX])
    if defaults[REPO]:
        groups[GitHub.word] = GitHub(repo=defaults[REPO])
    return groups


def workflow_settings(defaults: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the changed defaults: limits for the workflow as a whole, and settings of the agents that it declares.

    The guidance set and policy are names; the model is not included.
    """
    first, settings_ = at_first(), agent_settings(defaults) | {"guidance": defaults["guidance"], "policy": defaults["policy"]}
    changed = {key.replace("_", "-") for key in defaults if defaults[key] != first[key]}
    own = {name: value for name, value in settings_.items() if name.replace("_", "-") in changed}
    return {name: own.pop(name) for name in OF_WHOLE_WORKFLOWS if name in own}, own


def _read(key: str, text: str, reader: Reader, hint: str) -> Any:
    try:
        return reader(text)
    except ValueError as error:
        raise SettingsError(f"{key} {error}, got {mask_text(text)!r}", hint) from None
