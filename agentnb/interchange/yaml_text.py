"""YAML documents as plain data, without custom tags and with limits on expanded aliases."""

from __future__ import annotations

from typing import Any

from agentnb.errors import TraceError
from agentnb.store.bounds import BoundExceeded, check_bytes

MAX_YAML_BYTES = 50_000_000
"""Maximum size of a document. A single long text of this size takes about 10 s."""
MAX_YAML_TOKENS = 300_000
"""Maximum tokens in a document. Each takes about 20 µs, a hundred times as long as in JSON."""
MAX_DEPTH = 200
"""Maximum nesting of lists and mappings in brackets."""
MAX_VALUES = 5_000_000
"""Maximum values in a document, counting expanded aliases."""
_AS_JSON = "Convert it to JSON, which loads a hundred times faster, or split it"


def load_yaml(data: bytes, name: str) -> Any:
    """Return the first document in the data. ``name``: the name of the file, for errors.

    Raises `TraceError` if it is not YAML, is too large, contains itself, or has tags for custom objects.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.scanner import Scanner, ScannerError

    class PlainConstructor(SafeConstructor):
        """Constructor for plain data. It ignores merge keys, because their nested aliases could expand without limit."""

        def flatten_mapping(self, node: Any) -> None:
            pass

    class BoundedScanner(Scanner):
        """Scanner that refuses deep nesting, because scan time grows with the square of the depth."""

        def fetch_more_tokens(self) -> Any:
            if self.tokens_taken > MAX_YAML_TOKENS:
                raise BoundExceeded(f"{name} has more than {MAX_YAML_TOKENS:,} YAML tokens", _AS_JSON)
            return super().fetch_more_tokens()

        def fetch_flow_collection_start(self, *args: Any, **named: Any) -> None:
            if len(self.flow_context) > MAX_DEPTH:
                raise ScannerError(None, None, "it is nested too deeply")
            super().fetch_flow_collection_start(*args, **named)

    check_bytes(len(data), MAX_YAML_BYTES, name, _AS_JSON)
    reader = YAML(typ="safe", pure=True)
    reader.Constructor, reader.Scanner = PlainConstructor, BoundedScanner
    try:
        document = next(iter(reader.load_all(data)), None)
    except BoundExceeded:
        raise
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise TraceError(f"{name} is not YAML: {reason[:300]}") from error
    _count(document, name, {}, set())
    return document


def _count(value: Any, name: str, known: dict[int, int], above: set[int]) -> int:
    """Count the values in this data, including those of expanded aliases."""
    if not isinstance(value, dict | list):
        return 1
    identity = id(value)
    if identity in above:
        raise TraceError(f"{name} contains itself")
    if identity not in known:
        above.add(identity)
        inner = value.values() if isinstance(value, dict) else value
        known[identity] = 1 + sum(_count(item, name, known, above) for item in inner)
        above.discard(identity)
        if known[identity] > MAX_VALUES:
            raise TraceError(f"{name} expands to more than {MAX_VALUES:,} values", "Its aliases expand to too many values")
    return known[identity]
