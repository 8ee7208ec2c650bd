"""Logins at MCP servers that the person made: in the system's keyring if there is one, else in the person's folder.

A file for each address in `settings.personal_folder`, which no tool reads. Where the keyring has the tokens, the file says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from agentnb import settings
from agentnb.personal_files import replace_file
from agentnb.tools.mcp.server import digest

FOLDER = "mcp-logins"
SECRETS = ("access_token", "refresh_token", "client_secret")
"""What is redacted of tokens and clients from when they are known."""


class KeptLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The login at a server: what the authorization server gave, and what is needed to renew it."""

    address: str
    """The address of the MCP server. Another address has another login."""
    tokens: dict[str, Any]
    client: dict[str, Any]
    """How agentnb is registered at the authorization server."""
    metadata: dict[str, Any] = {}
    """What the authorization server says of itself: its name, and where tokens are renewed."""
    resource: dict[str, Any] = {}
    """What the MCP server says of itself to those who log in."""
    expires: float | None = None
    """When the access token expires, in seconds since 1970; None if that is not known."""
    names_client: bool = False
    """Whether the person named the client, which the next login uses again."""


class _File(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file of a login. Without ``login``, the keyring has it."""

    address: str
    login: KeptLogin | None = None


_here: dict[str, KeptLogin] = {}
"""The logins of this process that could be stored nowhere."""


def kept_login(address: str) -> KeptLogin | None:
    """Return the login at the server of this address; None if there is none. Blocks: a keyring may ask the person."""
    login = _here.get(address)
    try:
        file = msgspec.json.decode(_path(address).read_bytes(), type=_File)
        login = login or file.login or msgspec.json.decode(settings.from_keyring(_entry(address)), type=KeptLogin)
    except (OSError, msgspec.DecodeError, RecursionError):
        pass
    if login is None or login.address != address:
        return None
    redact_login(login.tokens, login.client)
    return login


def keep_login(login: KeptLogin) -> bool:
    """Keep a login in place of the one before; return False if it is kept in this process only. Blocks."""
    address = login.address
    is_in_keyring = settings.keep_in_keyring(_entry(address), msgspec.json.encode(login).decode())
    try:
        replace_file(_path(address), msgspec.json.encode(_File(address, None if is_in_keyring else login)))
    except OSError:
        _here[address] = login
        return False
    _here.pop(address, None)
    return True


def forget_login(address: str) -> bool:
    """Forget the login at the server of this address; return whether there was one. Blocks. Raises `SettingsError`, OSError."""
    was_there = _here.pop(address, None) is not None or _path(address).exists()
    settings.take_from_keyring(_entry(address))
    _path(address).unlink(missing_ok=True)
    return was_there


def redact_login(*parts: dict[str, Any]) -> None:
    """Redact the secrets among these values from now on."""
    settings.redact_values({name: part[name] for part in parts for name in SECRETS if isinstance(part.get(name), str)})


def _path(address: str) -> Path:
    return settings.personal_folder() / FOLDER / f"{digest([address])}.json"


def _entry(address: str) -> str:
    """Return the name of a login in the keyring."""
    return f"mcp:{digest([address])}"
