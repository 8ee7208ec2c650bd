"""The server answers any request, however odd, with a refusal and without a broken thread."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import test_rules_chat
import test_rules_messages
import test_rules_responses
from property_settings import size

from agentnb.testing.ids import Ids
from agentnb.testing.memory import Memory
from agentnb.testing.prompt_cache import PromptCache
from agentnb.testing.replies.lines import as_answer
from agentnb.testing.replies.reply_format import Asked, Like, Wire
from agentnb.testing.replies.wires import CHAT, MESSAGES, RESPONSES
from agentnb.testing.requests.request_rules import problems

GOOD = {MESSAGES: test_rules_messages.good(), CHAT: test_rules_chat.good(), RESPONSES: test_rules_responses.good()}
ODD: list[Any] = [None, 7, "x", [], {}, [None], [7], {"type": []}, [{"type": {}}], True]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path to every value in it."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from places(below, (*path, key))


def put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def answer(wire: Wire, body: dict[str, Any]) -> None:
    count = PromptCache().of_messages(body) if wire is MESSAGES else PromptCache().automatic(body)
    wire.deliver(as_answer("x"), Asked(body, Ids(), Memory(), count.usage))


def test_valid_request_has_no_problems(subtests: pytest.Subtests) -> None:
    for wire, good in GOOD.items():
        with subtests.test(wire.name):
            assert problems(wire, good, {"anthropic-version": "2026-10-21"}, Memory(), Like()) == []


def test_request_rules_handle_odd_values_anywhere_without_errors(subtests: pytest.Subtests) -> None:
    for wire, good in GOOD.items():
        with subtests.test(wire.name):
            for path, value in [*itertools.product(places(good), ODD)][:: size(3, nightly=1)]:
                body = put(good, path, value)
                found = problems(wire, body, {"anthropic-version": "2026-10-21"}, Memory(), Like())
                assert all(isinstance(problem, str) for problem in found)
                if not found:
                    answer(wire, body)
