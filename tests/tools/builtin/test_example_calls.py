"""The calls of the examples, each in a run: files, commands, a real repository, and GitHub's API at loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from git_repositories import GitRepository
from github_server import TOKEN, Asked, GitHubServer
from run_checks import results

from agentnb import Agent, ToolCall, settings
from agentnb.models import ScriptedModel
from agentnb.tools.builtin.files.files_group import Files
from agentnb.tools.builtin.git.git_group import Git
from agentnb.tools.builtin.github.github_group import GitHub
from agentnb.tools.builtin.group import ToolGroup
from agentnb.tools.builtin.shell.shell_group import Shell

EXAMPLES = json.loads((Path(__file__).parent / "examples" / "calls.json").read_text())
ALLOWED = dict.fromkeys(("write_file", "bash", "git", "github"), "allow")
ISSUES = "/repos/octo/tides/issues"


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """A repository with a secret, and a folder ``work`` with the files of the examples."""
    repository = GitRepository.make(tmp_path)
    repository.write("secret.txt", "outside: not for you")
    for path, text in EXAMPLES["work_dir"].items():
        repository.write(f"work/{path}", text)
    repository.commit("Tides of Brest")
    return repository


@pytest.mark.slow("a command that is killed after a second, and a run for each of 14 calls")
@pytest.mark.req("R2.5", "R2.17", "R2.18", "R2.19", "R2.20", "R2.21", "R2.22")
def test_calls_of_the_examples_have_their_results(repository: GitRepository, subtests: pytest.Subtests) -> None:
    settings.keep_key("github", TOKEN)
    folder, texts = repository.folder / "work", dict[str, list[str]]()
    assert len(EXAMPLES["calls"]) == 14
    with GitHubServer() as server:
        groups: list[ToolGroup] = [Files(), Shell(), Git(), GitHub(repo="octo/tides", url=server.url)]
        for call in EXAMPLES["calls"]:
            with subtests.test(f"{call['tool']} {call['arguments']}"):
                model = ScriptedModel([[ToolCall(call["tool"], call["arguments"])], "Done."])
                permissions = call.get("permissions", ALLOWED)
                agent = Agent(model, tools=groups, work_dir=folder, permissions=permissions, todos=False)
                run = agent.run_sync("go")
                (result,) = results(run)
                assert run.status == "completed"
                assert result.is_error == call.get("is_error", False), result.text
                assert result.text == call.get("result", result.text)
                assert all(words in result.text for words in call.get("says", ())), result.text
                assert result.error_code == call.get("error_code", result.error_code)
                assert "not for you" not in result.text
                texts.setdefault(call["tool"], []).append(result.text)
    assert server.problems == []
    assert server.asked == [
        Asked("GET", ISSUES, {"state": "open", "per_page": "3", "labels": "bug,help wanted"}, TOKEN, None),
        Asked("POST", f"{ISSUES}/12/comments", {}, TOKEN, {"body": "Seen."}),
    ]
    commit = repository.git("rev-parse", "--short=7", "HEAD").strip()
    assert texts["git_log"] == [f"{commit} Tides of Brest"]
    assert "Issue 12" in texts["github_list_issues"][0] and "issuecomment-1" in texts["github_create_comment"][0]
    assert repository.git("branch", "--format=%(refname:short)").split() == ["main"]
    assert (folder / "out" / "new" / "top.txt").read_bytes() == b"6.1\n" and not (folder / "a.txt").exists()
