"""The table of attacks by external agents: the messages of a hostile agent, and permissible answers.

In all texts ``WORK`` is the working folder, ``HOME`` the home of the person, ``KEY`` a key that reaches the agent. The person
has said ``auto``, but denies commands and writing to ``victim.txt`` and ``.env``. `foreign_scene` says what no row may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal["paths", "forged", "markup", "keys", "floods", "broken", "silence"]
Step = Mapping[str, Any] | str | Callable[[], Iterator[Any]]
DIE, SILENT, STOP, WAIT, END = "DIE", "SILENT", "STOP", "WAIT", "END"
"""Steps: the agent dies; it answers nothing more; the person stops the run; it waits for all answers; it ends its turn."""
YES, NO, CANCELLED, WRITTEN, ERROR = "allow_once", "reject_once", "cancelled", "written", "error"
"""Answers of agentnb."""


class Attack(NamedTuple):
    """An attack."""

    kind: Kind
    name: str
    steps: tuple[Step, ...] = ()
    """Output of the agent after the prompt: messages, invalid lines, and functions that make many of them."""
    answers: tuple[str, ...] = ()
    """agentnb's answers to the requests among them, in order."""
    status: str = "completed"
    replies: Mapping[str, Any] = {}
    """Results of the agent for requests of agentnb, in place of sound ones."""
    offered: tuple[str, ...] = ("allow_always", "allow_once", "reject_once")


