"""Agent files of docker/cagent in a shell."""

from __future__ import annotations

from pathlib import Path

from asserted_sentences import Snapshot
from shell_calls import HEADING, Call, last_run, nested_runs, written

AGENTS = """\
version: "4"
permissions: {deny: ["shell:cmd=touch *"]}
agents:
  root:
    model: simulated:disciplined
    instruction: Answer.
    welcome_message: Hello!
    sub_agents: [helper]
    toolsets: [{type: shell}, {type: memory}]
  helper: {replies: [Low water is at noon.], description: Knows tides.}
"""
ASK = '- Ask with `helper(prompt="When?")`'
TOUCH = '- Make a file with `bash(command="touch tide.txt")`'


def test_exec_runs_the_root_agent_with_its_sub_agents(cli: Call) -> None:
    done = cli("exec", written("agents.yaml", AGENTS), ASK)
    assert done.code == 0 and HEADING in done.err, done.err
    [root] = [run for run in nested_runs() if run.agent == "root"]
    assert "Low water is at noon." in [result.text for round_ in root.rounds for result in round_.results]
    assert last_run().text == done.out.strip()


def test_calls_denied_by_the_file_are_never_made(cli: Call) -> None:
    for rules, is_made in ((AGENTS, False), (AGENTS.replace("touch *", "rm *"), True)):
        cli("exec", written("agents.yaml", rules), TOUCH, "--approve", "auto", "--rule", "bash=allow")
        assert Path("tide.txt").exists() == is_made


def test_validate_reports_the_file_kind_and_ineffective_keys(cli: Call, snapshot: Snapshot) -> None:
    path = written("agents.yaml", AGENTS)
    done = cli("validate", path)
    assert (done.code, done.out) == (0, snapshot("valid"))
    assert cli("validate", path, "--strict").code == 2
    written("agents.yaml", AGENTS.replace("sub_agents: [helper]", "handoffs: [helper]"))
    refused = cli("validate", path)
    assert (refused.code, refused.out) == (2, snapshot("refused"))


def test_servers_in_the_file_must_be_configured_by_the_person(cli: Call) -> None:
    path = written("agents.yaml", AGENTS.replace("{type: memory}", "{type: mcp, command: no-such-server}"))
    missing = cli("exec", path, ASK)
    assert missing.code == 2 and "no-such-server" in missing.err and "--mcp FILE" in missing.err
    refused = cli("exec", path, ASK, "--mcp", path)
    assert refused.code == 2 and "no-such-server), and nobody can confirm them here" in refused.err
