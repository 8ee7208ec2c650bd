"""Login to an MCP server: the person opens an address in the browser, and the result authorizes the connection."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from agentnb.advice import LogInToServer
from agentnb.core.schema.web_addresses import WebAddress
from agentnb.display.texts.labels import clean, pluralize
from agentnb.errors import SettingsError
from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.servers.servers import Servers
from agentnb.runtime.threads import TICK
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.connections.server_catalogue import tools_of

LOGGING_IN = "Logging in to an MCP server"
PROMPT = (
    "Press Enter when the browser says that agentnb has received your answer, or paste the final address from the browser: "
)
SECRET_PROMPT = "The secret of this client (Enter if it has none): "


def log_in(
    servers: Servers,
    live: LiveServer,
    tell: Callable[..., Any],
    ask: Callable[[str], str] | None,
    *,
    scope: str = "",
    client: str = "",
) -> str:
    """Let the person log in to a server, restart its connections, and return a report.

    ``tell``: shows a message; its second argument is the address in it. ``ask``: writes a question and returns the line
    that the person types without echo, or None if nobody is present. ``scope``: additional rights to request;
    ``client``: the id of a client that is already registered. Raises `ServerFailed`, and `SettingsError` for a server
    without a login, or if nobody is present.
    """
    check_person(LOGGING_IN, is_lasting=True)
    name = live.server.name
    if ask is None:
        advice = LogInToServer(name=name, scope=scope, lead="Log in from an open notebook or a terminal")
        raise SettingsError("Nobody can log in here", advice)
    login, outcome = servers.begin_login(live, scope, (client, ask(SECRET_PROMPT).strip()) if client else None)
    try:
        _wait(outcome, login.address)
        if login.address.done():
            text = f"To log in to {name} ({live.server.target}), open this address in your browser{login.note}:"
            tell(text, login.address.result())
        while not (login.is_answered or outcome.done()):
            typed = ask(PROMPT).strip()
            if typed and not login.take(typed):
                tell("This is not the final address of this login, which begins with http://127.0.0.1")
            elif not (typed or login.is_answered or outcome.done()):
                tell("The browser has not sent an answer yet")
        _wait(outcome)
        is_stored = outcome.result()
    finally:
        login.give_up()
    servers.stop(name)
    tools = servers.ask(live, tools_of)
    text = "" if is_stored else ". The login cannot be stored here and is valid only in this process"
    return f"You are logged in to {name}, which has {pluralize(len(tools), 'tool')}{text}"


def in_lines(words: str, address: WebAddress | None = None) -> str:
    """Return the text with its full address on a separate line, for a terminal."""
    return clean(words if address is None else f"{words}\n{address.opened}")


def forget(servers: Servers, live: LiveServer) -> str:
    """Delete the stored login for a server, and return a report. Raises `SettingsError` on failure."""
    check_person(LOGGING_IN, is_lasting=True)
    name, was_there = live.server.name, servers.forget_login(live)
    return f"The login at {name} was deleted" if was_there else f"No login is stored for {name}"


def _wait(*futures: Future[Any]) -> None:
    """Wait for the first of these futures to finish, responding to interrupts."""
    while not any(future.done() for future in futures):
        wait(futures, timeout=TICK, return_when=FIRST_COMPLETED)
