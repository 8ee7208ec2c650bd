"""Connections: each name is resolved once, all its addresses are judged, and a judged address is used."""

from __future__ import annotations

import asyncio

import pytest
from web_servers import OTHER_PUBLIC, PUBLIC, Reply, WebServer, public_server, redirect, web_fetch

from agentnb.tools.builtin.web.fetching import connection_pool, resolve
from agentnb.tools.builtin.web.page_errors import ToolRefused

PAGE = {"/": Reply("<p>Hello.")}


def test_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with public_server(monkeypatch, PAGE) as (server, network):
        assert web_fetch("http://page.test/").ok
    assert (network.looked_up, network.connected) == (["page.test"], [PUBLIC])
    assert server.asked == [("page.test", "/")]


def test_one_private_address_among_many_refuses_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with public_server(monkeypatch, PAGE) as (server, network):
        for addresses in ([PUBLIC, "10.0.0.1"], ["::1", PUBLIC], ["127.0.0.1"], ["64:ff9b::7f00:1"], []):
            network.names["page.test"] = [addresses]
            assert web_fetch("http://page.test/").error_code == "address_refused"
        assert network.connected == server.asked == []


def test_name_that_resolves_to_a_new_address_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"/": redirect("/?n=1", Connection="close"), "/?n=1": Reply("secret")}
    with public_server(monkeypatch, pages) as (server, network):
        network.names["page.test"] = [[PUBLIC], ["127.0.0.1"]]
        outcome = web_fetch("http://page.test/")
    assert (outcome.error_code, network.looked_up) == ("address_refused", ["page.test"] * 2)
    assert (network.connected, server.asked) == ([PUBLIC], [("page.test", "/")])


def test_next_address_is_tried_if_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with public_server(monkeypatch, PAGE) as (_, network):
        network.names["page.test"] = [[OTHER_PUBLIC, PUBLIC]]
        assert web_fetch("http://page.test/").ok
    assert network.connected == [OTHER_PUBLIC, PUBLIC]


def test_public_address_of_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with public_server(monkeypatch, PAGE) as (server, network):
        network.is_disguised = False  # both ends have the same address
        assert web_fetch("http://page.test/").error_code == "address_refused"
        assert server.asked == []


def test_local_servers_are_refused_in_any_spelling(subtests: pytest.Subtests) -> None:
    with WebServer(PAGE) as server:
        for host in (
            "127.0.0.1",
            "localhost",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
        ):
            with subtests.test(host):
                assert web_fetch(f"http://{host}:{server.port}/").error_code == "address_refused"
        assert server.asked == []
        for host in ("127.0.0.1", "localhost"):
            assert web_fetch(f"http://{host}:{server.port}/", local=True).ok


def test_environment_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with WebServer(PAGE) as server, WebServer({}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert web_fetch(f"http://127.0.0.1:{server.port}/", local=True).ok
    assert proxy.asked == []


def test_local_sockets_are_not_opened() -> None:
    pool = asyncio.run(connection_pool(is_local=True))
    with pytest.raises(ToolRefused):
        asyncio.run(pool._network_backend.connect_unix_socket("/run/docker.sock"))


def test_resolver_returns_each_address_once() -> None:
    assert asyncio.run(resolve("127.0.0.1", 80)) == ["127.0.0.1"]
