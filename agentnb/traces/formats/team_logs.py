"""Conversations of several agents, as their frameworks log them: AG2's turns, and the text logs of MetaGPT and HyperAgent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from agentnb.traces.formats.content import time_of
from agentnb.traces.run_writer import RunWriter

_METAGPT = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) \| +\w+ *\| [\w.]+:\w+:\d+ - (?P<who>[^:\n]*): ?(?P<text>.*)$",
    re.MULTILINE,
)
_MESSAGES = re.compile(r"^\[(?P<at>[\d: -]+)\] (?:NEW MESSAGES:|FROM: (?P<who>.*?) TO: .*)$", re.MULTILINE)
_RULE = re.compile(r"^-{20,}\s*$", re.MULTILINE)
_HYPERAGENT = re.compile(r"^(?P<who>HyperAgent[\w.-]*) - [A-Z]+ - (?P<text>.*)$", re.MULTILINE)
_SPEAKER = re.compile(r"\A(?P<who>[A-Za-z_][\w .()-]{0,40}): ?", re.MULTILINE)


class Turn(NamedTuple):
    """What one agent said."""

    who: str
    text: str
    at: Any = None


def take_turns(writer: RunWriter, turns: Iterable[dict[str, Any]], prompt: str) -> None:
    """Hand the turns of AG2 to the writer. Their contents may be lists of lines.

    Roles are those of the other side: the proxy that stands for the person is ``assistant``, the models are ``user``. The task
    itself is the person's, whoever is named beside it.
    """
    for index, turn in enumerate(turns):
        content = turn["content"]
        text = "\n".join(content) if isinstance(content, list) else content
        author = str(turn.get("name") or "")
        is_task = not index and (turn["role"] == "assistant" or text.strip() == prompt.strip() or not prompt)
        if is_task or turn["role"] == "assistant":
            writer.say(text, author=author)
        else:
            writer.reply(text, author=author)


def take_log(writer: RunWriter, log: str, prompt: str) -> None:
    """Hand the text log of a framework to the writer; a log of an unknown kind becomes one message."""
    turns = next((found for read in _READERS if (found := [*read(log)])), [Turn("", log)])
    if prompt and not (turns and turns[0].who == "Human"):
        writer.say(prompt)
    for turn, again in groupby(turns):  # a restarted HyperAgent writes each line once for each start
        del again
        if turn.who == "Human":
            writer.say(turn.text, author=turn.who, at=time_of(turn.at))
        else:
            writer.reply(turn.text, author=turn.who, at=time_of(turn.at))


def _metagpt(log: str) -> Iterator[Turn]:
    """Yield what the roles did: each line of the logger, with the text up to the next."""
    for line, text in _sections(_METAGPT, log):
        yield Turn(line["who"], f"{line['text']}\n{text}".strip(), line["at"])


def _messages(log: str) -> Iterator[Turn]:
    """Yield the messages of MetaGPT's communication log, which stand between rules."""
    for line, text in _sections(_MESSAGES, log):
        body = _RULE.split(text, maxsplit=1)[0].strip()
        if line["who"]:
            yield Turn(line["who"].strip(), body.partition("CONTENT:")[2].strip() or body, line["at"].strip())
            continue
        speaker = _SPEAKER.match(body)
        yield Turn(speaker["who"] if speaker else "", body[speaker.end() :].strip() if speaker else body, line["at"].strip())


def _hyperagent(log: str) -> Iterator[Turn]:
    for line, text in _sections(_HYPERAGENT, log):
        yield Turn(line["who"], f"{line['text']}\n{text}".strip())


def _sections(begins: re.Pattern[str], log: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each line that begins a section, with the text up to the next."""
    found = [*begins.finditer(log)]
    for number, line in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(log)
        yield line, log[line.end() : end].strip("\n")


_READERS: tuple[Callable[[str], Iterator[Turn]], ...] = (_metagpt, _messages, _hyperagent)
