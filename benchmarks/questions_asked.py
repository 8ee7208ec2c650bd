"""How many questions recorded runs would have asked under the permissions of today, replayed call by call.

Usage: python benchmarks/questions_asked.py FILE_OR_NOTEBOOK ... [--rule RULE=VERDICT ...]

FILE is a trace of any format that agentnb reads. A notebook is executed in a folder of its own, and its runs are counted.
Tools of other products have the effects in `TOOLS`, those of a notebook what they declared. Rules call them `bash`, `write`,
`read`, `fetch` and `other`. The columns: nothing given; the rules; `auto`; nothing given, and each question answered "always"
with the pattern that it offers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentnb.policies.permissions.offers import offers_about

from agentnb import Run, Store, ToolCall, iter_traces
from agentnb.core.request import ToolSpec
from agentnb.policies.permissions.approval_mode import NO_MODE, ApprovalMode
from agentnb.policies.permissions.gate import is_allowed_by
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.tools.subject import Subject

RULES = ("write(**)=allow", "bash(git *)=allow", "bash(ls *)=allow")
"""What somebody may allow who works under version control: files of the project, git, and lists of files."""
PROJECT = Path("/project")
"""The working folder of a run that writes no file."""


@dataclass(frozen=True)
class RecordedTool:
    """A tool of a recorded run: what permissions see of it."""

    spec: ToolSpec
    effects: tuple[str, ...] | None
    subject: Subject | None = None

    async def run(self, arguments: Any, context: Any) -> Any:
        raise NotImplementedError("recorded calls are not made again")


def _recorded(name: str, effect: str, subject: Subject | None = None) -> RecordedTool:
    return RecordedTool(ToolSpec(name, "", {"type": "object"}), (effect,), subject)


BASH = _recorded("bash", "execute", Subject("command", "command"))
FETCH = _recorded("fetch", "network", Subject("url", "url"))
READ = _recorded("read", "read")
WRITE = {name: _recorded("write", "write", Subject("path", name)) for name in ("file_path", "path", "filename")}
UNPLACED = _recorded("edit", "write")
"""A tool that writes the file that is open."""
OTHER = _recorded("other", "execute")
TOOLS: dict[str, RecordedTool] = {
    **dict.fromkeys(("bash", "shell", "run_shell_command"), BASH),
    **dict.fromkeys(("webfetch", "fetch"), FETCH),
    **dict.fromkeys(("read", "glob", "grep", "open", "find_file", "list_directory", "search_file", "search_dir"), READ),
    **dict.fromkeys(("todowrite", "taskoutput", "submit", "finish"), READ),
    **dict.fromkeys(("write", "edit", "multiedit", "create", "insert", "str_replace_editor"), WRITE["file_path"]),
}
"""Tools of other products, by the names that they have there."""


@dataclass(frozen=True)
class Asked:
    """What would have become of the calls of a run."""

    questions: int
    denials: int

    def __str__(self) -> str:
        return f"{self.questions}" + (f" (and {self.denials} denied)" if self.denials else "")


def recorded_tool(call: ToolCall, run: Run, *, is_own: bool) -> RecordedTool:
    """Return the tool of a call: with the effects that it declared, or those that tools of its name have."""
    if is_own:
        spec = next((spec for spec in run.tools if spec.name == call.name), ToolSpec(call.name, "", {}))
        return RecordedTool(spec, spec.effects or None)
    tool = TOOLS.get(call.name.lower(), OTHER)
    if tool.spec.name != "write":
        return tool
    return next((WRITE[name] for name in WRITE if name in call.arguments), UNPLACED)


def asked(calls: Sequence[tuple[RecordedTool, ToolCall]], permissions: Permissions, project: Path, *, always: bool) -> Asked:
    """Judge the calls in order. ``always``: each question is answered with the pattern that it offers."""
    questions = denials = 0
    grants: list[str] = []
    for tool, call in calls:
        judged = permissions.for_tool(call.name, tool, project).judge(call.arguments)
        denials += judged.verdict == "deny"
        if judged.verdict == "ask" and not any(is_allowed_by(rule, call, tool, project) for rule in grants):
            questions += 1
            offers = offers_about(call, tool, project, has_session=False) if always else ()
            grants += [offer.rule for offer in offers[-1:] if offer.rule != call.name]
    return Asked(questions, denials)


def project_of(calls: Sequence[tuple[RecordedTool, ToolCall]]) -> Path:
    """Return the folder of all files that the calls write."""
    values = [call.arguments[tool.subject.argument] for tool, call in calls if tool.subject and tool.subject.kind == "path"]
    folders = [Path(value).parent for value in values if Path(value).is_absolute()]
    return Path(os.path.commonpath(folders)) if folders else PROJECT


def runs_of(path: Path) -> Iterator[tuple[Run, bool]]:
    """Yield the runs of a file; of a notebook those that it makes. With each: whether agentnb made it."""
    if path.suffix != ".ipynb":
        yield from ((run, False) for run in iter_traces(path))
        return
    sys.path.insert(0, str(path.resolve().parent))
    import nbformat
    from demo import execute, without_keys

    without_keys()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(path.parent / "data", Path(folder, "data"))
        with redirect_stdout(sys.stderr):  # it shows a bar
            execute(nbformat.read(path, as_version=4), Path(folder))
        store = Store(Path(folder, ".agentnb", "runs"))
        yield from ((store.load(run_id), True) for run_id in store.ids())


def row(path: Path, rules: RuleList) -> str:
    """Return the row of the table about a file."""
    found = []
    for run, is_own in runs_of(path):
        recorded = [call for one in run.rounds for call in one.calls]
        tools = [recorded_tool(call, run, is_own=is_own) for call in recorded]
        renamed = [ToolCall(tool.spec.name, call.arguments, call.id) for tool, call in zip(tools, recorded, strict=True)]
        found.append(list(zip(tools, renamed, strict=True)))
    cells = [f"{sum(map(len, found))}"]
    nothing = Permissions()
    for permissions, always in (
        (nothing, False),
        (Permissions.of(NO_MODE, rules), False),
        (Permissions.of(ApprovalMode.of("auto")), False),
        (nothing, True),
    ):
        each = [asked(calls, permissions, project_of(calls), always=always) for calls in found]
        cells.append(str(Asked(sum(one.questions for one in each), sum(one.denials for one in each))))
    return f"| {path.name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_NOTEBOOK")
    parser.add_argument("--rule", action="append", metavar="RULE=VERDICT", help=f"instead of {' '.join(RULES)}")
    given = parser.parse_args()
    rules = RuleList.typed(given.rule or RULES)
    rows = [row(path, rules) for path in given.paths]
    print("| recorded | calls | nothing given | the rules | auto | always |\n|---|---:|---:|---:|---:|---:|", *rows, sep="\n")


if __name__ == "__main__":
    main()
