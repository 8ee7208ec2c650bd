"""Damage: what may happen to bytes, and to the values of a JSON document. Each takes a generator, and uses nothing else."""

from __future__ import annotations

import copy
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    -1.5,
    2**63,
    10**30,
    1e300,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "null",
    "1e999",
    "9" * 400,
    "2026-01-01T00:00:00",
    "9999-12-31T23:59:59.999999+00:00",
    "0001-01-01T00:00:00+23:59",
    "\x00\x1b[31m",
    "\ud83d",
    "\u202e\u200b\ufeff",
    "<script>alert(1)</script>",
    "{{ x }}",
    "../../etc/passwd",
    "user",
    "assistant",
    "tool",
    [],
    {},
    [[]],
    [None],
    [7],
    ["x"],
    {"": {}},
    {"type": 7},
    {"type": "text"},
    {"content": [None]},
)
"""Values in the place of others."""
LITERALS = (b"1e999", b"-1e999", b"9" * 400, b"1" + b"0" * 4_000, b"-0", b"NaN", b"Infinity", b'"\\ud83d"', b'"\\u0000"')
"""JSON and near-JSON that Python's own encoder does not write."""
DEPTHS = (50, 290, 400, 930, 3_000, 100_000)
REPEATS = (2, 5, 50, 300)
MAX_VALUES = 50_000
"""Maximum values of a document to change: larger ones may have repeated parts already."""
MAX_REPEATED_CHARACTERS = 2_000_000
MAX_PACKED_BYTES = 10_000_000
"""Bytes of an archive's members: the making of a file must not take the memory that its reading is measured by."""
_MARK = "here stands a literal"

# Bytes


def flip(random: Random, data: bytes) -> bytes:
    """Change some bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 50))):
        if changed:
            changed[random.randrange(len(changed))] = random.choice(
                (0, 10, 34, 44, 58, 91, 123, 125, 255, random.randrange(256))
            )
    return bytes(changed)


def remove_slice(random: Random, data: bytes) -> bytes:
    """Leave some bytes out."""
    first, last = sorted((_place(random, data), _place(random, data)))
    return data[:first] + data[last:]


def repeat_slice(random: Random, data: bytes) -> bytes:
    """Repeat some bytes, twice or many times."""
    first = _place(random, data)
    return data[:first] + data[first : first + random.choice((1, 10, 100, 1_000))] * random.choice(REPEATS) + data[first:]


def truncate(random: Random, data: bytes) -> bytes:
    """Cut the end off."""
    return data[: _place(random, data)]


def behead(random: Random, data: bytes) -> bytes:
    """Cut the beginning off."""
    return data[_place(random, data) :]


def insert_junk(random: Random, data: bytes) -> bytes:
    """Insert bytes that do not belong there."""
    place = _place(random, data)
    junk = random.choice((b"\x00" * 100, b"\xff\xfe", b"\n\n\n", b"\r", b"[" * 5_000, b"{", b'"', b"null\n", *LITERALS))
    return data[:place] + junk + data[place:]


def reencode(random: Random, data: bytes) -> bytes:
    """Write the text in another encoding, with a byte order mark or other line ends."""
    text = data.decode("utf-8", "replace")
    return random.choice(
        (
            lambda: text.encode("utf-16"),
            lambda: text.encode("utf-32"),
            lambda: text.encode("latin-1", "replace"),
            lambda: b"\xef\xbb\xbf" + data,
            lambda: data.replace(b"\n", b"\r\n"),
        )
    )()


def swap_lines(random: Random, data: bytes) -> bytes:
    """Swap two lines, or repeat or drop one."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(one, lines[other])
        case _:
            del lines[one]
    return b"".join(lines)


def _place(random: Random, data: bytes) -> int:
    return random.randint(0, len(data))


BYTE_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    flip,
    flip,
    remove_slice,
    repeat_slice,
    truncate,
    behead,
    insert_junk,
    reencode,
    swap_lines,
)

