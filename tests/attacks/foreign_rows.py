"""The table of attacks by agents of others: what a hostile agent sends, and what the person's rules and the run make of it.

In all texts ``WORK`` is the working folder, ``HOME`` the home of the person, ``KEY`` a key of theirs. `foreign_scene` says what no row
may do. Rules of the person: commands are denied, ``victim.txt`` is not written, all else is allowed without a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal["paths", "door", "forged", "markup", "keys", "floods", "broken", "silence"]
Step = Mapping[str, Any] | str | Callable[[], Iterator[Any]]
DIE, SILENT, STOP = "DIE", "SILENT", "STOP"
"""Steps: the agent dies; it answers nothing more; the person stops the run."""


class Attack(NamedTuple):
    """One attack."""

    name: str
    kind: Kind
    steps: tuple[Step, ...] = ()
    """What the agent sends after the prompt: messages, lines that are no messages, or functions that make many."""
    answers: tuple[str, ...] = ()
    """What the client answers to the requests among them, in order: the option that it chose, or ``error``, ``written``."""
    status: str = "completed"
    replies: Mapping[str, Any] = {}
    """Results of the agent for requests of the client, in place of sound ones."""
    offered: tuple[str, ...] = ("allow_always", "allow_once", "reject_once")


def update(sort: str, **fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": sort, **fields}}}


def say(text: str) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": text})


def call(
    call_id: str = "c1", kind: str = "execute", status: str = "pending", title: str = "A call", **arguments: Any
) -> dict[str, Any]:
    return update("tool_call", toolCallId=call_id, kind=kind, status=status, title=title, rawInput=arguments)


def change(call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return update("tool_call_update", toolCallId=call_id, **fields)


def ask(call_id: str = "c1", **about: Any) -> dict[str, Any]:
    return {"method": "session/request_permission", "params": {"sessionId": "s", "toolCall": {"toolCallId": call_id, **about}}}


def put(path: Any, content: Any = "hostile") -> dict[str, Any]:
    return {"method": "fs/write_text_file", "params": {"sessionId": "s", "path": path, "content": content}}


def later(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request whose answer the agent does not wait for."""
    return {**request, "later": True}


COMMAND, HARMLESS = {"command": "rm -r data"}, {"path": "notes.txt"}


def of_paths() -> Iterator[Attack]:
    places = {
        "a relative path with dots": "../outside.txt",
        "an absolute path elsewhere": "HOME/.bashrc",
        "dots inside of an absolute path": "WORK/sub/../../outside.txt",
        "a link to a file elsewhere": "WORK/link",
        "a folder that is a link elsewhere": "WORK/away/outside.txt",
        "a file of devices": "/dev/full",
        "the memory of the kernel": "/proc/self/mem",
        "the settings of git": "WORK/.git/config",
        "a hook of git": "WORK/.git/hooks/pre-commit",
        "what agentnb keeps": "WORK/.agentnb/permissions.json",
        "the folder itself": "WORK",
        "nothing": "",
        "a null byte": "WORK/a\0b",
        "a very long name": "WORK/" + "a" * 5000,
        "the notebook that is open": "WORK/open.ipynb",
        "a file of keys through a link": "WORK/keys",
    }
    for name, path in places.items():
        yield Attack(f"writes by {name}", "paths", (put(path),), ("error",))
    for name, path in {
        "its name": "WORK/victim.txt",
        "dots": "WORK/sub/../victim.txt",
        "a link": "WORK/to_victim",
        "the folder's other name": "WORK/self/victim.txt",
    }.items():
        yield Attack(f"writes a file that a rule denies by {name}", "paths", (put(path),), ("error",))
    for name, value in {"a number": 5, "a list": ["a"], "nothing": None}.items():
        yield Attack(f"names a path that is {name}", "paths", (put(value), put("WORK/a.txt", value)), ("error", "error"))


