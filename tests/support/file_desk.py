"""The file tools by themselves, in a working directory beside which there is a secret."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.files.files_group import Files
from agentnb.tools.tool import ToolContext, ToolOutcome

SECRET = "outside: not for you\n"


class KeptBefore:
    """Keeps the files that calls change, as a run does."""

    def __init__(self) -> None:
        self.kept: list[tuple[Path, bytes | None, bytes]] = []

    def keep_before(self, call_id: str, path: Path, before: bytes | None, after: bytes) -> None:
        self.kept.append((path, before, after))


class FileDesk:
    """The tools, and the folder in which they work."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outside = folder / "work", folder / "outside"
        self.folder.mkdir()
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(SECRET)
        self.services = KeptBefore()
        self.context = ToolContext("r-1", "toolu_1", self.folder, call_in_thread, inside=self.services)  # type: ignore[arg-type]
        self.tools = {tool.spec.name: tool for tool in Files().tools}

    def put(self, texts: Mapping[str, str | bytes]) -> None:
        """Write files."""
        for path, text in texts.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode() if isinstance(text, str) else text)

    def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Run a tool."""
        return asyncio.run(self.tools[name].run(arguments, self.context))

    def code(self, name: str, /, **arguments: Any) -> str | None:
        """Run a tool and return the code of its error."""
        outcome = self.call(name, **arguments)
        assert outcome.ok == (outcome.error_code is None)
        return outcome.error_code

    def text(self, name: str, /, **arguments: Any) -> str:
        """Run a tool that succeeds."""
        outcome = self.call(name, **arguments)
        assert outcome.ok, outcome.text
        return outcome.text

    def tree(self) -> dict[str, bytes | str]:
        """Return all files in and beside the folder: their bytes, or where a link leads."""
        return {
            str(path.relative_to(self.folder.parent)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
            for path in sorted(self.folder.parent.rglob("*"))
            if path.is_symlink() or path.is_file()
        }
