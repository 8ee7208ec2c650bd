"""Settings and keys. No other module reads the environment or holds keys.

==========================  ==================================================================
``AGENTNB_MODEL``           the default model of cells, such as ``simulated:disciplined``
``ANTHROPIC_API_KEY``       a key for ``anthropic:`` models
``OPENAI_API_KEY``          a key for ``openai:`` and ``openai-responses:`` models
``MISTRAL_API_KEY``         a key for ``mistral:`` models
``DEEPSEEK_API_KEY``        a key for ``deepseek:`` models
``OPENROUTER_API_KEY``      a key for ``openrouter:`` models
``GROQ_API_KEY``            a key for ``groq:`` models
``TOGETHER_API_KEY``        a key for ``together:`` models
``GEMINI_API_KEY``          a key for ``gemini:`` models
``AZURE_OPENAI_API_KEY``    a key for ``azure:`` models
``GITHUB_TOKEN``            a key for ``github:`` models and the tools of GitHub
``ANTHROPIC_BASE_URL``      URL of ``anthropic:`` models, if not the provider's own
``OPENAI_BASE_URL``         URL of ``openai:`` and ``openai-responses:`` models, if not the provider's own
``AZURE_OPENAI_ENDPOINT``   URL of ``azure:`` models, such as ``https://NAME.openai.azure.com``
``OLLAMA_HOST``             address of Ollama: a host, ``host:port`` or a URL
``AGENTNB_COMPATIBLE_URL``  URL of the server of ``compatible:`` models
``AGENTNB_ALLOW_URLS``      addresses of models named in files and logs: ``URL`` or ``URL&key=NAME``, separated by spaces
``MCP_SERVERS``             MCP servers: a JSON list, an ``mcpServers`` object, or ``NAME:COMMAND``, comma-separated
``AGENT_MAX_ITERATIONS``    maximum rounds of a run, 1 to 1,000; 50
``AGENT_MAX_TOKENS``        maximum tokens of a reply, unless the model's name sets it; its own
``AGENT_MAX_MESSAGES``      maximum messages of a request, from 2, with the history ``documented``; 40
``COMPACT_ENABLED``         compact long conversations; yes
``COMPACT_THRESHOLD``       messages above which to compact, from 2, with the history ``documented``; 30
``COMPACT_KEEP_RECENT``     messages at the end of a conversation that compaction keeps unchanged, from 1; 10
``TOOLS_ENABLED``           give agents their tools; yes
``AGENT_MODE``              default mode of runs: read_only, ask, never or auto; none
==========================  ==================================================================

Addresses and keys named by files and logs must be allowed (`agentnb.models.destinations.allowed_urls`);
`personal_folder` stores the answers.

A key is identified by the name of its variable, and looked up in this kernel (where ``%agent key NAME`` stores it), in the
environment, and in the system's keyring, if the package ``keyring`` is installed. Any other variable can hold a key as well.

The last eight rows end with the default (``its own``: the model's own), which also replaces an invalid value: not a number, out
of range, neither yes nor no. An invalid ``AGENT_MODE`` is an error; there ``true`` counts as unset, and ``false`` as
``TOOLS_ENABLED=false``. These variables are read when an agent is created; the defaults for cells, when the extension is
loaded.
"""

from __future__ import annotations

import os
import re
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import SplitResult, urlsplit

import platformdirs

from agentnb.advice import Install, NameOne, Plain, SetKey
from agentnb.errors import SettingsError, suggest_names

_ROWS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "models" / "providers" / "servers.toml").read_text("utf-8"))
REFUSALS: list[dict[str, Any]] = _ROWS.pop("refusal")
"""Patterns for error messages that reveal a server's traits."""
SERVERS: dict[str, dict[str, Any]] = {name: row for name, row in _ROWS.items() if "refused" not in row}
"""Model servers by name, with address, key variable and traits."""
REFUSED_SERVERS: dict[str, dict[str, str]] = {name: row for name, row in _ROWS.items() if "refused" in row}
"""Names of unsupported servers, with the reason."""
SERVER_ALIASES: dict[str, str] = {name: name for name in SERVERS} | {
    alias: name for name, row in SERVERS.items() for alias in row.get("aliases", ())
}
"""Servers by their names in agentnb and in other programs' files."""

