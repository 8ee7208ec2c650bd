"""``%agent mcp login``: logs in to a server in the browser."""

from __future__ import annotations

from functools import partial
from typing import Any

from IPython.display import DisplayHandle, display

from agentnb.core.schema.web_addresses import WebAddress
from agentnb.display.parts.questions.address_view import login_html
from agentnb.display.texts.labels import clean
from agentnb.errors import SettingsError, suggest_names
from agentnb.notebook.commands.mcp.look import find_row
from agentnb.notebook.frontend import ask_masked, asker
from agentnb.notebook.widget_tools import has_kernel
from agentnb.session.server_login import forget, in_lines, log_in
from agentnb.session.session import Session
from agentnb.tools.mcp.mcp_server import PREFIX

CLIENT, FORGET = "--client", "--forget"
USAGE = "Write: %agent mcp login NAME [--client=ID] [SCOPE ...], or %agent mcp login NAME --forget"
USED = "(The address shown here was valid for one login.)"


def login_command(session: Session, shell: Any, rest: str) -> None:
    """NAME [--client=ID] [SCOPE...] | NAME --forget: log in to a server in the browser, or forget its login"""
    words = rest.removeprefix(PREFIX).split()
    options = dict([word.partition("=")[::2] for word in words if word.startswith("-")])
    name, *scope = [word for word in words if not word.startswith("-")] or [""]
    if wrong := [option for option in options if option not in (CLIENT, FORGET)]:
        raise SettingsError(f"%agent mcp login has no option {wrong[0]}", suggest_names(wrong[0], (CLIENT, FORGET)) or USAGE)
    if not name or options.get(CLIENT) == "":
        raise SettingsError("Which client?" if name else "Which server?", USAGE)
    live = find_row(session, name).live
    if FORGET in options:
        print(clean(forget(session.servers, live)))
        return
    ask = partial(ask_masked, what="the address") if asker(shell) else None
    links = list[DisplayHandle]()

    def tell(words: str, address: WebAddress | None = None) -> None:
        if address is None or not has_kernel(shell):
            print(in_lines(words, address))
            return
        bundle = {"text/plain": in_lines(words, address), "text/html": login_html(words, address)}
        links.append(display(bundle, raw=True, display_id=True))

    try:
        result = log_in(session.servers, live, tell, ask, scope=" ".join(scope), client=options.get(CLIENT, ""))
    finally:
        for link in links:
            link.update({"text/plain": USED}, raw=True)
    print(clean(f"{result}. Next: %%agent -t {PREFIX}{name}"))
