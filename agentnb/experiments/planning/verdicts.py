"""Verdicts that models give, the checks that ask for them, and where they are kept so that each is paid for once."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from agentnb.detect.run import Run
from agentnb.errors import StoreError
from agentnb.models.model import Model
from agentnb.runtime.budget import Spending
from agentnb.store.store import Store

FOLDER = ".judging"
"""The folder of verdicts and of the runs that gave them, within that of the judged runs: hidden, so that no table reads it."""
FILE = "verdicts"
"""The file of the verdicts, JSON Lines. Without an ending of traces, so that the folder reads as any other folder of runs."""
PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"
"""The answers about one run."""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a judge, from its structured reply alone."""

    key: str
    """The digest of what was judged, the rubric and the model."""
    answer: str = UNKNOWN
    """One of the words of the judge's schema; ``unknown`` also where the judge failed."""
    reason: str = ""
    run_id: str = ""
    """The run of the judge."""
    cost: float | None = 0.0
    """US dollars of that run; None if unknown."""
    error: str = ""
    """Why the judge gave no answer; such a verdict is not kept."""

    @property
    def value(self) -> bool | None:
        """Whether the run passed; None if it is unknown."""
        return {PASSED: True, FAILED: False}.get(self.answer)


class Verdicts:
    """Keeps verdicts by their keys, and the logs of the judges' runs: in a folder, or in memory only."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: that of the judged runs; None for memory only."""
        self.store = None if folder is None else Store(folder / FOLDER)
        self._known: dict[str, Verdict] | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Return the lock to hold while a verdict is asked for, so that equal runs at the same time are judged once."""
        return self._locks.setdefault(key, asyncio.Lock())

    def get(self, key: str) -> Verdict | None:
        """Return the verdict with this key; None if there is none. Raises `StoreError` for a file that cannot be read."""
        if self._known is None:
            self._known = {verdict.key: verdict for verdict in self._read()}
        return self._known.get(key)

    def keep(self, verdict: Verdict) -> None:
        """Keep a verdict, in one write, so that it survives the death of the process. Raises `StoreError`."""
        if self._known is not None:
            self._known[verdict.key] = verdict
        if self.store is None:
            return
        line = b"\n" + msgspec.json.encode(verdict) + b"\n"  # the line before it may have been cut off
        try:
            self.store.prepare()
            descriptor = os.open(self.store.folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            why = f"{self.store.folder / FILE} cannot be written: {error.strerror or error}"
            raise StoreError(why, "Make room, or let it be written; then judge again: only the missing is judged") from error

    def _read(self) -> list[Verdict]:
        if self.store is None:
            return []
        try:
            data = (self.store.folder / FILE).read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            why = f"{self.store.folder / FILE} cannot be read: {error.strerror or error}"
            raise StoreError(why, "Let it be read, or remove it: then all is judged again") from error
        decoder, verdicts = msgspec.json.Decoder(Verdict), []
        for line in data.split(b"\n"):
            with suppress(ValueError):  # blank, damaged, or cut off when a process died: it is judged again
                verdicts.append(decoder.decode(line))
        return verdicts


@dataclass(frozen=True, slots=True)
class Bench:
    """What a judge works with: where its verdicts are kept, the budget it spends from, its time, and the tags of its runs."""

    verdicts: Verdicts = field(default_factory=Verdicts)
    spending: Spending | None = None
    seconds: float | None = None
    tags: tuple[str, ...] = ()


class AskedCheck(ABC):
    """A check that asks a model. An experiment asks it in its own process, once the run that it judges has ended."""

    name: str
    model: str | Model

    @property
    @abstractmethod
    def content(self) -> str:
        """A hash of all that decides its verdicts besides the run."""

    @abstractmethod
    async def ask(self, run: Run, bench: Bench, task: str) -> Asked:
        """Return the verdict on a run. ``task``: what was asked, without what a variant adds to it.

        Whatever fails gives a verdict that is unknown; only a cancellation and the `StoreError` of a verdict that cannot be
        kept are raised.
        """

    @abstractmethod
    def kept(self, run: Run, verdicts: Verdicts) -> Verdict | None:
        """Return the verdict on a recorded run that was kept; None without one."""

    @abstractmethod
    def __call__(self, run: Run) -> bool | None:
        """Return whether the run passed, by asking here and now."""


class Asked(NamedTuple):
    """A verdict, and whether it was kept before, so that it cost nothing."""

    verdict: Verdict
    was_kept: bool
