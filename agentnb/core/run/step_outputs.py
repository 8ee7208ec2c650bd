"""Outputs of a run's steps: the step context, read by templates, prompts and people.

An entry is plain data. For a step that does work: ``agent`` or another kind, ``output``, and ``runs``, all its executions with
their outputs, latest last. For a parallel block: ``outputs`` by child, ``order`` as in the file, and ``attempts``.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from agentnb.core.log import work_events as w

Entry = dict[str, Any]
BLOCKS = ("parallel", "map", "emit")
"""Kinds of steps whose children run at the same time: either all of them count or none does."""
WITHOUT_ENTRY = ("call", "on_error")
"""Kinds of steps that are part of another step's work, or of its error handling."""
OF_TASKS = ("task", "emit", "await")
"""Kinds of steps in a task file."""


class StepOutputs:
    """Entries of completed steps by id, in the order of their first completion.

    Changed only by the fold; `snapshot` may be called from any thread.
    """

    __slots__ = ("_blocks", "_history", "_last", "_lock", "_steps", "_text")

    def __init__(self) -> None:
        self._steps: dict[str, Entry] = {}
        self._blocks: dict[str, _Block] = {}
        """The open blocks, by path."""
        self._history: dict[str, list[Entry]] = {}
        """The executions of each step, by path, except those inside a failed block, which do not count."""
        self._lock = threading.Lock()
        self._last: Entry | None = None
        """The entry of the last step that does work; for a task, ``_text`` is its text."""
        self._text = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepOutputs) and (self._steps, self.text) == (other._steps, other.text)

    __hash__ = None  # type: ignore[assignment]  # mutable

    @property
    def text(self) -> str:
        """The output of the last step that does work, as text."""
        return self._text if self._last is None else text_of(self._last)

    @property
    def steps(self) -> Mapping[str, Entry]:
        """The entries by id."""
        return MappingProxyType(self._steps)

    def inside(self, block: str) -> Mapping[str, Entry]:
        """Return the entries of an open block's children by id, in the order of their completion."""
        open_block = self._blocks.get(block)
        return {} if open_block is None else MappingProxyType(open_block.children)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy: ``steps`` by id, and the ``order`` of their first completion."""
        with self._lock:
            return {"steps": copy.deepcopy(self._steps), "order": list(self._steps)}

    def start(self, event: w.StepStarted) -> None:
        """Start a step, or a further attempt at it. Discards the outputs of a block's previous attempt."""
        if event.step_kind in BLOCKS:
            inputs = event.inputs if isinstance(event.inputs, dict) else {}
            self._blocks[event.step] = _Block(inputs.get("order") or ())

    def finish(self, event: w.StepFinished, kind: str, parent: str, agent: str) -> None:
        """Finish a step. ``kind``, ``parent`` and ``agent`` come from its start."""
        block = self._blocks.pop(event.step, None)
        if event.status != "completed" or kind in WITHOUT_ENTRY:
            return
        own_id = event.step[len(parent) + 1 :] if parent and event.step.startswith(f"{parent}/") else event.step
        parent_block = self._blocks.get(parent) if parent else None
        with self._lock:
            entry = self._entry(event, kind, agent, block, kept=parent_block is None)
            if parent_block is not None:
                parent_block.children[own_id] = entry
                return
            self._steps[own_id] = entry
            if block is not None and kind == "parallel":
                self._keep_runs(event.step, entry)
            if kind in OF_TASKS:
                self._text, self._last = _text_of_task(event.output, self.text), None
            elif kind != "condition":
                self._last = entry

    def _entry(self, event: w.StepFinished, kind: str, agent: str, block: _Block | None, *, kept: bool) -> Entry:
        if kind == "parallel" and block is not None and not event.error:
            outputs = block.in_order()
            return {"outputs": outputs, "order": list(outputs), "attempts": event.attempts}
        output = event.output
        if block is not None and kind == "map" and not event.error:
            output = [child.get("output", child.get("outputs")) for child in block.in_order().values()]
        run: Entry = {"output": output} if kind == "condition" else {"output": output, "attempts": event.attempts}
        runs = self._history.setdefault(event.step, []) if kept else [*self._history.get(event.step, ())]
        runs.append(run)
        is_nameless = not agent or kind in ("condition", "human", "map", "parallel", "")
        performer = {} if is_nameless else {kind: agent}
        return {**performer, "output": output, "runs": runs}

    def _keep_runs(self, path: str, entry: Entry) -> None:
        """Count the executions within a completed block."""
        for child, inner in entry.get("outputs", {}).items():
            if "runs" in inner:
                self._history[f"{path}/{child}"] = inner["runs"]
            else:
                self._keep_runs(f"{path}/{child}", inner)


class _Block:
    """An open block and the outputs of its children so far."""

    __slots__ = ("children", "order")

    def __init__(self, order: Any) -> None:
        self.order = tuple(order)
        self.children: dict[str, Entry] = {}

    def in_order(self) -> dict[str, Entry]:
        """Return the entries in the order of the file; the items of a map by index."""
        listed = [child for child in self.order if child in self.children]
        others = [child for child in self.children if child not in self.order]
        others.sort(key=lambda one: int(one) if one.isdecimal() else 0)
        return {child: self.children[child] for child in (*listed, *others)}


def leaves(steps: Mapping[str, Entry], before: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield the entries of the steps that did work, with their paths; within blocks, in the order of the file."""
    for name, entry in steps.items():
        path = f"{before}{name}"
        if "outputs" in entry:
            yield from leaves(entry["outputs"], f"{path}/")
        else:
            yield path, entry


def text_of(entry: Entry) -> str:
    """Return the output of a step as text; for a block, its children's text separated by blank lines."""
    texts = [as_text(leaf["output"]) for _, leaf in leaves({"": entry})]
    return "\n\n".join(leaf for leaf in texts if leaf)


def _text_of_task(output: Any, before: str) -> str:
    """Return the result of a task as text: for a plan, its last result; if there is none, the previous text."""
    results = output.get("results") if isinstance(output, dict) else None
    if isinstance(results, list):
        last = results[-1] if results else None
        return as_text(last.get("result")) if isinstance(last, dict) else before
    return before if output is None else as_text(output)


def as_text(output: Any) -> str:
    """Return an output as text: strings unchanged, anything else as JSON."""
    if output is None:
        return ""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()
