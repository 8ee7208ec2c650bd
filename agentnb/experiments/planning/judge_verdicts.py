"""Verdicts of models, the checks that ask for them, and a cache so that each verdict is paid for only once."""

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
"""Folder of the verdicts and the judges' runs, within the folder of the judged runs. Hidden, so that tables skip it."""
FILE = "verdicts"
"""File name for verdicts (JSON Lines), without the suffix of traces, so that the folder can be read like any folder of runs."""
PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"
"""The possible answers about one run."""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a judge, taken only from its structured reply."""

    key: str
    """Hash of the judged text, the rubric and the model."""
    answer: str = UNKNOWN
    """An answer that the judge's schema allows, or ``unknown`` if the judge failed."""
    reason: str = ""
    run_id: str = ""
    """Id of the judge's run."""
    cost: float | None = 0.0
    """US dollars that the judge's run cost, or None if unknown."""
    error: str = ""
    """Why there is no answer; such a verdict is not cached."""

    @property
    def value(self) -> bool | None:
        """True if the run passed, or None if unknown."""
        return {PASSED: True, FAILED: False}.get(self.answer)


class Verdicts:
    """Stores verdicts by key, and the logs of the judges' runs, in a folder or only in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: folder of the judged runs, or None to store in memory only."""
        self.store = None if folder is None else Store(folder / FOLDER)
        self._known: dict[str, Verdict] | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: str) -> asyncio.Lock:
        """Return the lock to hold while asking for a verdict, so that equal runs are judged only once, even concurrently."""
        return self._locks.setdefault(key, asyncio.Lock())

    def get(self, key: str) -> Verdict | None:
        """Return the verdict with this key, or None. Raises `StoreError` if the file is unreadable."""
        if self._known is None:
            self._known = {verdict.key: verdict for verdict in self._read()}
        return self._known.get(key)

    def keep(self, verdict: Verdict) -> None:
        """Store a verdict in a single write, so that it survives the death of the process. Raises `StoreError`."""
        if self._known is not None:
            self._known[verdict.key] = verdict
        if self.store is None:
            return
        line = b"\n" + msgspec.json.encode(verdict) + b"\n"  # the previous line may be cut off
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
            raise StoreError(
                why, "Free disk space or make it writable; then judge again: only missing verdicts are requested"
            ) from error

    def _read(self) -> list[Verdict]:
        if self.store is None:
            return []
        try:
            data = (self.store.folder / FILE).read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            why = f"{self.store.folder / FILE} cannot be read: {error.strerror or error}"
            raise StoreError(why, "Make it readable, or remove it to judge everything again") from error
        decoder, verdicts = msgspec.json.Decoder(Verdict), []
        for line in data.split(b"\n"):
            with suppress(ValueError):  # blank, damaged, or cut off when a process died: judged again
                verdicts.append(decoder.decode(line))
        return verdicts


@dataclass(frozen=True, slots=True)
class Bench:
    """The resources of a judge: its cache of verdicts, the budget it draws on, its time limit, and the tags of its runs."""

    verdicts: Verdicts = field(default_factory=Verdicts)
    spending: Spending | None = None
    seconds: float | None = None
    tags: tuple[str, ...] = ()


class AskedCheck(ABC):
    """A check that asks a model. An experiment asks in its own process, after the judged run has ended."""

    name: str
    model: str | Model

    @property
    @abstractmethod
    def content(self) -> str:
        """Hash of everything that determines the verdicts, except the run."""

    @abstractmethod
    async def ask(self, run: Run, bench: Bench, task: str) -> Asked:
        """Return the verdict on a run. ``task``: its prompt, without the variant's additions.

        A failure results in an unknown verdict. Raises only a cancellation, or `StoreError` if the verdict cannot be stored.
        """

    @abstractmethod
    def kept(self, run: Run, verdicts: Verdicts) -> Verdict | None:
        """Return the cached verdict on a recorded run, or None."""

    @abstractmethod
    def __call__(self, run: Run) -> bool | None:
        """Return whether the run passed; blocks until the model answers."""


class Asked(NamedTuple):
    """A verdict, and whether it came from the cache and so cost nothing."""

    verdict: Verdict
    was_kept: bool