KEY_VARIABLES: dict[str, str] = {name: row["key"] for name, row in SERVERS.items() if "key" in row}
"""The key variable of each provider."""
TOOL_KEY_VARIABLES = {"github": "GITHUB_TOKEN"}
"""The key variable of each service that built-in tools call, by tool group."""
KEY_NAMES = {**KEY_VARIABLES, **TOOL_KEY_VARIABLES}
"""Key variables by short name."""
_USUAL_VARIABLES = tuple(dict.fromkeys(KEY_NAMES.values()))

URL_VARIABLES: dict[str, str] = {name: row["url_variable"] for name, row in SERVERS.items() if "url_variable" in row}
"""The variable for the URL of each provider's models."""

_FOLDER_VARIABLES = (
    *("TMPDIR", "TEMP", "TMP", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"),
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
)

KERNEL, ENVIRONMENT, KEYRING = "this kernel", "the environment", "the keyring"
"""Places to look up a key, in order."""

SERVICE = "agentnb"
"""agentnb's service name in the system's keyring; the user name is the variable."""

SHORTEST_SECRET = 8
"""Minimum length of a redacted key: a shorter one might occur in ordinary text by chance."""

MAX_ITERATIONS = 1_000
MAX_NUMBER = 1_000_000
"""Maximum number of tokens or messages set by a variable."""

MAX_MENTIONED = 200
"""Maximum number of remembered key variables named by files: each is looked up after every tool call."""

SERVERS_VARIABLE = "MCP_SERVERS"
SWITCH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
APPROVAL_MODES = ("auto", "ask", "never", "read_only")
Usual = TypeVar("Usual", int, None)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
_NAMES_A_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH(?!OR)|AUTHORIZ")


class Key:
    """A provider's key. Only `reveal` returns its text: its repr hides it, and it is neither copied nor pickled.

    On creation, its text becomes one of the `known_secrets`.
    """

    __slots__ = ("_text", "name", "source")

    def __init__(self, name: str, text: str, source: str) -> None:
        self._text = text
        self.name = name
        self.source = source
        _learn(text)

    def reveal(self) -> str:
        """Return the text itself, only for code that creates a provider's client."""
        return self._text

    def __repr__(self) -> str:
        return f"<key {self.name} from {self.source}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Key, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key cannot be pickled; look it up by name where it is needed")


class KnownSecrets:
    """The values of all keys seen so far, longest first. Only grows, since a model may still use a forgotten key."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: tuple[str, ...] = ()


@dataclass
class _Held:
    """The keys known to this process. Written mainly from the kernel's main thread; read from any thread."""

    kept: dict[str, str] = field(default_factory=dict)
    in_keyring: dict[str, str] = field(default_factory=dict)
    """The keyring's replies, blank if there is no key; cached because each query may prompt the person."""
    asked_for: dict[str, None] = field(default_factory=dict)
    """Names of requested keys, in order."""
    mentioned: dict[str, None] = field(default_factory=dict)
    """Key variables that files name, whether or not a model uses them."""
    keyring_lock: threading.RLock = field(default_factory=threading.RLock)
    known: KnownSecrets = field(default_factory=KnownSecrets)
    learning: threading.Lock = field(default_factory=threading.Lock)


_held = _Held()
_ENVIRON = os.environ
_VARIABLES = getattr(os.environ, "_data", os.environ)
"""The environment, with encoded names: `os.environ` is slow for unset names, and this runs after each tool call."""
_encoded = lru_cache(getattr(os.environ, "encodekey", str))
_USUAL_ENCODED = frozenset(map(_encoded, _USUAL_VARIABLES))


def _renew_locks() -> None:
    """Recreate the locks in a forked process: the parent's threads that may be holding them do not exist there."""
    _held.keyring_lock, _held.learning = threading.RLock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def personal_folder() -> Path:
    """Return the folder for the person's own agentnb files, outside every project. It may not exist yet."""
    return _data_folder(*map(os.environ.get, ("XDG_DATA_HOME", "HOME")))


