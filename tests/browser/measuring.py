"""Traffic between kernel and page, and smoothness of the page."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Message:
    """A message from a kernel to the page."""

    channel: str
    kind: str
    sent_at: float
    """Time at which the kernel made it, in seconds."""
    content: dict[str, Any]
    size: int


def decoded(frame: bytes | str) -> Message:
    """Decode a frame of the protocol ``v1.kernel.websocket.jupyter.org``, or of the older text protocol."""
    if isinstance(frame, str):
        whole = json.loads(frame)
        return _message(whole["channel"], whole["header"], whole["content"], len(frame))
    (count,) = struct.unpack_from("<Q", frame)
    offsets = struct.unpack_from(f"<{count}Q", frame, 8)
    channel, header, _, _, content = (frame[offsets[index] : offsets[index + 1]] for index in range(5))
    return _message(channel.decode(), json.loads(header), json.loads(content), len(frame))


def _message(channel: str, header: dict[str, Any], content: dict[str, Any], size: int) -> Message:
    at = datetime.fromisoformat(header["date"]).timestamp()
    return Message(channel, header["msg_type"], at, content, size)


class Traffic:
    """Records every message from kernels to a page. Create it before the page: it listens to new connections."""

    def __init__(self, page: Any) -> None:
        self.messages: list[Message] = []
        page.on("websocket", self._listen)

    def _listen(self, socket: Any) -> None:
        if "/channels" in socket.url:
            socket.on("framereceived", lambda frame: self.messages.append(decoded(frame)))

    def comm(self, models: list[str] | None = None) -> list[Message]:
        """Return the messages to these widgets, or to all."""
        messages = [message for message in self.messages if message.kind == "comm_msg"]
        return [message for message in messages if models is None or message.content["comm_id"] in models]


def most_in_a_second(messages: list[Message]) -> int:
    """Return the largest number of messages that the kernel sent within a second."""
    times = sorted(message.sent_at for message in messages)
    return max((sum(start <= time < start + 1 for time in times) for start in times), default=0)


def model_ids(outputs: list[dict[str, Any]]) -> list[str]:
    """Return the widgets that these outputs show."""
    views = (output.get("data", {}).get("application/vnd.jupyter.widget-view+json") for output in outputs)
    return [view["model_id"] for view in views if view]


@dataclass(frozen=True)
class Shift:
    """A layout shift without an action of the person."""

    value: float
    at: float
    nodes: list[str]
    """Classes of the elements that moved."""


@dataclass
class Watched:
    """Recorded gaps, tasks and shifts. All times are milliseconds of the page's clock."""

    frames: list[float] = field(default_factory=list)
    long_tasks: list[tuple[float, float]] = field(default_factory=list)
    """Start and duration of tasks that blocked the page for over 50 ms."""
    shifts: list[Shift] = field(default_factory=list)

    def gaps(self) -> list[tuple[float, float]]:
        """Return the gaps between frames, largest first: length and start."""
        gaps_found = [(later - earlier, earlier) for earlier, later in zip(self.frames, self.frames[1:], strict=False)]
        return sorted(gaps_found, reverse=True)

    def largest_gap(self) -> float:
        """Return the longest time without a new frame."""
        return self.gaps()[0][0]

    def moved(self, part: str) -> list[Shift]:
        """Return the shifts of elements with these letters in a class."""
        return [shift for shift in self.shifts if any(part in node for node in shift.nodes)]


START = """() => {
    const seen = window.__watched = {frames: [], tasks: [], shifts: [], on: true};
    const frame = at => { seen.frames.push(at); if (seen.on) requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
    const name = source => source.node?.className?.toString() || source.node?.nodeName || '';
    const moved = entry => [entry.value, entry.startTime, entry.sources.map(name)];
    const add = list => {
        for (const entry of list.getEntries()) {
            if (entry.entryType === 'longtask') seen.tasks.push([entry.startTime, entry.duration]);
            else if (!entry.hadRecentInput) seen.shifts.push(moved(entry));
        }
    };
    seen.observer = new PerformanceObserver(add);
    for (const type of ['longtask', 'layout-shift']) seen.observer.observe({type});
    seen.rest = () => add({getEntries: () => seen.observer.takeRecords()});
}"""
STOP = """() => {
    const {rest, observer, ...seen} = window.__watched;
    window.__watched.on = false;
    rest();
    observer.disconnect();
    return seen;
}"""


@contextmanager
def watching(page: Any) -> Iterator[Watched]:
    """Record the page's frames, long tasks and layout shifts; the result is filled in at the end."""
    watched = Watched()
    page.evaluate(START)
    yield watched
    seen = page.evaluate(STOP)
    watched.frames = seen["frames"]
    watched.long_tasks = [(start, duration) for start, duration in seen["tasks"]]
    watched.shifts = [Shift(value, at, nodes) for value, at, nodes in seen["shifts"]]


@dataclass
class Work:
    """Recorded work of the page's main thread."""

    longest: float = 0.0
    """Processor time of its longest task in milliseconds, during which it drew no frame and received nothing."""


@contextmanager
def working(page: Any) -> Iterator[Work]:
    """Record the main thread of the page; the result is filled in at the end.

    Elapsed time would include other work of this machine; processor time belongs to the page alone.
    """
    work, browser = Work(), page.context.browser
    browser.start_tracing(page=page, categories=["toplevel"])
    yield work
    page.evaluate("() => new Promise(done => setTimeout(done))")  # an unfinished task has no length in the trace
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {(event["pid"], event["tid"]) for event in events if event["args"].get("name") == "CrRendererMain"}
    tasks = [
        event["tdur"]
        for event in events
        if "RunTask" in event["name"] and "tdur" in event and (event["pid"], event["tid"]) in main
    ]
    assert tasks, "this browser does not report the processor time of tasks"
    work.longest = max(tasks) / 1_000


def busiest(attempt: Callable[[], Work], enough: float) -> float:
    """Return the longest task (ms) of the first of three attempts below ``enough``, or of the best attempt."""
    found: list[float] = []
    while len(found) < 3 and (not found or found[-1] > enough):
        found.append(attempt().longest)
    return min(found)


def elements(part: Any) -> int:
    """Return the number of elements in this part of the page."""
    return int(part.evaluate("part => part.querySelectorAll('*').length"))
