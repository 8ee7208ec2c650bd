"""Headers of an MCP server, which contain its key, are sent only to its address."""

from __future__ import annotations

import pytest
from loopback_thread import Handler, LoopbackThread
from mcp_runs import played

from agentnb.errors import ServerFailed
from agentnb.tools.mcp.mcp_server import MCPServer

SECRET = "tide-7f3a9b21c4"


class Redirecting(LoopbackThread):
    """Redirects each request to ``location``, and keeps path and authorization of each."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.location, self.status = "", 307
        outer = self

        class Elsewhere(Handler):
            def redirect(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization", "")))
                self.reply(outer.status, Location=outer.location)

            do_GET = do_POST = do_DELETE = redirect

        super().__init__(Elsewhere)


def test_redirect_to_another_origin_is_not_followed(subtests: pytest.Subtests) -> None:
    with Redirecting() as named, Redirecting() as other:
        server = MCPServer("a", f"http://127.0.0.1:{named.port}/mcp", headers={"Authorization": f"Bearer {SECRET}"})
        for status in (301, 302, 303, 307, 308):
            for place in (
                f"http://localhost:{other.port}/mcp",
                f"http://127.0.0.1:{other.port}/mcp",
                f"//localhost:{other.port}/",
            ):
                with subtests.test(status=status, place=place):
                    named.asked.clear()
                    named.location, named.status = place, status
                    with pytest.raises(ServerFailed) as raised:
                        played([], [server])
                    assert SECRET not in str(raised.value)
                    assert named.asked and {asked for _, asked in named.asked} == {f"Bearer {SECRET}"}
                    assert other.asked == []


def test_redirect_within_the_same_origin_is_followed() -> None:
    with Redirecting() as named:
        named.location = "/elsewhere"
        server = MCPServer("a", f"http://127.0.0.1:{named.port}/mcp", headers={"Authorization": f"Bearer {SECRET}"})
        with pytest.raises(ServerFailed):  # no further redirect
            played([], [server])
        assert ("/elsewhere", f"Bearer {SECRET}") in named.asked