@lru_cache(maxsize=8)
def _data_folder(*_variables: str | None) -> Path:
    return platformdirs.user_data_path("agentnb")


def program_variables() -> dict[str, str]:
    """Return the environment for programs started by tools: ``PATH`` and ``HOME``, without keys."""
    return {"PATH": os.environ.get("PATH") or os.defpath, "HOME": str(Path.home())}


def folders_of_variables() -> tuple[Path, ...]:
    """Return the person's home, temporary and runtime folders named by the environment."""
    texts = map(_environment, _FOLDER_VARIABLES)
    return (Path.home(), *(Path(text) for text in texts if text.startswith("/")))


def default_model() -> str | None:
    """Return the model named by ``AGENTNB_MODEL``, or None."""
    return _environment("AGENTNB_MODEL") or None


def allow_urls() -> tuple[str, ...]:
    """Return the addresses in ``AGENTNB_ALLOW_URLS``, each ``URL`` or ``URL&key=NAME``, separated by spaces or commas."""
    return tuple(re.findall(r"[^\s,]+", _environment("AGENTNB_ALLOW_URLS")))


def mcp_servers() -> str:
    """Return the MCP servers in ``MCP_SERVERS``, unparsed."""
    return _environment(SERVERS_VARIABLE)


def values_of(variables: Iterable[str]) -> dict[str, str]:
    """Return the values of those variables that are set."""
    return {name: os.environ[name] for name in variables if name in os.environ}


def max_iterations() -> int:
    """Return the maximum number of rounds of a run, from ``AGENT_MAX_ITERATIONS``; default 50."""
    return _number("AGENT_MAX_ITERATIONS", 50, 1, MAX_ITERATIONS)


def max_tokens() -> int | None:
    """Return the maximum number of tokens of a reply, from ``AGENT_MAX_TOKENS``, or None for the model's own."""
    return _number("AGENT_MAX_TOKENS", None, 1)


def max_messages() -> int:
    """Return the maximum number of messages of a request, from ``AGENT_MAX_MESSAGES``; default 40."""
    return _number("AGENT_MAX_MESSAGES", 40, 2)


def compact_enabled() -> bool:
    """Return whether to compact long conversations, from ``COMPACT_ENABLED``; yes by default."""
    return _switch("COMPACT_ENABLED", True)


def compact_threshold() -> int:
    """Return the number of messages above which to compact, from ``COMPACT_THRESHOLD``; default 30."""
    return _number("COMPACT_THRESHOLD", 30, 2)


def compact_keep_recent() -> int:
    """Return how many messages compaction keeps, from ``COMPACT_KEEP_RECENT``; default 10. May exceed the threshold."""
    return _number("COMPACT_KEEP_RECENT", 10, 1)


def tools_enabled() -> bool:
    """Return whether agents get their tools, from ``TOOLS_ENABLED``; yes by default. ``AGENT_MODE=false`` disables them."""
    return _switch("TOOLS_ENABLED", True) and _switch("AGENT_MODE", True)


def agent_mode() -> str:
    """Return the default mode of runs, from ``AGENT_MODE``, or an empty string.

    Raises `SettingsError` for an unknown word: a misspelled mode must not allow more.
    """
    word = _environment("AGENT_MODE").lower().replace("-", "_")
    if not word or word in SWITCH:
        return ""
    if word not in APPROVAL_MODES:
        raise SettingsError(f"AGENT_MODE={word!r} is not a mode", suggest_names(word, APPROVAL_MODES))
    return word


PERMITTING = ("AGENT_MODE", "AGENTNB_ALLOW_URLS", SERVERS_VARIABLE)
"""Environment variables that can grant permission, or name programs to start."""


