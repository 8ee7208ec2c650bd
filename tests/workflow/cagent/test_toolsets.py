"""Toolsets of cagent files become tools of agentnb and MCP servers."""

from __future__ import annotations

import json

import pytest
from asserted_sentences import Snapshot

from agentnb.errors import WorkflowProblems
from agentnb.workflow.cagent.agent_file import described_servers
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.workflow_spec import WorkflowSpec
from agentnb.workflow.running.agents import WorkflowAgents

MCPS = """
mcps:
  docs: {ref: "docker:context7"}
  hub: {command: hub-server, env: {TOKEN: "${env.HUB_TOKEN}"}, tools: [a, b]}
"""
CASES = {
    "{type: filesystem}": ("files",),
    "{type: filesystem, tools: [read_multiple_files, write_file]}": ("read_file", "write_file"),
    "{type: shell}": ("shell",),
    "{type: think}": ("think",),
    "{type: fetch}": ("web",),
    "{type: user_prompt}": ("ask_person",),
    "{type: todo}, {type: think}": ("think",),
    "{type: mcp, ref: 'docker:clock'}": ("mcp:clock",),
    "{type: mcp, ref: 'docker:clock', tools: [now, later]}": ("mcp:clock/now", "mcp:clock/later"),
    "{type: mcp, ref: docs}, {type: mcp, ref: hub}": ("mcp:docs", "mcp:hub/a", "mcp:hub/b"),
    "{type: mcp, command: gopls, args: [mcp]}": ("mcp:gopls",),
    "{type: mcp, name: go, command: /usr/bin/gopls}": ("mcp:go",),
    "{type: mcp, ref: hub, tools: a}": ("mcp:hub/a",),
    "{type: mcp, remote: {url: 'http://localhost:8080/', transport_type: streamable}}": ("mcp:localhost-8080",),
    "{type: mcp, remote: {url: 'https://me:secret@example.org/mcp'}}": ("mcp:example.org",),
    "{type: mcp, remote: {url: 'http://['}}": ("mcp:mcp",),
    "{type: mcp, command: uvx, args: [a]}, {type: mcp, command: uvx, args: [b]}": ("mcp:uvx", "mcp:uvx-2"),
    "{type: mcp, command: docker, args: [mcp, gateway, run, --servers=search]}": ("mcp:search",),
}


def read(toolsets: str, more: str = "") -> WorkflowSpec:
    return read_workflow(f"{MCPS}\n{more}\nagents:\n  root:\n    toolsets: [{toolsets}]")


def test_toolsets_become_tool_names(subtests: pytest.Subtests) -> None:
    for toolsets, words in CASES.items():
        with subtests.test(toolsets):
            spec = read(toolsets)
            assert (spec.agents["root"].tools, spec.warnings) == (words, ())


def test_missing_toolsets_are_warnings_that_name_the_agent(snapshot: Snapshot) -> None:
    spec = read("{type: memory, path: a.db}, {type: todo, shared: true}, {type: filesystem, tools: [create_directory, shell]}")
    assert "\n".join(map(str, spec.warnings)) == snapshot


