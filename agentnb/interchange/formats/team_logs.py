"""Conversations between several agents in the logs of their frameworks: AG2 turns, peer conversations, and text logs.

The text logs come from MetaGPT, HyperAgent and MA-ToT (multi-agent tree of thoughts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from agentnb.core.log.work_events import OtherEvent
from agentnb.core.messages import ToolCall
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.message_content import str_at, time_of

_METAGPT = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) \| +\w+ *\| [\w.]+:\w+:\d+ - (?P<who>[^:\n]*): ?(?P<text>.*)$",
    re.MULTILINE,
)
_MESSAGES = re.compile(r"^\[(?P<at>[\d: -]+)\] (?:NEW MESSAGES:|FROM: (?P<who>.*?) TO: .*)$", re.MULTILINE)
_RULE = re.compile(r"^-{20,}\s*$", re.MULTILINE)
_HYPERAGENT = re.compile(r"^(?P<who>HyperAgent[\w.-]*) - [A-Z]+ - (?P<text>.*)$", re.MULTILINE)
_SPOKEN = re.compile(r"\A(?P<who>[A-Za-z][\w .-]*?)(?:'s Response|->(?P<to>[\w .-]+)): ?")
_ACTION = re.compile(r"^Action:\s*```(?P<language>\w*)\n", re.MULTILINE)
_FENCE = re.compile(r"^```[ \t]*$", re.MULTILINE)
_TREE_ROUND = re.compile(r"^[ \t]*#{5,} Round \d+ #{5,}[ \t]*$", re.MULTILINE)
_TREE = re.compile(
    r"^[ \t]*(?:#{5,} (?P<round>Round \d+) #{5,}|\*{5} (?P<who>.+?) output: \*{5}|(?P<rule>\*{20,})"
    r"|(?P<step>Step \d+: \w+|Final selected thought: .*))[ \t]*$",
    re.MULTILINE,
)
_VERIFIED = "\nVerifier response:"
VERIFIER = "Verifier"
_SPEAKER = re.compile(r"\A(?P<who>[A-Za-z_][\w .()-]{0,40}): ?", re.MULTILINE)


class Turn(NamedTuple):
    """A message from an agent or, if no agent is named, a note from its framework."""

    who: str
    text: str
    at: Any = None
    to: str = ""
    calls: tuple[ToolCall, ...] = ()
    is_note: bool = False


def take_turns(writer: RunWriter, turns: Iterable[dict[str, Any]], prompt: str) -> None:
    """Add the turns of AG2 to the writer; their contents may be lists of lines.

    Roles are reversed: the person's proxy is ``assistant``, and the models are ``user``. The task itself is from the user,
    whatever name it has.
    """
    for index, turn in enumerate(turns):
        content = turn["content"]
        text = "\n".join(content) if isinstance(content, list) else content
        author = str_at(turn, "name")
        is_task = not index and (turn["role"] == "assistant" or text.strip() == prompt.strip() or not prompt)
        if is_task or turn["role"] == "assistant":
            writer.say(text, author=author)
        else:
            writer.reply(text, author=author)


def take_conversations(writer: RunWriter, conversations: dict[str, list[dict[str, Any]]], prompt: str) -> None:
    """Add peer conversations to the writer, one exchange at a time: the question to each agent, and the reply.

    The keys are the names of the agents. All of them get the task first, but it is added only once.
    """
    seen: list[str] = []
    exchanges = [[*_exchanges(messages)] for messages in conversations.values()]
    for number in range(max(map(len, exchanges), default=0)):
        for name, own in zip(conversations, exchanges, strict=True):
            for message in own[number] if number < len(own) else ():
                text = message["content"]
                if message["role"] == "assistant":
                    writer.reply(text, author=f"Agent {name}")
                elif number or text not in seen:
                    seen.append(text)
                    writer.say(text, author="system" if message["role"] == "system" else "")
    if not exchanges and prompt:
        writer.say(prompt)


def _exchanges(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages of a conversation in groups that end with a reply."""
    exchange: list[dict[str, Any]] = []
    for message in messages:
        exchange.append(message)
        if message["role"] == "assistant":
            yield exchange
            exchange = []
    if exchange:
        yield exchange


