"""Rules are called by their `__call__`, and named as they were given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.bound_calls import bind_calls, unbind_call
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.gates import judge
from agentnb.policies.verdict import OnTextOnly, decide


@dataclass(frozen=True)
class Odd:
    """Returns what is no verdict."""

    said: str = "odd"

    def __call__(self, *given: Any) -> Any:
        return self.said

    def by_name(self, *given: Any) -> Any:
        return self.said


class Derived(Odd):
    """Inherits its `__call__`."""


def a_function(*given: Any) -> Any:
    return f"function {len(given)}"


RULES: dict[str, Any] = {
    "object": Odd("object"),
    "derived": Derived("derived"),
    "method": Odd("method").by_name,
    "function 1": a_function,
    "function 2": partial(a_function, 1),
    "lambda": lambda *given: "lambda",
}
"""Rules by what each returns for a run."""


def test_each_rule_returns_its_own_under_its_name(subtests: pytest.Subtests) -> None:
    for (word, rule), direct in zip(RULES.items(), bind_calls(RULES.values()), strict=True):
        with subtests.test(word):
            assert direct(None) == word
            assert unbind_call(direct) is rule or unbind_call(direct) == rule


def test_an_object_is_called_by_its_method_and_anything_else_as_it_is() -> None:
    one, derived, *others = RULES.values()
    assert bind_calls(RULES.values()) == (one.__call__, derived.__call__, *others)


def test_errors_name_the_rule_and_not_its_method(subtests: pytest.Subtests) -> None:
    for (word, rule), direct in zip(RULES.items(), bind_calls(RULES.values()), strict=True):
        with subtests.test(word):
            with pytest.raises(SettingsError) as of_policy:
                decide([direct], Run())
            with pytest.raises(SettingsError) as of_gate:
                judge([direct], ToolCall("look"), Run())
            assert str(of_policy.value).startswith(f"{rule!r} returned {rule(None)!r}")
            assert str(of_gate.value).startswith(f"The gate {rule!r} returned {rule(1, 2)!r}")


def test_a_bundle_prepares_its_rules_once_and_a_changed_copy_its_own() -> None:
    one = Odd()
    bundle = PolicyBundle((one, OnTextOnly(())), (one,), (one,))
    prepared = (bundle.after_calls, bundle.direct_guides, bundle.direct_gates)
    assert prepared == ((one.__call__,),) * 3
    assert bundle.after_calls is prepared[0] and bundle.direct_guides is prepared[1] and bundle.direct_gates is prepared[2]
    assert bundle._replace(policies=(a_function,), gates=()).after_calls == (a_function,)
    assert bundle._replace(gates=()).direct_gates == () and bundle._replace(guides=()).direct_guides == ()


def test_a_bundle_with_one_more_policy_is_prepared_like_one_made_with_it() -> None:
    one, more = Odd(), Odd()
    bundle = PolicyBundle((one, OnTextOnly(())), (one,), (one,))
    for policy, asked in ((more, (one.__call__, more.__call__)), (OnTextOnly((more,)), (one.__call__,))):
        found, made = bundle.also_asking(policy), PolicyBundle((one, OnTextOnly(()), policy), (one,), (one,))
        assert found == made
        assert found.after_calls == made.after_calls == asked
        assert (found.direct_guides, found.direct_gates) == (made.direct_guides, made.direct_gates)
