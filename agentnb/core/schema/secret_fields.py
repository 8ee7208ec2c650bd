"""Detection of form fields that ask for a secret, such as a password or key, which should not be typed into a question."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from typing import Any

from agentnb.core.schema.references import list_of, resolve

MAX_LEVELS = 12
_LISTS, _SINGLE = ("allOf", "anyOf", "oneOf", "prefixItems"), ("items", "additionalProperties", "then", "else")
_WORDS = re.compile(r"[A-ZÀ-Þ]+(?=[A-ZÀ-Þ][a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+|[^\W\d_]|\d+|[^\w\s'-]")
"""Words of a name or sentence, including those within camelCase, and each punctuation mark."""
_SECRETS = frozenset(
    {
        *("password", "passwords", "passwd", "pwd", "passphrase", "passphrases", "passcode", "passwort"),
        *("kennwort", "secret", "secrets", "token", "pin", "otp", "cvv", "cvc", "credential", "credentials"),
    }
)
_ENDINGS = ("password", "passwort", "passphrase", "apikey", "privatekey", "secretkey", "accesskey", "token", "secret")
"""Endings of compound words such as ``accesstoken``."""
_KINDS_OF_KEYS = frozenset(
    {
        *("api", "access", "private", "secret", "auth", "authentication", "authorization", "encryption"),
        *("signing", "ssh", "gpg", "pgp", "account", "master", "service", "deploy", "client", "license"),
        *("security", "recovery", "wallet"),
    }
)
_KEYS = frozenset({"key", "keys"})
_KINDS_OF_CODES = frozenset({"pin", "otp", "security", "verification", "recovery", "backup", "passcode", "fa", "mfa"})
_FOLLOWERS = frozenset(
    {
        *("value", "text", "string", "again", "confirm", "confirmation", "repeat", "repeated", "new", "old"),
        *("current", "code", "number", "for", "of", "from", "to", "in", "on", "at", "with", "that", "which"),
        *("you", "your", "and", "or", "is", "here"),
    }
)
"""Words after a secret that do not change its subject: ``password_again``, but not ``password_length``."""
_NEGATIONS = frozenset({"not", "no", "never", "without", "dont", "don", "nor", "instead"})
_SENTENCE_ENDS = frozenset(".;:!?")
_NUMERIC = frozenset({"pin", "otp", "passcode", "password", "cvv", "cvc", "code"})
"""Secrets that may be numbers."""


def secret_fields(schema: Any) -> list[str]:
    """Return the names of fields that ask for a password, key, token or other secret; nested ones as ``login.password``.

    Based on the field's name, title, description or ``format: password``. Yes/no fields and choices never count.
    """
    names, seen, todo = list[str](), set[int](), deque([(schema, "", 0)])
    while todo:
        subschema, path, level = todo.popleft()
        part = resolve(subschema, schema)
        if not isinstance(part, dict) or id(part) in seen or level > MAX_LEVELS:
            continue
        seen.add(id(part))
        properties = part.get("properties")
        for name, property_ in properties.items() if isinstance(properties, dict) else ():
            field_path = f"{path}.{name}" if path else str(name)
            names += [field_path] if _is_secret(str(name), property_, schema) else []
            todo.append((property_, field_path, level + 1))
        todo += [(property_, path, level + 1) for key in _LISTS for property_ in list_of(part.get(key))]
        todo += [(part[key], path, level + 1) for key in _SINGLE if key in part]
    return list(dict.fromkeys(names))


def _is_secret(name: str, given: Any, root: Any) -> bool:
    schema = resolve(given, root)
    texts = [source for source in (given, schema) if isinstance(source, dict)]
    if any(str(source.get("format")).casefold() == "password" for source in texts):
        return True
    if isinstance(schema, dict) and not _asks_for_text(schema):
        return False
    is_number = isinstance(schema, dict) and schema.get("type") in ("integer", "number")
    if isinstance(schema, dict):
        texts += [
            source for key in ("allOf", "anyOf", "oneOf") for source in list_of(schema.get(key)) if isinstance(source, dict)
        ]
    descriptions = [
        str(source[key]) for source in texts for key in ("title", "description") if isinstance(source.get(key), str)
    ]
    return any(_names_secret(text, is_number=is_number) for text in (name, *descriptions))


def _asks_for_text(schema: dict[str, Any]) -> bool:
    """True if the answer is typed: not a choice, yes or no, or an object with its own fields."""
    if schema.get("type") in ("boolean", "null", "object") or list_of(schema.get("enum")) or "const" in schema:
        return False
    if "type" not in schema and "properties" in schema:
        return False
    alternatives = list_of(schema.get("oneOf")) or list_of(schema.get("anyOf"))
    return not (alternatives and all(isinstance(alternative, dict) and "const" in alternative for alternative in alternatives))


def _names_secret(text: str, *, is_number: bool) -> bool:
    words = [word.casefold() for word in _WORDS.findall(_normalize(text))]
    for position, word in enumerate(words):
        length = _length_of_secret(words, position)
        if not length or (is_number and word not in _NUMERIC and words[position + length - 1] not in _NUMERIC):
            continue
        after = words[position + length : position + length + 1]
        is_asked = not after or after[0] in _FOLLOWERS or not after[0].isalpha()
        if is_asked and not _NEGATIONS & set(_sentence_before(words, position)):
            return True
    return False


def _normalize(text: str) -> str:
    """Normalize text to its visible form: without zero-width characters, and with normal letters for wide ones."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


def _sentence_before(words: list[str], place: int) -> list[str]:
    """Return the words before this position in the same sentence, where a negation counts at any distance."""
    begin = next((index + 1 for index in range(place - 1, -1, -1) if words[index] in _SENTENCE_ENDS), 0)
    return words[begin:place]


def _length_of_secret(words: list[str], place: int) -> int:
    """Return the number of words that name a secret at this position; 0 if there are none."""
    word, after = words[place], words[place + 1 : place + 2]
    if after and after[0] in _KEYS and word in _KINDS_OF_KEYS:
        return 2
    if after == ["code"] and word in _KINDS_OF_CODES:
        return 2
    return int(word in _SECRETS or word.endswith(_ENDINGS))