def take_log(writer: RunWriter, log: str, prompt: str) -> None:
    """Add a framework's text log to the writer; if its kind is unknown, it becomes a single message."""
    turns = next((candidate for read in _READERS if (candidate := [*read(log)])), [Turn("", log)])
    if prompt and not (turns and turns[0].who == "Human"):
        writer.say(prompt)
    for turn, again in groupby(turns):  # HyperAgent repeats each line once per restart
        del again
        if turn.is_note:
            writer.event(OtherEvent, name="log", data={"text": turn.text})
        elif turn.who == "Human":
            writer.say(turn.text, author=turn.who, at=time_of(turn.at))
        else:
            metadata = {"to": turn.to} if turn.to else {}
            writer.reply(turn.text, turn.calls, author=turn.who, at=time_of(turn.at), metadata=metadata)


def _metagpt(log: str) -> Iterator[Turn]:
    """Yield the actions of the roles: each logger line, with the text up to the next logger line."""
    for line, text in _sections(_METAGPT, log):
        yield Turn(line["who"], f"{line['text']}\n{text}".strip(), line["at"])


def _messages(log: str) -> Iterator[Turn]:
    """Yield the messages in MetaGPT's communication log, where horizontal rules separate them."""
    for line, text in _sections(_MESSAGES, log):
        body = _RULE.split(text, maxsplit=1)[0].strip()
        if line["who"]:
            yield Turn(line["who"].strip(), body.partition("CONTENT:")[2].strip() or body, line["at"].strip())
            continue
        speaker = _SPEAKER.match(body)
        yield Turn(speaker["who"] if speaker else "", body[speaker.end() :].strip() if speaker else body, line["at"].strip())


def _hyperagent(log: str) -> Iterator[Turn]:
    """Yield the agents' messages under their own names, with actions as calls; the results of actions are not logged."""
    for line, text in _sections(_HYPERAGENT, log):
        message = f"{line['text']}\n{text}".strip()
        speaker = _SPOKEN.match(message)
        if speaker is None:
            yield Turn("", message, is_note=True)
            continue
        text_of_turn = message[speaker.end() :].strip()
        if speaker["to"]:  # repeats its own actions
            yield Turn(speaker["who"], text_of_turn, to=speaker["to"])
        else:
            words, calls = _without_actions(text_of_turn)
            yield Turn(speaker["who"], words, calls=calls)


def _without_actions(text_of_turn: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text without its actions, and the actions as calls."""
    texts, calls, position = [], [], 0
    while (begin := _ACTION.search(text_of_turn, position)) and (end := _FENCE.search(text_of_turn, begin.end())):
        texts.append(text_of_turn[position : begin.start()])
        calls.append(ToolCall(begin["language"] or "code", {"code": text_of_turn[begin.end() : end.start()].rstrip("\n")}))
        position = end.end()
    return "".join([*texts, text_of_turn[position:]]).strip(), tuple(calls)


def _tree_of_thoughts(log: str) -> Iterator[Turn]:
    """Yield the steps of MA-ToT: each reasoner's thoughts, votes and selections, and the verifier's judgements."""
    if _TREE_ROUND.search(log) is None:
        return
    who = ""
    for line, text in _sections(_TREE, log):
        body = text.strip()
        if line["round"]:
            who = ""
            yield Turn("", line["round"], is_note=True)
        elif line["who"]:
            who = line["who"]
        elif line["rule"]:
            who = VERIFIER if _VERIFIED in body else ""
        body = f"{line['step']}\n\n{body}".strip() if line["step"] else body
        if body:
            yield Turn(who, body)


def _sections(begins: re.Pattern[str], log: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each line that starts a section, with the text up to the next such line."""
    starts = [*begins.finditer(log)]
    for number, line in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(log)
        yield line, log[line.end() : end].strip("\n")


_READERS: tuple[Callable[[str], Iterator[Turn]], ...] = (_metagpt, _messages, _hyperagent, _tree_of_thoughts)