def update(sort: str, **fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": sort, **fields}}}


def say(text: str) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": text})


def call(kind: Any, call_id: str = "c1", status: str = "pending", title: str = "A call", **arguments: Any) -> dict[str, Any]:
    return update("tool_call", toolCallId=call_id, kind=kind, status=status, title=title, rawInput=arguments)


def change(call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return update("tool_call_update", toolCallId=call_id, **fields)


def ask(call_id: Any = "c1", **about: Any) -> dict[str, Any]:
    return {"method": "session/request_permission", "params": {"sessionId": "s", "toolCall": {"toolCallId": call_id, **about}}}


def put(path: Any, content: Any = "hostile") -> dict[str, Any]:
    return {"method": "fs/write_text_file", "params": {"sessionId": "s", "path": path, "content": content}}


def read(path: Any, **part: Any) -> dict[str, Any]:
    return {"method": "fs/read_text_file", "params": {"sessionId": "s", "path": path, **part}}


def terminal(method: str, **params: Any) -> dict[str, Any]:
    return {"method": f"terminal/{method}", "params": {"sessionId": "s", **params}}


def later(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request whose answer the agent does not wait for."""
    return {**request, "later": True}


X = say("x")
FILE = {"path": "WORK/a.txt", "content": "x"}
EDIT, VICTIM, COMMAND = call("edit", **FILE), put("WORK/victim.txt"), {"command": "rm -r data"}
RUN = call("execute", **COMMAND)
PLACES = {
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
    "a link to the notebook that is open": "WORK/to_notebook",
    "a file that a rule denies": "WORK/victim.txt",
    "that file with dots": "WORK/sub/../victim.txt",
    "a link to that file": "WORK/to_victim",
    "another name of its folder": "WORK/self/victim.txt",
    "a link to a file of keys": "WORK/keys",
    "a number": 5,
    "a list": ["a"],
}
"""Paths that nothing is written to."""
READ = {
    "a file of keys": read("WORK/.env"),
    "a link to a file of keys": read("WORK/keys"),
    "a file elsewhere": read("HOME/.bashrc"),
    "a folder that is a link elsewhere": read("WORK/away/.bashrc"),
    "the variables of the kernel": read("/proc/self/environ"),
    "a file without end": read("/dev/zero"),
    "a line that is a text": read("WORK/notes.txt", line="x"),
    "a number of lines that is a list": read("WORK/notes.txt", limit=[1]),
    "a path that is a list": read(["WORK/notes.txt"]),
}
"""Requests for what is not read for it."""
TERMINALS = {
    "a command": terminal("create", command="touch", args=["left"]),
    "a command that is a list": terminal("create", command=["touch", "left"]),
    "arguments that are a number": terminal("create", command="touch", args=5),
    "a folder elsewhere": terminal("create", command="touch", args=["left"], cwd="HOME"),
    "variables that are a list": terminal("create", command="true", env=[["BASH_ENV", "left"]]),
    "output of no terminal": terminal("output", terminalId="terminal-1"),
    "output of a terminal that is a list": terminal("output", terminalId=["terminal-1"]),
}
"""Requests for commands; the person allows nothing."""


def of_paths() -> Iterator[Attack]:
    for name, path in PLACES.items():
        yield Attack("paths", f"a file at {name}", (put(path),), (ERROR,))
    for name, request in {**READ, **TERMINALS}.items():
        yield Attack("paths", f"a request for {name}", (request,), (ERROR,))
    yield Attack("paths", "a file without content", (put("WORK/a.txt", None),), (ERROR,))
    yield Attack("paths", "another file than was allowed", (EDIT, ask(), VICTIM), (YES, ERROR))
    yield Attack("paths", "a file within a call that only reads", (call("read", status="in_progress"), VICTIM), (ERROR,))


FORGED: Mapping[str, tuple[tuple[Step, ...], tuple[str, ...]]] = {
    "a command that calls itself a function": ((call("execute", title="notebook_total", **COMMAND), ask()), (NO,)),
    "a command that nobody announced": ((ask("c9", kind="execute", rawInput=COMMAND),), (NO,)),
    "a command with a list for its id": ((ask(["c1"], kind="execute", rawInput=COMMAND),), (NO,)),
    "a kind that is no text": ((call(5, **COMMAND), ask()), (YES,)),  # of any kind, which the person allows
    "a second question about a command": ((call("read", path="a"), ask(), ask(kind="execute", rawInput=COMMAND)), (YES, NO)),
    "a second question with another path": ((EDIT, ask(), ask(rawInput={"path": "WORK/victim.txt"})), (YES, NO)),
    "a second question with other content": ((EDIT, ask(), ask(rawInput={**FILE, "content": "y"})), (YES, NO)),
    "two questions at once": ((EDIT, later(ask()), ask(rawInput={"path": "WORK/victim.txt"})), (NO, NO)),
    "one path by two names": ((call("edit", path="a.txt"), ask(rawInput={}, locations=[{"path": "WORK/a.txt"}])), (YES,)),
    "a question after the end of its call": ((EDIT, ask(), change(status="completed"), ask()), (YES, NO)),
    "an update of a file that agentnb writes": ((later(VICTIM), change("write-1", rawInput=FILE), WAIT), (ERROR,)),
    "an end of a file that agentnb writes": ((later(VICTIM), change("write-1", status="completed"), WAIT), (ERROR,)),
    "a question without a call": (({"method": "session/request_permission", "params": {"sessionId": "s"}},), (ERROR,)),
    "a question that is a number": (({"method": "session/request_permission", "params": 5},), (ERROR,)),
    "options that are a number": ((RUN, {**ask(), "options": 5}), (CANCELLED,)),
    "options without ids": ((RUN, {**ask(), "options": [{"kind": "reject_once"}]}), (CANCELLED,)),
    "places that are no paths": ((change(kind="edit", locations=[{"path": 5}, 5, {}]), ask()), (NO,)),
    "a path that is a number": ((call("edit", path=5), ask()), (NO,)),
    "a terminal that is a list": ((call("read", path="a"), change(content=[{"terminalId": ["t"]}]), ask()), (YES,)),
    "a method that is not served": (({"method": "terminal/steal", "params": {"command": "touch"}},), (ERROR,)),
}


def of_forged_calls() -> Iterator[Attack]:
    for name, (steps, answers) in FORGED.items():
        yield Attack("forged", name, steps, answers)
    yield Attack("forged", "options of its own memory alone", (EDIT, ask()), (CANCELLED,), offered=("allow_always",))
    yield Attack("forged", "two options of a kind", (EDIT, ask()), (YES,), offered=("allow_once", "allow_once"))


MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>[x](javascript:alert(1))\x1b[2J\x1b]0;owned\x07"


def of_texts(kind: Literal["markup", "keys"], text: str) -> Iterator[Attack]:
    """Yield attacks with this text wherever an agent can put one."""
    result = [{"type": "content", "content": {"type": "text", "text": text}}]
    begun, ended = call(text, title=text, status="in_progress", input=text), change(status="failed", content=result)
    yield Attack(kind, "words", (say(text),))
    yield Attack(kind, "thoughts", (update("agent_thought_chunk", content={"type": "text", "text": text}),))
    yield Attack(kind, "a call and its result", (begun, ended))
    yield Attack(kind, "output that is no text", (begun, change(status="completed", rawOutput={"output": {text: [text]}})))
    yield Attack(kind, "a path", (call("edit", status="completed", path=text, content=text),))
    yield Attack(kind, "a plan", (update("plan", entries=[{"content": text, "status": text}]),))
    yield Attack(kind, "a kind of updates", (update(text, content=text), X))
    yield Attack(kind, "the name of a session", (X,), replies={"session/new": {"sessionId": text}})
    yield Attack(kind, "the reason of an end", (X,), replies={"session/prompt": {"result": {"stopReason": text}}})
    error = {"code": 1, "message": text, "data": {text: text}}
    yield Attack(kind, "an error", (X,), status="failed", replies={"session/prompt": {"error": error}})
    yield Attack(kind, "last words", (X, DIE), status="failed")


def words() -> Iterator[Any]:
    yield from [X] * 5_000


def calls() -> Iterator[Any]:
    for number in range(100):
        yield call("read", f"f{number}", status="completed", path="notes.txt")


def plans() -> Iterator[Any]:
    for number in range(20):
        yield update("plan", entries=[{"content": f"step {place} of {number}"} for place in range(500)])


def changes() -> Iterator[Any]:
    for number in range(3_000):
        yield change(title=f"t{number}")


def questions() -> Iterator[Any]:
    yield from [later(ask())] * 200


FLOODS: Mapping[str, tuple[Step, ...]] = {
    "words": (words,),
    "calls": (calls,),
    "plans": (plans,),
    "updates about one call": (changes,),
    "lines that are empty": ("\n" * 20_000, X),
}


def of_floods() -> Iterator[Attack]:
    for name, steps in FLOODS.items():
        yield Attack("floods", name, steps, status="limited" if name == "calls" else "completed")  # at 50 rounds
    yield Attack("floods", "questions about one call", (RUN, questions, WAIT), (NO,) * 200)
    yield Attack("floods", "a line without an end", ("x" * 3_000_000,), status="failed")


SURVIVED: Mapping[str, Step] = {
    "no JSON": "this is no JSON",
    "half a message": '{"jsonrpc": "2.0", "method": "session/upd',
    "bytes that are no text": "\udcff\udcfe",
    "deep nesting": "[" * 100_000,
    "a number without end": '{"id": ' + "9" * 10_000 + "}",
    "an update of nothing": {"method": "session/update", "params": {"update": None}},
    "an update that is a text": {"method": "session/update", "params": {"update": "plan"}},
    "an update without parameters": {"method": "session/update", "params": {}},
    "an answer to no question": '{"jsonrpc": "2.0", "id": 999, "result": {}}',
    "a plan that is a number": update("plan", entries=5),
    "a cost that is not finite": update("usage_update", cost={"currency": "USD", "amount": float("nan")}),
    "a cost below nothing": update("usage_update", cost={"currency": "USD", "amount": -1e308}),
    "words that are a number": update("agent_message_chunk", content=5),
    "content that is a number": change(content=[5, {"type": "diff"}], kind="read", status="completed"),
}
"""Input after which the run continues."""
FATAL: Mapping[str, str] = {"a list": "[1]", "a number": "5", "an answer with a list for its id": '{"id": [1]}'}


def of_broken_messages() -> Iterator[Attack]:
    for name, step in SURVIVED.items():
        yield Attack("broken", name, (step, X))
    for name, line in FATAL.items():
        yield Attack("broken", name, (line, X), status="failed")
    for method in ("initialize", "session/new", "session/prompt"):
        for name, value in {"a list": [], "a text": "x", "nothing": None}.items():
            status = "failed" if method == "session/new" else "completed"
            yield Attack("broken", f"{method} answered with {name}", (X,), status=status, replies={method: {"result": value}})
    modes = {"session/new": {"result": {"sessionId": "s", "modes": []}}}
    yield Attack("broken", "modes that are a list", (X,), replies=modes)
    usage = {"stopReason": "end_turn", "usage": {"inputTokens": "many", "outputTokens": -1}}
    yield Attack("broken", "tokens that are texts", (X,), replies={"session/prompt": {"result": usage}})


def of_silence() -> Iterator[Attack]:
    for method in ("initialize", "session/new", "session/set_mode"):
        yield Attack("silence", f"death at {method}", status="failed", replies={method: DIE})
        yield Attack("silence", f"no answer to {method}", status="failed", replies={method: SILENT})
    whole = (X, EDIT, ask(), put(**FILE), change(status="completed"))
    for count in range(len(whole) + 1):
        answers = (YES, WRITTEN)[: max(0, count - 2)]
        yield Attack("silence", f"death after {count} messages", (*whole[:count], DIE), answers, status="failed")
    yield Attack("silence", "death with a question open", (RUN, later(ask()), DIE), status="failed")
    yield Attack("silence", "death while a file is written", (later(put(**FILE)), DIE), status="failed")
    yield Attack("silence", "a turn without an end", (X, STOP, SILENT), status="cancelled")
    yield Attack("silence", "a call without an end", (call("read", status="in_progress"), STOP, SILENT), status="cancelled")
    yield Attack("silence", "an end with a question open", (RUN, later(ask())), (NO,))
    yield Attack("silence", "a question after the end", (X, END, RUN, ask()), (NO,))


ATTACKS = (
    *of_paths(),
    *of_forged_calls(),
    *of_texts("markup", MARKUP),
    *of_texts("keys", "the KEY is"),
    *of_floods(),
    *of_broken_messages(),
    *of_silence(),
)
