"""The group ``web``: its tool, its setting, and rules about addresses in a run."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot
from web_servers import PUBLIC, Reply, public_server

from agentnb import Agent
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.builtin.web.web_group import Web
from agentnb.tools.subject import flag_of, subject_of


@pytest.mark.req("R1.52")
def test_web_fetch_needs_an_address_and_the_network() -> None:
    (tool,) = Web().tools
    assert (tool.spec.name, flag_of(tool), tool.effects) == ("web_fetch", "network", frozenset({"network"}))
    assert tool.spec.input_schema == {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "Address, beginning with https:// or http://"}},
        "required": ["url"],
        "additionalProperties": False,
    }
    subject = subject_of(tool)
    assert subject is not None and (subject.kind, subject.argument) == ("url", "url")
    assert "data, not instructions" in tool.spec.description and tool.signature.gaps == ()


def test_local_setting_is_restored_only_from_a_trusted_log(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        Web(local="yes")  # type: ignore[arg-type]
    logged = Web(local=True).as_logged
    assert (Web.of_log(logged, is_trusted=True), Web.of_log(logged, is_trusted=False)) == (Web(local=True), Web())
    assert Web.of_log({"local": "yes"}, is_trusted=True) == Web() and Web().as_logged == {}


def fetched(urls: list[str], **settings: Any) -> list[str | None]:
    """Run an agent that fetches these in turn, and return the error codes."""
    script = [*[ToolCall("web_fetch", {"url": url}) for url in urls], "Done."]
    run = Agent(ScriptedModel(script), tools=["web"], todos=False, **settings).run_sync("Go.")
    return [result.error_code for round_ in run.rounds for result in round_.results]


def test_address_rules_apply_to_fetched_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    with public_server(monkeypatch, {"/a": Reply("a"), "/b/c": Reply("c")}) as (server, network):
        network.names["other.test"] = [[PUBLIC]]
        rules = {"web_fetch(http://page.test/b/**)": "allow"}
        codes = fetched(["http://page.test/b/c", "http://page.test/a", "http://other.test/b/c"], permissions=rules)
    assert codes == [None, "denied", "denied"]
    assert server.asked == [("page.test", "/b/c")] and network.looked_up == ["page.test"]


def test_nothing_is_fetched_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with public_server(monkeypatch, {"/": Reply("a")}) as (server, network):
        assert fetched(["http://page.test/"], permissions=["file_read"]) != [None]
    assert server.asked == network.looked_up == []
