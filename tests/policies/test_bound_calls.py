"""Rules are called by their `__call__` and named as given."""

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
    """Returns an invalid verdict."""

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


def test_bound_rule_returns_its_result_and_unbinds_to_itself(subtests: pytest.Subtests) -> None:
    for (word, rule), direct in zip(RULES.items(), bind_calls(RULES.values()), strict=True):
        with subtests.test(word):
            assert direct(None) == word
            assert unbind_call(direct) is rule or unbind_call(direct) == rule


def test_only_objects_with_a_call_method_are_bound() -> None:
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


def test_bundle_binds_its_rules_once_and_copies_rebind() -> None:
    one = Odd()
    bundle = PolicyBundle((one, OnTextOnly(())), (one,), (one,))
    prepared = (bundle.after_calls, bundle.direct_guides, bundle.direct_gates)
    assert prepared == ((one.__call__,),) * 3
    assert bundle.after_calls is prepared[0] and bundle.direct_guides is prepared[1] and bundle.direct_gates is prepared[2]
    assert bundle._replace(policies=(a_function,), gates=()).after_calls == (a_function,)
    assert bundle._replace(gates=()).direct_gates == () and bundle._replace(guides=()).direct_guides == ()


def test_bundle_with_an_added_policy_equals_one_constructed_with_it() -> None:
    one, more = Odd(), Odd()
    bundle = PolicyBundle((one, OnTextOnly(())), (one,), (one,))
    for policy, asked in ((more, (one.__call__, more.__call__)), (OnTextOnly((more,)), (one.__call__,))):
        found, made = bundle.also_asking(policy), PolicyBundle((one, OnTextOnly(()), policy), (one,), (one,))
        assert found == made
        assert found.after_calls == made.after_calls == asked
        assert (found.direct_guides, found.direct_gates) == (made.direct_guides, made.direct_gates)