@contextmanager
def permissions_kept() -> Iterator[None]:
    """Restore the variables that can grant permissions after the block, which runs a model's code."""
    before = {name: os.environ.get(name) for name in PERMITTING}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def key_variable(name: str) -> str:
    """Return the variable of a provider, or the name itself if it could be a variable. Raises `SettingsError` otherwise.

    The error does not repeat the name: it may be the key itself, typed in the wrong place.
    """
    if name in KEY_NAMES:
        return KEY_NAMES[name]
    if _VARIABLE.fullmatch(name) and ("_" in name or not looks_like_a_key(name)):
        return name
    meant = (NameOne((name.upper(),)),) if name.upper() in key_names() else suggest_names(name, KEY_NAMES)
    raise SettingsError(
        "That is not the name of a key", (*meant, Plain("Or use the name of its variable, such as OPENROUTER_API_KEY"))
    )


def looks_like_a_key(text: str) -> bool:
    """True if this may be a key, so it must not be repeated."""
    return len(text) >= 16 and any(char.isdigit() for char in text) and any(char.isalpha() for char in text)


class NotAKey(SettingsError):
    """The value in the environment or keyring cannot be a key. ``why`` is ``what`` without the variable."""

    why: str = ""


def find_key(name: str) -> Key | None:
    """Return the key for this provider, service or variable, or None.

    Raises `SettingsError` if the name is invalid, or if the value in the environment or the keyring cannot be a key.
    """
    variable = key_variable(name)
    _held.asked_for[variable] = None
    if variable in _held.kept:
        return Key(variable, _held.kept[variable], KERNEL)
    return _sound(variable, _environment(variable), ENVIRONMENT) or _sound(variable, _in_keyring(variable), KEYRING)


def keep_key(name: str, text: str, in_keyring: bool = False) -> Key:
    """Store a key until this kernel ends, and in the system's keyring as well if ``in_keyring`` is set.

    Raises `SettingsError`, without repeating the text, if it cannot be a key or the keyring rejects it.
    """
    variable, text = key_variable(name), text.strip()
    if problem := _problem(text):
        raise SettingsError(f"That is not a key for {variable}: {problem}", "Nothing was stored. Copy the complete key again")
    if in_keyring:
        check_keyring()
    with _held.keyring_lock:
        _held.asked_for[variable] = None
        _held.kept[variable] = text
        _learn(text)  # before calling the keyring, whose error may repeat the key
        _held.in_keyring.pop(variable, None)
        if in_keyring:
            _put_in_keyring(variable, text)
    return Key(variable, text, KERNEL)


def kept_keys() -> dict[str, str]:
    """Return the keys stored only in this kernel, by variable, for its worker processes; pass them only through a pipe."""
    return dict(_held.kept)


def forget_key(name: str) -> tuple[str, ...]:
    """Delete a key from this kernel and from the keyring, and return where it was. The environment is unchanged."""
    variable = key_variable(name)
    with _held.keyring_lock:
        sources = () if _held.kept.pop(variable, None) is None else (KERNEL,)
        _held.in_keyring.pop(variable, None)
        return (*sources, KEYRING) if take_from_keyring(variable) else sources


def expect_key(variable: str) -> None:
    """From now on, redact the value of a key variable that a file names, even before any model uses it.

    A file may name any variable. If neither its name nor its text resembles a key (a path, say), it is redacted only once it is
    used: otherwise, someone else's file could mask the person's own words in every log.
    """
    if variable in _held.mentioned or (len(_held.mentioned) < MAX_MENTIONED and _VARIABLE.fullmatch(variable)):
        _held.mentioned[variable] = None
        _learn_mentioned(variable)


def redact_values(variables: Mapping[str, str]) -> None:
    """Redact, from now on, those values that are keys, judging by the variable's name or the value's shape.

    ``variables``: what the person passed to a tool. File paths are not keys.
    """
    for name, text in variables.items():
        is_path = _is_path(text) and os.path.exists(os.path.expanduser(text))  # noqa: PTH110, PTH111  # of any text
        if not is_path and (_NAMES_A_SECRET.search(name.upper()) or (looks_like_a_key(text) and not _problem(text))):
            _learn(text.strip())


def has_key(provider: str) -> bool:
    """True if this kernel or the environment has a key for this provider or variable. Does not query the keyring."""
    variable = KEY_NAMES.get(provider, provider)
    return variable in _held.kept or bool(_VARIABLE.fullmatch(variable) and _environment(variable))


