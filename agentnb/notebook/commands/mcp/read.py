"""``%agent mcp read`` and ``prompt``: show a server's resource or prompt, or store it in a variable."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.display import display

from agentnb.core.redaction import redact
from agentnb.display.lists.server_words import MAX_NAME, MAX_TARGET, safe_line
from agentnb.display.texts.labels import clean, cut, file_size, pluralize
from agentnb.errors import SettingsError
from agentnb.notebook.commands.mcp.look import running
from agentnb.notebook.magic_errors import split_words
from agentnb.notebook.variable_names import check_variable
from agentnb.notebook.widget_tools import has_kernel
from agentnb.session.session import Session
from agentnb.tools.mcp.mcp_server import PREFIX
from agentnb.tools.mcp.resources import Contents, contents_of, missing_arguments, prompt_text
from agentnb.tools.pictures import media_type

if TYPE_CHECKING:
    from mcp import Client

MAX_PRINTED = 20_000
"""Maximum characters of text shown."""
READ = "Write: %agent mcp read SERVER URI -o VARIABLE; %agent mcp SERVER lists the resources"
PROMPT = "Write: %agent mcp prompt SERVER PROMPT NAME=VALUE -o VARIABLE; %agent mcp SERVER lists the prompts"


class _Line(NamedTuple):
    """The words of a line, and the variable that receives the result."""

    words: list[str]
    out: str


def read_command(session: Session, shell: Any, rest: str) -> None:
    """NAME URI [-o VARIABLE]: read a resource: text as str, other content as bytes, several as a list"""
    line = _line(rest, shell)
    if len(line.words) != 2:
        raise SettingsError("Which resource?", READ)
    name, uri = line.words
    live = running(session, name.removeprefix(PREFIX)).live

    async def read(client: Client) -> list[Contents]:
        return contents_of((await client.read_resource(uri, cache_mode="refresh")).contents)

    contents = session.servers.ask(live, read)
    if line.out:
        shell.user_ns[line.out] = contents[0].value if len(contents) == 1 else [content.value for content in contents]
        print(f"{line.out}: {', '.join(map(_describe, contents)) or 'nothing'}, from {safe_line(uri, MAX_TARGET)}")
        return
    for content in contents:
        _show(content, shell)
    if not contents:
        print("The resource is empty")


def prompt_command(session: Session, shell: Any, rest: str) -> None:
    """NAME PROMPT [NAME=VALUE ...] [-o VARIABLE]: get a prompt as text"""
    line = _line(rest, shell)
    if len(line.words) < 2:
        raise SettingsError("Which prompt?", PROMPT)
    name, prompt, *assignments = line.words
    arguments = dict(_argument(word) for word in assignments)
    live = running(session, name.removeprefix(PREFIX)).live

    async def get(client: Client) -> str:
        if missing := missing_arguments(live.catalogue, prompt, arguments):
            raise SettingsError(f"The prompt {safe_line(prompt, MAX_NAME)} needs {', '.join(missing)}", PROMPT)
        return prompt_text((await client.get_prompt(prompt, arguments)).messages)

    text = session.servers.ask(live, get)
    if line.out:
        shell.user_ns[line.out] = text
        print(f"{line.out}: {pluralize(len(text), 'character')}, from the prompt {safe_line(prompt, MAX_NAME)}")
        return
    _print(text)


def _argument(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise SettingsError(f"{word!r} is not NAME=VALUE", PROMPT)
    return key, value


def _line(text: str, shell: Any) -> _Line:
    """Return the words of the line, with each ``{x}`` replaced by the value of that variable."""
    words = split_words(text)
    out = _pop_out(words)
    expand: Callable[[str], str] = getattr(shell, "var_expand", str)
    return _Line([expand(word) for word in words], check_variable(out) if out else "")


def _pop_out(words: list[str]) -> str:
    """Remove ``-o NAME`` from the words, and return the name, or ""."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in ("-o", "--out"):
            if not equals and index + 1 == len(words):
                raise SettingsError(f"{option} needs the name of a variable", "For example: -o text")
            name = value if equals else words.pop(index + 1)
            del words[index]
            return name
    return ""


def _show(content: Contents, shell: Any) -> None:
    """Show text or a picture; for anything else, show its type. Third-party content is never rendered as HTML."""
    if isinstance(content.value, str):
        _print(content.value)
        return
    kind = media_type(content.value)
    if kind is not None and has_kernel(shell):
        display({kind: b64encode(content.value).decode(), "text/plain": _describe(content)}, raw=True)
        return
    print(f"{_describe(content)}. To get the bytes: -o VARIABLE")


def _print(text: str) -> None:
    print(cut(clean(redact(text)), MAX_PRINTED))


def _describe(content: Contents) -> str:
    size = pluralize(len(content.value), "character") if isinstance(content.value, str) else file_size(len(content.value))
    return f"{size}{f' of {safe_line(content.mime_type, MAX_NAME)}' if content.mime_type else ''}"
