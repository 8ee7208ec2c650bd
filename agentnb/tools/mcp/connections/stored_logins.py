"""Stored logins of MCP servers: in the system's keyring if available, otherwise in the person's folder.

Files are named after the address and are in `settings.personal_folder`, which no tool reads. A file also records whether the
tokens are in the keyring.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from agentnb import settings
from agentnb.core.messages import JsonObject
from agentnb.personal_files import replace_file
from agentnb.tools.mcp.mcp_server import digest

FOLDER = "mcp-logins"
SECRETS = ("access_token", "refresh_token", "client_secret")
"""Fields of tokens and clients whose values are redacted once known."""


class StoredLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Login to a server: data from the authorization server, with everything needed to renew it."""

    address: str
    """Address of the MCP server. Each address has its own login."""
    tokens: JsonObject
    client: JsonObject
    """The client registered for agentnb at the authorization server."""
    metadata: JsonObject = {}
    """Metadata of the authorization server, with its name and token endpoint."""
    resource: JsonObject = {}
    """Protected-resource metadata of the MCP server."""
    expires: float | None = None
    """Expiry of the access token in seconds since 1970, or None if unknown."""
    names_client: bool = False
    """True if the person chose the client; the next login then reuses it."""


class _File(msgspec.Struct, frozen=True, omit_defaults=True):
    """File of a login. Without ``login``, the login is in the keyring."""

    address: str
    login: StoredLogin | None = None


_unstored: dict[str, StoredLogin] = {}
"""Logins of this process that could not be stored."""


def load_login(address: str) -> StoredLogin | None:
    """Return the login for an address, or None. Blocks: a keyring may prompt the person."""
    login = _unstored.get(address)
    try:
        file = msgspec.json.decode(_path(address).read_bytes(), type=_File)
        login = login or file.login or msgspec.json.decode(settings.from_keyring(_entry(address)), type=StoredLogin)
    except (OSError, msgspec.DecodeError, RecursionError):
        pass
    if login is None or login.address != address:
        return None
    redact_login(login.tokens, login.client)
    return login


def store_login(login: StoredLogin) -> bool:
    """Store a login, replacing the previous one. Returns False if only this process holds it. Blocks."""
    address = login.address
    is_in_keyring = settings.keep_in_keyring(_entry(address), msgspec.json.encode(login).decode())
    try:
        replace_file(_path(address), msgspec.json.encode(_File(address, None if is_in_keyring else login)))
    except OSError:
        _unstored[address] = login
        return False
    _unstored.pop(address, None)
    return True


def delete_login(address: str) -> bool:
    """Delete the login for an address. Returns False if it did not exist. Blocks. Raises `SettingsError` and OSError."""
    was_there = _unstored.pop(address, None) is not None or _path(address).exists()
    settings.take_from_keyring(_entry(address))
    _path(address).unlink(missing_ok=True)
    return was_there


def redact_login(*parts: JsonObject) -> None:
    """Redact the secrets among these values from now on."""
    settings.redact_values({name: part[name] for part in parts for name in SECRETS if isinstance(part.get(name), str)})


def _path(address: str) -> Path:
    return settings.personal_folder() / FOLDER / f"{digest([address])}.json"


def _entry(address: str) -> str:
    """Return the keyring entry of a login."""
    return f"mcp:{digest([address])}"