# Values of JSON


def documents_of(data: bytes) -> list[Any] | None:
    """Return the JSON document, or the records of JSON Lines; None for anything else."""
    try:
        text = data.decode("utf-8-sig")
        try:
            return [json.loads(text)]
        except ValueError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None


def written(documents: list[Any]) -> bytes:
    """Return the documents as JSON Lines, compact and in ASCII."""
    return "".join(f"{json.dumps(document, separators=(',', ':'))}\n" for document in documents).encode()


def change_values(random: Random, data: bytes) -> bytes:
    """Change some values of a document, whatever they are; data that is no JSON has its bytes changed."""
    documents = documents_of(data)
    if not documents:
        return change_bytes(random, data)
    literal = b""
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        places = _places(documents)
        if not places or len(places) > MAX_VALUES:
            break
        container, key = random.choice(places)
        literal = _change_value(random, places, container, key) or literal
    return written(documents).replace(f'"{_MARK}"'.encode(), literal or b"null")


def _places(documents: list[Any]) -> list[tuple[Any, Any]]:
    """Return every container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    left: list[Any] = [documents]
    while left:
        value = left.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inner:
            found.append((value, key))
            if isinstance(each, dict | list):
                left.append(each)
    return found


def _change_value(random: Random, places: list[tuple[Any, Any]], container: Any, key: Any) -> bytes:
    """Change one value; return the literal that replaces it in the text, if any."""
    value = container[key]
    match random.randrange(12):
        case 0 | 1 | 2:
            container[key] = copy.deepcopy(random.choice(ODD_VALUES))
        case 3:
            del container[key]
        case 4:
            other, place = random.choice(places)
            if place in other if isinstance(other, dict) else place < len(other):
                container[key] = copy.deepcopy(other[place])  # not the value itself: it may be around this one
        case 5 if isinstance(container, list):
            container[key:key] = _repeated([value], random.choice(REPEATS))
        case 6 if isinstance(container, list):
            random.shuffle(container)
        case 7:
            container[key] = str(value) if not isinstance(value, str) else [value]
        case 8:
            container[key] = random.choice(([value], {"type": "text", "text": value}, {"value": value}, json.dumps(value)))
        case 9 if isinstance(container, dict):
            container[random.choice(("", "x", "type", "role", "id", "__class__", "9" * 300))] = container.pop(key)
        case 10:
            container[key] = _MARK
            depth = random.choice(DEPTHS)
            opened, closed = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
            return opened * depth + b"1" + closed * depth
        case 11:
            container[key] = _MARK
            return random.choice(LITERALS)
        case _:
            container[key] = _repeated(value, 200) if isinstance(value, str | list) else random.choice(ODD_VALUES)
    return b""


def _repeated(value: Any, times: int) -> Any:
    """Return a text or a list so many times over, or once if that were too much."""
    return copy.deepcopy(value) * (times if len(json.dumps(value)) * times <= MAX_REPEATED_CHARACTERS else 1)


def change_bytes(random: Random, data: bytes) -> bytes:
    """Change the bytes once or a few times."""
    for _ in range(random.choice((1, 1, 2, 4))):
        data = random.choice(BYTE_CHANGES)(random, data)
    return data


# Files around files


def packed(random: Random, data: bytes, name: str) -> bytes:
    """Return an archive with the data, sound or damaged, or one archive within another."""
    for _ in range(random.choice((1, 1, 1, 2, 6))):
        data = gzip.compress(data, 1, mtime=0) if random.random() < 0.4 else _zipped(random, data, name)
        name = "inner.zip"
    return change_bytes(random, data) if random.random() < 0.3 else data


def _zipped(random: Random, data: bytes, name: str) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        members = random.choice((1, 2, 30))
        for number in range(members if members * len(data) <= MAX_PACKED_BYTES else 1):
            archive.writestr(zipfile.ZipInfo(f"{number}/{name}"), data)
    return whole.getvalue()
