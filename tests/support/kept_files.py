"""Runs whose tools keep files before they change them, as ``write_file`` does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentnb import Agent, Run, Store, ToolCall
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.function import FunctionTool
from agentnb.tools.tool import ToolContext


def nothing_more(path: Path) -> None:
    """Does nothing between the list of changes and the change."""


def write_tool(name: str = "write_file", then: Callable[[Path], None] = nothing_more) -> FunctionTool:
    """A tool that keeps a file, does ``then``, and writes it."""

    async def write_file(context: ToolContext, path: str, content: str) -> str:
        """Write a file."""
        real = Path(os.path.realpath(context.work_dir / path))

        def write() -> None:
            before = real.read_bytes() if real.exists() else None
            context.keep_before(real, before, content.encode())
            then(real)
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_bytes(content.encode())

        await asyncio.to_thread(write)
        return "written"

    return FunctionTool(write_file, name=name, effects=("write",), flag="file_write", path="path", content="content")


def bash_tool(folder: Path) -> FunctionTool:
    """A tool that appends its command to a file."""

    async def bash(command: str) -> str:
        """Run a command."""
        with (folder / command.rsplit(maxsplit=1)[-1]).open("a") as file:
            file.write(command)
        return "ran"

    return FunctionTool(bash, effects=("execute",), flag="bash", command="command")


def writes(path: str, content: str, tool: str = "write_file") -> ToolCall:
    """A call that writes a file."""
    return ToolCall(tool, {"path": path, "content": content})


class Desk:
    """A folder to work in, with a store of runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / ".agentnb" / "runs")

    def agent(self, *replies: Any, tools: list[Any] | None = None, **settings: Any) -> Agent:
        """An agent that makes these calls, one in each round."""
        own = ["write_file", write_tool("edit_file"), bash_tool(self.folder)]
        model = ScriptedModel([*replies, "Done."])
        return Agent(model, tools=own + (tools or []), todos=False, work_dir=self.folder, **{"approve": "auto"} | settings)

    def run(self, *replies: Any, tools: list[Any] | None = None, **settings: Any) -> Run:
        """A run that makes these calls, kept in the store."""
        return self.agent(*replies, tools=tools, **settings).run_sync("Go.", store=self.store)

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """A file that the person has."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        file.chmod(mode)
        return file

    def kept(self, run: Run) -> Path:
        """The folder of a run's before-images."""
        return self.store.folder / f".before-{run.id}"

    def contents(self) -> dict[str, str]:
        """The files outside of the store, by path."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file() and ".agentnb" not in path.parts]
        return {str(path.relative_to(self.folder)): path.read_text() for path in files}


def killed_run(folder: str) -> None:
    """A run whose process kills itself between the list of changes and the second change."""

    def kill(_: Path) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    calls = writes("a.txt", "new"), writes("b.txt", "new", "killed")
    Desk(Path(folder)).run(*calls, tools=[write_tool("killed", kill)])