def providers_with_key() -> list[str]:
    """Return the providers with a key, in the order of `KEY_VARIABLES`, excluding the keys of tools; see `has_key`."""
    return [name for name, variable in KEY_VARIABLES.items() if variable not in TOOL_KEY_VARIABLES.values() and has_key(name)]


def key_names() -> list[str]:
    """Return the variables of all known keys: those of providers and tools, then others stored or requested."""
    return list(dict.fromkeys((*_USUAL_VARIABLES, *_held.asked_for.copy())))


def secrets_holder() -> KnownSecrets:
    """Return the holder behind `known_secrets`, for code that reads it very often."""
    return _held.known


def known_secrets() -> tuple[str, ...]:
    """Return the values of all keys seen so far, longest first, excluding short ones. Does not search for new ones."""
    return _held.known.texts


def secrets() -> tuple[str, ...]:
    """Return `known_secrets` after rereading the key variables, since one may have been set since the last call."""
    usual = () if _USUAL_ENCODED.isdisjoint(_VARIABLES) else _USUAL_VARIABLES
    for variable in (*usual, *_held.asked_for.copy()):
        if _encoded(variable) in _VARIABLES:
            _learn(_environment(variable))
    for variable in _held.mentioned.copy():
        if _encoded(variable) in _VARIABLES:
            _learn_mentioned(variable)
    return _held.known.texts


def base_url(provider: str) -> str | None:
    """Return the URL of this provider's models from the environment, or None. Raises `SettingsError` if it is invalid."""
    variable, row = URL_VARIABLES.get(provider, ""), SERVERS.get(provider, {})
    text = _environment(variable) if variable else ""
    if not text:
        return None
    may_be_host = "port" in row
    whole = f"http://{text}" if may_be_host and "://" not in text else text
    if problem := url_problem(whole):
        raise SettingsError(
            f"{variable} {problem}",
            (Plain("Set it to a URL such as http://localhost:8000/v1"), SetKey("NAME", lead="Enter a key separately")),
        )
    url = parse_url(whole)
    if url is None or url.scheme not in ("http", "https") or not (url.hostname or may_be_host):
        raise SettingsError(f"{variable} is not a URL", "Set it to a URL such as http://localhost:8000/v1")
    path: str = row.get("url_path", "")
    address = _address(url, row["port"], has_scheme="://" in text) if may_be_host else text
    return address.rstrip("/").removesuffix(path) + path


def url_problem(url: str) -> str:
    """Describe what is forbidden in a server's URL, without repeating it; empty for a valid URL."""
    parts = parse_url(url)
    if parts is None:
        return ""
    if parts.username is not None or parts.password is not None:
        return "must not contain a password"
    return "must end with its path, without ? or #" if parts.query or parts.fragment else ""


def check_keyring() -> None:
    """Raise `SettingsError` unless keys can be stored in the system's keyring."""
    if _keyring() is None:
        raise SettingsError(
            "The system keyring is not available: the keyring package is not installed or cannot be loaded",
            Install(
                "agentnb[keyring]",
                lead="Install it",
                rest=". Or omit --keyring to keep the key in this kernel only",
            ),
        )


def keep_in_keyring(name: str, text: str) -> bool:
    """Store text containing several secrets in the system's keyring. Returns False if there is no keyring or it refuses."""
    if (keyring := _keyring()) is None:
        return False
    try:
        keyring.set_password(SERVICE, name, text)
    except Exception:  # locked, refused, too long, or missing on this machine
        return False
    return from_keyring(name) == text


def from_keyring(name: str) -> str:
    """Return the keyring's value for this name; blank if it is missing or the query fails."""
    keyring = _keyring()
    try:
        return "" if keyring is None else str(keyring.get_password(SERVICE, name) or "").strip()
    except Exception:  # locked, refused, or missing on this machine: treated alike
        return ""


