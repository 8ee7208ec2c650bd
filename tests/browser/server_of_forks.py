"""A Jupyter server whose kernels are fast forks: ``python server_of_forks.py MODULE OPTIONS``."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import local_provisioner

sys.path[0] = str(Path(__file__).resolve().parents[1] / "support")
import forked_kernels  # noqa: E402  # it stands beside what all tests share

IMPORTED = ("anywidget", "pandas")
"""Modules that the first cells of test notebooks import."""
start_afresh = local_provisioner.launch_kernel


def launch(command: list[str], *, env: dict[str, str], **rest: Any) -> Any:
    """Fork a kernel. A kernel with its own paths has another ipykernel (see `kernels.py`) and starts afresh."""
    if env.get("PYTHONPATH") != os.environ.get("PYTHONPATH"):
        return start_afresh(command, env=env, **rest)
    return forked_kernels.launch(command, env=env, imported=IMPORTED, **rest)


if __name__ == "__main__":
    local_provisioner.launch_kernel = launch
    forked_kernels.server(IMPORTED)  # it imports in parallel with this process
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # jsonschema has it make 39 grammars, a second of work
    from jupyterlab import commands

    commands._yarn_config = lambda logger: {
        "yarn config": {},
        "npm config": {},
    }  # a Node process for each extension check
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
