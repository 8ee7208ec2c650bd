"""Files that processes leave behind when they die at any moment."""

from __future__ import annotations

import shutil
from pathlib import Path

from agentnb import Run, Store
from agentnb.core.log.events import AnyEvent
from agentnb.store.run_file import RunFile


class Snapshots(Store):
    """A store that copies its folder after every event: what a process that dies there leaves behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: list[Path] = []

    async def open(self, run_id: str, *, nested: bool = False) -> RunFile:
        file: RunFile = await super().open(run_id, nested=nested)
        return self._copying(file)

    def reopen(self, run_id: str) -> tuple[RunFile, Run]:
        file, run = super().reopen(run_id)
        return self._copying(file), run

    def _copying(self, file: RunFile) -> RunFile:
        append = file.append

        def keep(event: AnyEvent) -> None:
            append(event)
            self.kept.append(Path(shutil.copytree(self.folder, self.folder.parent / f"after-{len(self.kept)}")))

        file.append = keep  # type: ignore[method-assign]
        return file