def test_malformed_toolsets_are_problems(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    for toolsets in (
        "shell",
        "{type: shell, tools: {a: 1}}",
        "{type: mcp, ref: [a]}",
        "{type: mcp, command: a, args: {b: 1}}",
        "{type: mcp}",
    ):
        with subtests.test(toolsets), pytest.raises(WorkflowProblems) as caught:
            read(toolsets)
        with subtests.test(toolsets):
            assert str(caught.value) == snapshot(toolsets)


def test_server_shared_by_two_agents_has_one_name() -> None:
    one = "{toolsets: [{type: mcp, command: uvx, args: [a]}]}"
    spec = read_workflow(f"agents: {{root: {one}, other: {one}}}")
    assert [agent.tools for agent in spec.agents.values()] == [("mcp:uvx",), ("mcp:uvx",)]


def test_denied_calls_become_deny_rules_of_the_agent(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    cases = {
        "shell:cmd=rm *": ("bash(rm *)",),
        "shell": ("bash",),
        "Shell:cmd=git push -D*": ("bash(git push -D*)", "bash(git push -d*)"),
        "write_file:path=*.env": ("write_file(*.env)", "write_file(**/*.env)"),
        "read_file:path=/etc/*": ("read_file(/etc/*)", "read_file(/etc/*/**)"),
        "*_file": ("read_file", "write_file", "edit_file"),
        "transfer_*": ("helper",),
        "look_up": (),
        "mcp:github:delete_*": (),
    }
    for pattern, rules in cases.items():
        with subtests.test(pattern):
            agents = "{root: {toolsets: [{type: shell}], sub_agents: helper}, helper: {}}"
            text = f'permissions: {{deny: ["{pattern}"]}}\nagents: {agents}'
            assert read_workflow(text).agents["root"].deny == rules
    with_server = read("{type: mcp, command: gopls}", "permissions: {deny: [look_up, shell], allow: [ls]}")
    assert with_server.agents["root"].deny == ("mcp_*_look_up", "bash", "mcp_*_shell")
    assert "\n".join(map(str, with_server.warnings)) == snapshot("allowed")
    of_servers = {
        "mcp:Hub:delete_*": ("mcp_hub_delete_*",),
        "mcp:other:*": (),
        "hub_delete": ("mcp_*_hub_delete", "mcp_hub_delete"),
        "*_delete": ("mcp_*_*_delete", "mcp_*_delete"),
    }
    for pattern, rules in of_servers.items():
        with subtests.test(pattern):
            spec = read("{type: mcp, ref: hub}", f"permissions: {{deny: '{pattern}'}}")
            assert spec.agents["root"].deny == rules
            WorkflowAgents(spec, {}, model="simulated:disciplined")  # whose rules name something
    with subtests.test("misspelt"), pytest.raises(WorkflowProblems, match='permissions: unknown key "denied"'):
        read("{type: shell}", "permissions: {denied: [shell]}")
    with subtests.test("ask"), pytest.raises(WorkflowProblems, match="permissions: ask is not supported"):
        read("{type: shell}", "permissions: {deny: [shell], ask: [read_file]}")
    for pattern in ("shell:timeout=9", "other:path=x", "{a: 1}", "'shell:cmd=rm*:cmd=*-rf*'", "filesystem:*", "'shell:cmd='"):
        with subtests.test(pattern), pytest.raises(WorkflowProblems) as caught:
            read("{type: shell}", f"permissions: {{deny: [{pattern}]}}")
        with subtests.test(pattern):
            assert str(caught.value) == snapshot(pattern)


def test_server_entries_match_those_of_an_mcp_servers_file() -> None:
    toolsets = "{type: mcp, ref: docs}, {type: mcp, ref: hub}, {type: mcp, ref: 'docker:clock', env: {A: b}}, "
    toolsets += "{type: mcp, remote: {url: 'https://mcp.example.org', headers: {Authorization: 'Bearer ${env.KEY}'}}}"
    gateway = ["mcp", "gateway", "run"]
    assert json.loads(described_servers(f"{MCPS}\nagents:\n  root:\n    toolsets: [{toolsets}]\n  other:")) == {
        "mcpServers": {
            "docs": {"command": "docker", "args": [*gateway, "--servers=context7"]},
            "hub": {"command": "hub-server", "args": [], "env": {"TOKEN": "${HUB_TOKEN}"}},
            "clock": {"command": "docker", "args": [*gateway, "--servers=clock"], "env": {"A": "b"}},
            "mcp.example.org": {"url": "https://mcp.example.org", "headers": {"Authorization": "Bearer ${KEY}"}},
        }
    }
    assert described_servers('{"mcpServers": {}}') == described_servers("a: [") == ""
