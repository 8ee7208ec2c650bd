"""``%agent key``: asks for API keys without showing them. Never prints a key or anything that may be one."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb import settings
from agentnb.errors import SettingsError, suggest_names
from agentnb.notebook.frontend import ask_masked

OPTIONS = ("--keyring", "--forget")

SHOWN = (
    "Delete it from the cell. IPython keeps a history of what was run: if others can read this notebook or that history, "
    "revoke the key at the provider and create a new one"
)
"""Advice for a key that was typed in plain sight."""


def names_to_offer() -> list[str]:
    """Return the key names for tab completion."""
    return [*settings.KEY_NAMES, *settings.key_names()]


def key_lines() -> list[str]:
    """Return one line for each known key: its variable, its source, and the models or tools that use it."""
    lines = [f"{variable:<20} {_whence(variable):<22} {_users(variable)}".rstrip() for variable in settings.key_names()]
    return [*lines, "To enter one without showing it: %agent key NAME"]


def key_verdict(words: Sequence[str]) -> str:
    """Execute the command and return a confirmation. Raises `SettingsError`, without repeating any of the input, if it is
    invalid.
    """
    name, *more = [word for word in words if not word.startswith("-")] or [""]
    options = [word for word in words if word.startswith("-")]
    for option in options:
        if option not in OPTIONS:
            raise (
                _shown_key_error()
                if _may_be_a_key(option)
                else SettingsError("%agent key has no such option", suggest_names(option, OPTIONS))
            )
    for word in more:
        raise SettingsError(f"Write --{word}") if f"--{word}" in OPTIONS else _shown_key_error()
    if not name:
        raise SettingsError("Which key?", f"Write: %agent key {next(iter(settings.KEY_VARIABLES))}")
    try:
        variable = settings.key_variable(name)
    except SettingsError:
        if _may_be_a_key(name):
            raise _shown_key_error() from None
        raise
    if "--forget" in options:
        return _forget(variable)
    return _keep(name, variable, in_keyring="--keyring" in options)


def _may_be_a_key(word: str) -> bool:
    return "=" in word or settings.looks_like_a_key(word)


def _shown_key_error() -> SettingsError:
    return SettingsError("Do not type the key itself; %agent key NAME asks for it. Nothing was stored", SHOWN)


def _keep(name: str, variable: str, *, in_keyring: bool) -> str:
    if in_keyring:
        settings.check_keyring()  # before the person looks for the key
    text = _ask(name, variable)
    if not text.strip():
        return f"No key was entered: {variable} is unchanged"
    settings.keep_key(variable, text, in_keyring)
    duration = "until it ends, and in the system's keyring" if in_keyring else "until it ends"
    return f"{variable} is stored in this kernel {duration}. {_next(variable)}"


def _ask(name: str, variable: str) -> str:
    users = f"{name} tools" if name in settings.TOOL_KEY_VARIABLES else f"{name}: models"
    subject = variable if name == variable else f"{variable}, for {users}"
    try:
        return ask_masked(f"The key ({subject}): ", variable)
    except KeyboardInterrupt:
        raise SettingsError("Interrupted: nothing was stored") from None
    except SettingsError as error:
        raise SettingsError(
            error.what, "Set that variable before Jupyter starts, or use a frontend with input support"
        ) from None


def _forget(variable: str) -> str:
    places = settings.forget_key(variable)
    sources = " and ".join(places)
    remainder = f". It is still in {settings.ENVIRONMENT}" if settings.has_key(variable) else ""
    return f"{variable} was deleted from {sources}{remainder}" if places else f"{variable} was not stored{remainder}"


def _next(variable: str) -> str:
    if variable in settings.TOOL_KEY_VARIABLES.values():
        return f"Next: %%agent -t {_tool_groups(variable)[0]}"
    provider = _providers(variable)[:1]
    if not provider:
        return "See all: %agent key"
    return f"Next: %%agent -m {provider[0]}:NAME (%agent models {provider[0]} lists the names)"


def _whence(variable: str) -> str:
    try:
        key = settings.find_key(variable)
    except settings.NotAKey as error:
        return error.why
    return f"from {key.source}" if key is not None else "no key"


def _providers(variable: str) -> list[str]:
    return [provider for provider, name in settings.KEY_VARIABLES.items() if name == variable]


def _tool_groups(variable: str) -> list[str]:
    return [group for group, name in settings.TOOL_KEY_VARIABLES.items() if name == variable]


def _users(variable: str) -> str:
    models, tools = _providers(variable), _tool_groups(variable)
    return ", ".join([*[f"{provider}:" for provider in models], *[f"{group} tools" for group in tools]])