def of_forged_calls() -> Iterator[Attack]:
    write = {"path": "WORK/a.txt", "content": "x"}
    yield Attack(
        "a read that writes",
        "forged",
        (call(kind="read", path="WORK/victim.txt", status="in_progress"), put("WORK/victim.txt")),
        ("error",),
    )
    yield Attack(
        "writes another file than it was allowed",
        "forged",
        (call(kind="edit", **write), ask(), put("WORK/victim.txt")),
        ("allow_once", "error"),
    )
    yield Attack("a kind that nobody knows", "forged", (call(kind="read_only", **COMMAND), ask()), ("allow_once",))
    yield Attack("a kind that is no text", "forged", (call(kind=5, **HARMLESS), ask()), ("allow_once",))  # type: ignore[arg-type]
    yield Attack(
        "a command that calls itself a function", "forged", (call(title="notebook_total", **COMMAND), ask()), ("reject_once",)
    )
    yield Attack("a second question about another command", "forged", (call(**HARMLESS, kind="read"), ask(), ask(kind="execute", rawInput=COMMAND)), ("allow_once", "reject_once"))  # fmt: skip
    yield Attack("a second question with another path", "forged", (call(kind="edit", **write), ask(), ask(rawInput={"path": "WORK/victim.txt"})), ("allow_once", "reject_once"))  # fmt: skip
    yield Attack("two questions at once, the second another", "forged", (call(kind="edit", **write), later(ask()), ask(rawInput={"path": "WORK/victim.txt"})), ("reject_once", "reject_once"))  # fmt: skip
    yield Attack("a question about a call that has ended", "forged", (call(kind="edit", **write), ask(), change(status="completed"), ask()), ("allow_once", "reject_once"))  # fmt: skip
    yield Attack("a question with the id of a file that agentnb writes", "forged", (later(put("WORK/victim.txt")), change("write-1", rawInput={"path": "WORK/a.txt"}), say("now")), ("error",))  # fmt: skip
    yield Attack("an end for a file that agentnb writes", "forged", (later(put("WORK/victim.txt")), change("write-1", status="completed"), say("now")), ("error",))  # fmt: skip
    yield Attack(
        "a question about a call that nobody announced",
        "forged",
        (ask("c9", kind="execute", rawInput=COMMAND),),
        ("reject_once",),
    )
    yield Attack(
        "a question without a call",
        "forged",
        ({"method": "session/request_permission", "params": {"sessionId": "s"}},),
        ("error",),
    )
    yield Attack("a question of a number", "forged", ({"method": "session/request_permission", "params": 5},), ("error",))
    yield Attack("an id that is a list", "forged", (ask(["c1"], kind="execute", rawInput=COMMAND),), ("reject_once",))  # type: ignore[arg-type]
    yield Attack(
        "options of the agent's own memory alone",
        "forged",
        (call(kind="edit", **write), ask()),
        ("cancelled",),
        offered=("allow_always",),
    )
    yield Attack(
        "a rejection that is called an allowance",
        "forged",
        (call(**COMMAND), ask()),
        ("reject_once",),
        offered=("allow_once", "reject_once"),
    )
    yield Attack(
        "two options of a kind",
        "forged",
        (call(kind="edit", **write), ask()),
        ("allow_once",),
        offered=("allow_once", "allow_once"),
    )
    yield Attack("options that are a number", "forged", (call(**COMMAND), {**ask(), "options": 5}), ("cancelled",))
    yield Attack(
        "options without ids", "forged", (call(**COMMAND), {**ask(), "options": [{"kind": "reject_once"}]}), ("cancelled",)
    )
    yield Attack(
        "places that are no paths",
        "forged",
        (change("c1", kind="edit", locations=[{"path": 5}, 5, {}]), ask()),
        ("allow_once",),
    )
    yield Attack(
        "a method that is not served",
        "forged",
        ({"method": "terminal/create", "params": {"command": "touch", "args": ["WORK/left"]}},),
        ("error",),
    )


MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>[x](javascript:alert(1))\x1b[2J\x1b]0;owned\x07"


def of_texts() -> Iterator[Attack]:
    content = [{"type": "content", "content": {"type": "text", "text": MARKUP}}]
    yield Attack("words", "markup", (say(MARKUP),))
    yield Attack("thoughts", "markup", (update("agent_thought_chunk", content={"type": "text", "text": MARKUP}),))
    yield Attack("a title, a result and a place", "markup", (call(kind=MARKUP, title=MARKUP, input=MARKUP, status="in_progress"), change(status="completed", content=content, locations=[{"path": MARKUP}])))  # fmt: skip
    yield Attack("a plan", "markup", (update("plan", entries=[{"content": MARKUP, "status": MARKUP}]),))
    yield Attack("a path", "markup", (call(kind="edit", path=MARKUP, content=MARKUP, status="completed"),))
    yield Attack("an error", "markup", status="failed", replies={"session/prompt": {"error": {"code": 1, "message": MARKUP}}})
    yield Attack("a session", "markup", (say("x"),), replies={"session/new": {"sessionId": MARKUP}})


def of_keys() -> Iterator[Attack]:
    yield Attack("in words", "keys", (say("the KEY is"),))
    yield Attack("in pieces of words", "keys", (say("KEY"[:2]), say("Y and KEY")))
    yield Attack("in a call and its result", "keys", (call(kind="read", path="KEY", status="in_progress", title="KEY"), change(status="failed", rawOutput={"output": "KEY"})))  # fmt: skip
    yield Attack("in a plan", "keys", (update("plan", entries=[{"content": "KEY"}]),))
    yield Attack(
        "in an error",
        "keys",
        status="failed",
        replies={"session/prompt": {"error": {"code": 1, "message": "no KEY", "data": {"KEY": "KEY"}}}},
    )
    yield Attack("in its last words", "keys", (DIE,), status="failed")
    yield Attack("in a session", "keys", (say("x"),), replies={"session/new": {"sessionId": "KEY"}})
    yield Attack("in a file", "keys", (put("WORK/a.txt", "KEY"),), ("written",))
    yield Attack(
        "in the reason of an end", "keys", replies={"session/prompt": {"result": {"stopReason": "KEY"}}}, status="stopped"
    )


