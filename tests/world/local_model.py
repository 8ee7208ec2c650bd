"""A server of a small language model on this machine. The content of its replies does not matter, only their form."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterpart_cases import Case, doors, free_port, model_cases, started
from environments import Environment, Missing, run

BUILD_SECONDS = 7_200
TRIED = "whole, streamed; tools"


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield runs on each wire that the row names, with a tool only where the model's template has a form for calls."""
    with served(row, environment) as models:
        limited = {wire: f"{models[wire]}&max_tokens=64" for wire in row["wires"]}
        yield from model_cases(limited, calls=False, takes_tools=row["takes_tools"])


@contextmanager
def served(row: dict[str, Any], environment: Environment) -> Iterator[dict[str, str]]:
    """Serve the model of a row until the block ends; its names for agentnb, by wire. Raises `Missing`."""
    if "build" in row and shutil.which(row["program"], path=environment.path) is None:
        _build(row, environment)
    weights = run([str(environment.folder / "bin/python"), "-c", row["weights"]], cwd=environment.folder).strip()
    with tempfile.TemporaryDirectory() as folder:
        port, program = free_port(), environment.program(row["program"])
        placed = {"weights": str(environment.folder / weights), "port": str(port)}
        address = f"http://127.0.0.1:{port}"
        command = [program, *[argument.format(**placed) for argument in row["args"]]]
        with started(command, f"{address}/v1/models", Path(folder)):
            yield doors(address, Path(weights).name)


def _build(row: dict[str, Any], environment: Environment) -> None:
    """Build the program from the source in a package, and keep nothing else. Raises `Missing`.

    An interrupted build continues where it stopped.
    """
    if (cmake := shutil.which("cmake")) is None:
        raise Missing("there is no cmake")
    print(f"  building {row['program']}, which takes a while", flush=True)
    source, build = environment.folder / "source", environment.folder / "build"
    if not (build / "CMakeCache.txt").exists():
        pip = [str(environment.folder / "bin/python"), "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        package = row["build"]["source"]
        run(
            [*pip, "--no-deps", "--no-binary", package.partition("=")[0], "--dest", str(source), package], seconds=BUILD_SECONDS
        )
        with tarfile.open(next(source.glob("*.tar.gz"))) as packed:
            packed.extractall(source, filter="data")
        switches = [f"-D{switch}" for switch in row["build"]["switches"]]
        run([cmake, "-S", str(next(source.glob(row["build"]["folder"]))), "-B", str(build), *switches], seconds=BUILD_SECONDS)
    jobs = ["--parallel", str(os.cpu_count() or 1)]
    run(["nice", cmake, "--build", str(build), "--target", row["program"], *jobs], seconds=BUILD_SECONDS)
    shutil.move(next(build.rglob(f"bin/{row['program']}")), environment.folder / "bin" / row["program"])
    shutil.rmtree(source)
    shutil.rmtree(build)
