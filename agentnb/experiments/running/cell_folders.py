"""The folders of one run: that in which it works, and that of an agent of others. They last until the checks have looked."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.acp.confinement import Confinement
from agentnb.acp.foreign_agent import ForeignAgent
from agentnb.agent.agent import Agent
from agentnb.experiments.planning.run_folders import WORK_DIR, files_left_out, names_folder


class CellFolders(NamedTuple):
    """The folders of one run, within one that is thrown away."""

    folder: Path
    """Without links on the way to it, as the walls name it."""

    @property
    def work(self) -> Path:
        """The folder in which the run works."""
        return self.folder / "work"

    def fill(self, row: Mapping[str, Any], home: str) -> dict[str, Any]:
        """Copy the folder of the task and the ``home`` of the variant, if any; return the row with the folder of the run."""
        if names_folder(row):
            shutil.copytree(row[WORK_DIR], self.work, symlinks=True, ignore=files_left_out)
        else:
            self.work.mkdir()
        settings = Confinement(self.folder).home
        if home:
            shutil.copytree(home, settings, symlinks=True)
        else:
            settings.mkdir()
        return {**row, WORK_DIR: str(self.work)}

    def confined(self, agent: Agent, *, is_in_sandbox: bool) -> Agent:
        """Return an agent of others as it works in these folders."""
        foreign = agent.used_model
        assert isinstance(foreign, ForeignAgent), "it stands where a model does"
        return replace(agent, model=replace(foreign, confinement=Confinement(self.folder, is_in_sandbox)))
