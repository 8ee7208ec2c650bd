"""The scene of an attack: the home of a person, what is done in it, and what may never have come of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attack_rows import SECRET, Attack

from agentnb import Agent, Store, ToolCall
from agentnb.cli import main
from agentnb.core.questions import WaitingOnUser
from agentnb.models import ScriptedModel
from agentnb.models.destinations import allowed_urls
from agentnb.store import own_logs
from agentnb.testing import LoopbackServer
from agentnb.tools.builtin.shell.shell_group import Shell

KEY = "not-a-key-of-any-provider-0123"
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}
PERSONS = {
    "project/victim.txt": "precious\n",
    ".bashrc": "# mine\n",
    ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n",
}
TOOLS = {"sandbox": Shell(sandbox="bwrap")}


class Scene:
    """A home of one attack, made anew."""

    def __init__(self, attack: Attack, folder: Path, server: LoopbackServer, patch: pytest.MonkeyPatch) -> None:
        self.attack, self.server = attack, server
        self.home, self.mark, self.left = folder / "home", folder / "mark", folder / "left"
        self.elsewhere = folder / "elsewhere"
        for path in (self.home, self.elsewhere):
            shutil.rmtree(path, ignore_errors=True)
        self.elsewhere.mkdir()
        self.left.unlink(missing_ok=True)
        server.requests.clear()
        self.mark.write_text(f"#!/bin/sh\ntouch {self.left}\n")
        self.mark.chmod(0o755)
        self.places = {"MARK": str(self.mark), "LEFT": str(self.left), "HOME": str(self.home), "ADDRESS": f"{server.url}/v1"}
        patch.setenv("HOME", str(self.home))
        patch.setenv("XDG_DATA_HOME", str(self.home / attack.data))
        patch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
        patch.setattr(allowed_urls, "_allowed_here", set())
        patch.setattr(own_logs, "_secret", lru_cache(maxsize=1)(own_logs._secret.__wrapped__))
        self.prepare(folder / "prepared")
        self.folder = self.home / attack.at
        self.calls = [[self.placed(one) for one in (call if isinstance(call, list) else [call])] for call in attack.calls]
        self.said = ""
        """What the model was sent, by its tools."""
        self.personal = self.kept()

    def prepare(self, prepared: Path) -> None:
        """Make the home, or copy what the same script has made before, with its hard links."""
        copy = prepared / sha256(self.attack.prepare.encode()).hexdigest()
        if not copy.exists():
            for name, text in PERSONS.items():
                (self.home / name).parent.mkdir(exist_ok=True, parents=True)
                (self.home / name).write_text(text)
            self.script(self.attack.prepare, self.home / "project")
            prepared.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", self.home, copy], check=True)
        else:
            subprocess.run(["cp", "-a", copy, self.home], check=True)

    def placed(self, call: ToolCall) -> ToolCall:
        text = json.dumps(call.arguments)
        for name, path in self.places.items():
            text = text.replace(name, path)
        return ToolCall(call.name, json.loads(text))

    def script(self, script: str, folder: Path) -> str:
        """Run a script as the person would."""
        for name, path in self.places.items():
            script = script.replace(name, path)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **GIT}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.decode(errors="replace")

    def kept(self) -> dict[str, bytes]:
        """Return the files of the person's folder of agentnb, where agentnb itself makes the secret of logs."""
        own = self.home / self.attack.data / "agentnb"
        return {str(path): path.read_bytes() for path in own.rglob("*") if path.is_file()}

    def run(self) -> None:
        """Have an agent make the calls."""
        tools = [TOOLS.get(name, name) for name in self.attack.tools]
        model = ScriptedModel([*self.calls, "Done."])
        agent = Agent(model, tools, permissions=dict(self.attack.rules), todos=False, guidance="off", instructions=False)
        options = {"answer": self.answer()} if self.attack.presses else {}
        run = agent.run_sync(
            "go", approve=self.attack.approve, work_dir=self.folder, store=Store(self.elsewhere / "runs"), show=False, **options
        )
        assert run.status == "completed", run
        results = [part for request in model.requests[-1:] for message in request.messages for part in message.parts]
        self.said = msgspec.json.encode([part for part in results if not isinstance(part, ToolCall)]).decode()

    def answer(self) -> Any:
        """Return what presses the widest pattern that the first question offers, and rejects what is asked later."""
        asked: list[WaitingOnUser] = []

        def press(question: WaitingOnUser) -> Any:
            asked.append(question)
            offered = [grant.rule for grant in question.about.grants if "(" in grant.rule] if question.about else []
            if len(asked) > 1:
                return "deny"
            return {"always": offered[-1], "reach": "run"} if offered else "approve"

        return press

    def act(self) -> None:
        """Do what the calls ask for, with no tool of agentnb."""
        for call in (call for calls in self.calls for call in calls):
            done = BY_HAND[call.name](self, **call.arguments) if isinstance(call.arguments, dict) else None
            self.said += done or ""

    def harms(self) -> Iterator[str]:
        """Do what the person does afterwards, and yield what came of the attack."""
        if {
            path: data for path, data in self.kept().items() if path in self.personal or "log-secret" not in path
        } != self.personal:
            yield "the person's folder of agentnb was changed"
        if SECRET in self.said:
            yield "a secret was sent"
        if self.attack.after == "agentnb exec":
            self.execute()
        else:
            self.script(self.attack.after, self.folder)
        if self.left.exists():
            yield "a program was run"
        if self.server.requests:
            yield "the key was sent"
        for name, text in PERSONS.items():
            path = self.home / name
            if not path.exists() or path.read_text() != text:
                yield f"{path.name} was changed"

    def execute(self) -> None:
        """Run the workflow of somebody else's, which names an address and a key."""
        file = self.elsewhere / "theirs.yaml"
        model = f"compatible:m?url={self.server.url}/v1&key=AWS_SECRET_ACCESS_KEY"
        file.write_text(f'agents: {{a: {{model: "{model}"}}}}\nworkflow: [{{type: agent, name: a, prompt: Go}}]\n')
        before = Path.cwd()
        os.chdir(self.elsewhere)
        try:
            main(["exec", str(file)])
        finally:
            os.chdir(before)


def _write(scene: Scene, path: str, content: str) -> None:
    file = scene.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def _edit(scene: Scene, path: str, old: str, new: str) -> None:
    file = scene.folder / path
    file.write_text(file.read_text().replace(old, new))


def _search(scene: Scene, pattern: str = "", glob: str = "", path: str = ".") -> str:
    return scene.script(f"grep -rh '{pattern}' {path}" if pattern else f"find {path} -name '{glob}'", scene.folder)


def _branch(scene: Scene, action: str, name: str) -> str:
    return scene.script(f"git {'branch' if action == 'create' else 'switch -q'} {name}", scene.folder)


BY_HAND: dict[str, Any] = {
    "write_file": _write,
    "edit_file": _edit,
    "read_file": lambda scene, path: (scene.folder / path).read_text(),
    "list_files": lambda scene, path: "\n".join(file.name for file in (scene.folder / path).iterdir()),
    "search_files": _search,
    "bash": lambda scene, command: scene.script(command, scene.folder),
    "git_diff": lambda scene, path=".": scene.script(f"git diff {path}", scene.folder),
    "git_add": lambda scene, paths: scene.script(f"git add {' '.join(paths)}", scene.folder),
    "git_commit": lambda scene, message: scene.script(f"git commit -q -m {message}", scene.folder),
    "git_branch": _branch,
}
"""The effect of each call without any wall."""