def _learn(*texts: str) -> None:
    """Add these to the known secrets. Uses its own lock: the other lock may be held while the keyring prompts the person."""
    secrets_so_far = _held.known.texts
    if any(len(text) >= SHORTEST_SECRET and text not in secrets_so_far for text in texts):
        with _held.learning:
            texts_ = {*_held.known.texts, *[text for text in texts if len(text) >= SHORTEST_SECRET]}
            _held.known.texts = tuple(sorted(texts_, key=len, reverse=True))


def _learn_mentioned(variable: str) -> None:
    text = _environment(variable)
    if not _is_path(text) and (looks_like_a_key(text) or _NAMES_A_SECRET.search(variable)) and not _problem(text):
        _learn(text)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "~", ".")) or text[1:2] == ":"


def _environment(variable: str) -> str:
    # `os.environ` may be replaced, and another thread may unset a variable meanwhile.
    is_set = os.environ is not _ENVIRON or _encoded(variable) in _VARIABLES
    return os.environ.get(variable, "").strip() if is_set else ""


def _number(variable: str, usual: Usual, least: int, most: int = MAX_NUMBER) -> int | Usual:
    """Return the value of the variable, or ``usual`` if it is not an integer in this range, written in plain digits."""
    text = _environment(variable)
    number = int(text) if re.fullmatch("[0-9]{1,9}", text) else least - 1
    return number if least <= number <= most else usual


def _switch(variable: str, usual: bool) -> bool:
    return SWITCH.get(_environment(variable).lower(), usual)


def _sound(variable: str, text: str, source: str) -> Key | None:
    if not text:
        return None
    if problem := _problem(text):
        reason = f"in {source} is not a key: {problem}"
        error = NotAKey(f"{variable} {reason}", SetKey(variable, lead="Enter another key"))
        error.why = reason
        raise error
    return Key(variable, text, source)


def _problem(text: str) -> str:
    """Return the reason why this text cannot be a key, or an empty string. Without this check, a later error might show the
    key.
    """
    if not text:
        return "it is empty"
    if any(char.isspace() for char in text):
        return "it contains whitespace"
    if not (text.isascii() and text.isprintable()):
        return "it contains a character that is not allowed in keys"
    return "it begins with a quotation mark" if text[0] in "\"'" else ""


def _keyring() -> Any:
    """Return the keyring package, if it is installed and works. Imported only when needed."""
    try:
        import keyring
    except Exception:  # its backends import their own libraries
        return None
    return keyring


def _in_keyring(variable: str) -> str:
    """Return the keyring's value for this name, queried only once; blank if it is missing or the query fails."""
    with _held.keyring_lock:
        if variable not in _held.in_keyring:
            _held.in_keyring[variable] = from_keyring(variable)
            _learn(_held.in_keyring[variable])
        return _held.in_keyring[variable]


def _put_in_keyring(variable: str, text: str) -> None:
    try:
        _keyring().set_password(SERVICE, variable, text)
        reason = "" if _in_keyring(variable) == text else "the key could not be read back"
    except Exception as error:
        reason = type(error).__name__  # its message may repeat the key
    if reason:
        raise SettingsError(f"The system's keyring rejected the key ({reason})", f"{variable} is kept in this kernel only")


def take_from_keyring(variable: str) -> bool:
    """Delete the key from the keyring. Returns True if it was there."""
    if not from_keyring(variable):
        return False
    try:
        _keyring().delete_password(SERVICE, variable)
    except Exception as error:
        reason = type(error).__name__
        raise SettingsError(
            f"The system's keyring did not delete {variable} ({reason})", "Delete it in the keyring itself"
        ) from None
    return True


def parse_url(text: str) -> SplitResult | None:
    """Return the parts of an address, or None if it is invalid."""
    try:
        url = urlsplit(text)
        _ = url.port  # parsed only on access
    except ValueError:
        return None
    return url


def _address(url: SplitResult, port: int, *, has_scheme: bool) -> str:
    """Parse the URL as Ollama's own client does: a scheme implies its web port, and an all-interfaces address means this
    machine.
    """
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(url.hostname or "", url.hostname)
    port = url.port or ({"http": 80, "https": 443}[url.scheme] if has_scheme else port)
    return f"{url.scheme}://{f'[{host}]' if ':' in str(host) else host}:{port}{url.path}"