def words() -> Iterator[Any]:
    yield from [say("word ")] * 5_000


def calls() -> Iterator[Any]:
    for number in range(100):
        yield call(f"f{number}", kind="read", path="notes.txt", status="completed")


def plans() -> Iterator[Any]:
    for number in range(20):
        yield update("plan", entries=[{"content": f"step {place} of {number}"} for place in range(500)])


def of_floods() -> Iterator[Attack]:
    yield Attack("of words", "floods", (words,))
    yield Attack("of calls", "floods", (calls,))
    yield Attack("of plans", "floods", (plans,))
    yield Attack(
        "of updates about one call",
        "floods",
        (lambda: iter([change("c1", title=f"t{number}") for number in range(3_000)]), say("x")),
    )
    yield Attack(
        "of questions about one call", "floods", (call(**COMMAND), lambda: iter([later(ask())] * 300), ask()), ("reject_once",)
    )
    yield Attack("of lines that are empty", "floods", ("\n" * 20_000, say("x")))
    yield Attack("a line without an end", "floods", ("x" * 3_000_000,), status="failed")


def of_broken_messages() -> Iterator[Attack]:
    lines = {
        "no JSON": "this is no JSON",
        "half a message": '{"jsonrpc": "2.0", "method": "session/upd',
        "bytes that are no text": "\udcff\udcfe",
        "deep nesting": "[" * 100_000,
        "a number without end": '{"id": ' + "9" * 10_000 + "}",
    }
    for name, line in lines.items():
        yield Attack(name, "broken", (line, say("x")))
    for name, line in {"a list": "[1]", "a number": "5", "an answer with a list for its id": '{"id": [1]}'}.items():
        yield Attack(name, "broken", (line, say("x")), status="failed")
    for name, fields in {
        "an update of nothing": {"update": None},
        "an update that is a text": {"update": "plan"},
        "no parameters": {},
    }.items():
        yield Attack(name, "broken", ({"method": "session/update", "params": fields}, say("x")))
    yield Attack(
        "an answer to a question that nobody asked", "broken", ('{"jsonrpc": "2.0", "id": 999, "result": {}}', say("x"))
    )
    yield Attack("entries that are a number", "broken", (update("plan", entries=5), say("x")))
    yield Attack(
        "a cost that is not finite",
        "broken",
        (update("usage_update", cost={"currency": "USD", "amount": float("nan")}), say("x")),
    )
    yield Attack(
        "a cost below nothing", "broken", (update("usage_update", cost={"currency": "USD", "amount": -1e308}), say("x"))
    )
    yield Attack("tokens that are texts", "broken", (say("x"),), replies={"session/prompt": {"result": {"stopReason": "end_turn", "usage": {"inputTokens": "many", "outputTokens": -1}}}})  # fmt: skip
    yield Attack("content that is a number", "broken", (update("agent_message_chunk", content=5), change("c1", content=[5, {"type": "diff"}], kind="read", status="completed")))  # fmt: skip
    for method in ("initialize", "session/new", "session/prompt"):
        for name, value in {"a list": [], "a text": "x", "nothing": None}.items():
            is_fine = method == "initialize" and name == "nothing"
            yield Attack(f"{method} answered with {name}", "broken", (say("x"),), replies={method: {"result": value}}, status="completed" if is_fine else "failed")  # fmt: skip
    yield Attack(
        "modes that are a list", "broken", (say("x"),), replies={"session/new": {"result": {"sessionId": "s", "modes": []}}}
    )


def of_silence() -> Iterator[Attack]:
    for method in ("initialize", "session/new", "session/set_mode"):
        yield Attack(f"dies at {method}", "silence", status="failed", replies={method: DIE})
        yield Attack(f"never answers {method}", "silence", status="failed", replies={method: SILENT})
    whole = (say("Now "), call(kind="edit", path="WORK/a.txt"), ask(), change(status="completed"), put("WORK/a.txt"))
    for count in range(len(whole) + 1):
        yield Attack(f"dies after {count} messages", "silence", (*whole[:count], DIE), status="failed")
    yield Attack("dies with a question open", "silence", (call(**COMMAND), later(ask()), DIE), status="failed")
    yield Attack("dies while a file is written", "silence", (later(put("WORK/a.txt")), DIE), status="failed")
    yield Attack("never ends its turn, and takes no cancellation", "silence", (say("x"), STOP, SILENT), status="cancelled")
    yield Attack("never ends a call", "silence", (call(kind="read", status="in_progress"), STOP, SILENT), status="cancelled")
    yield Attack("ends its turn with a question open", "silence", (call(**COMMAND), later(ask())))
    yield Attack("a call after the end", "silence", (say("x"), "END", call(**COMMAND), ask()))


ATTACKS: tuple[Attack, ...] = (
    *of_paths(), *of_forged_calls(), *of_texts(), *of_keys(), *of_floods(), *of_broken_messages(), *of_silence(),
)  # fmt: skip
