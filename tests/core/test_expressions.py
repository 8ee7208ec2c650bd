"""Expressions of task files: paths, comparison, arithmetic and `len` over plain data, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core import expressions
from agentnb.core.expressions import MAX_LENGTH, OF_TASKS, evaluate, names_in, paths_in, pieces, substitute
from agentnb.errors import ExpressionError, SettingsError

NAMES: dict[str, Any] = {
    "plan": {"steps": [{"name": "tides_fetch", "args": {"from": "Vigo", "a-b": 1}}, {"name": "count"}], "elicitation": None},
    "results": [{"result": 3, "error": ""}, {"result": {"rows": [1, 2]}, "error": "no such station"}],
    "iteration": 2,
    "query": "How many?",
    "empty": [],
    "ok": True,
    "share": 0.5,
}


def test_expression_evaluates_to_the_expected_value(subtests: pytest.Subtests) -> None:
    for expression, value in {
        "len(plan.steps) > 0": True,
        "iteration < 3 && len(plan.steps) > 0": True,
        "iteration + 1": 3,
        "results[-1].result.rows[0]": 1,
        'plan.steps[0].args["a-b"]': 1,
        "plan.steps[0].args.from": "Vigo",
        "results['0'].result": 3,
        'plan["steps"][0]["name"]': "tides_fetch",
        "plan.elicitation": None,
        "len(plan.elicitation)": 0,
        "len(null) == 0": True,
        "len(query)": 9,
        "len(plan)": 2,
        "plan.elicitation == null": True,
        "!ok": False,
        "!ok == false": True,  # `!` binds more tightly than `==`
        "not ok or iteration == 2": True,
        "!(ok && false) || nothing": True,  # not read if not needed
        "1 < iteration <= 2": True,
        "iteration != 2": False,
        "-iteration * 2 + 7 // 2 % 2 - 0.5": -3.5,
        "1 / 4": 0.25,
        "share >= .5": True,
        "'a' + \"b}\"": "ab}",
        "'don\\'t'": "don't",
        "'a\\nb'": "a\nb",
        "query[0]": "H",
        "'a' < 'b'": True,
        "empty + results == results": True,
        "2 in empty": False,
        "'error' in results[0]": True,
        "plan.steps[1] in plan.steps": True,
        "'How' in query && 'Why' not in query": True,
        "\n  len(results)\n    > 1": True,
        "1e3": 1000.0,
        "true && True": True,
        "$iteration < 3 && query != '$iteration'": True,
    }.items():
        with subtests.test(expression):
            result = evaluate(expression, NAMES)
            assert (result, type(result)) == (value, type(value))


def test_invalid_lookup_in_an_expression_raises_with_a_suggestion(subtests: pytest.Subtests) -> None:
    for expression, says in {
        "len(plans.steps) > 0": ["there is no plans", "Did you mean plan?"],
        "plan.step": ["plan has no step", "steps"],
        "results[2]": ["results has 2 items", "len(results) > 0"],
        "results.result": ["results is a list and has no result"],
        "plan.elicitation.message": ["plan.elicitation is null and has no message"],
        "query.upper": ["query is the string 'How many?' and has no upper"],
        "results['-1']": ["results is a list and has no -1"],
        "results[true]": ["is not an index"],
        "plan[0]": ["is not a key"],
        "iteration[0]": ["iteration is the number 2"],
        "len(iteration)": ["has no length"],
        "iteration + query": ["a number and a string"],
        "iteration > null": ["it compares a number with null"],
        "iteration / 0": ["divides by zero"],
        "ok + 1": ["true and a number"],
        "iteration = 2": ["= 2", "comparisons"],
        "a & b": ["& b"],
        "len": ["there is no len", "len(x)"],
        "len()": ["cannot be called"],
        "len(x, y)": [", y"],
        "": ["blank"],
        "   ": ["blank"],
        "iteration +": ["incomplete"],
        "iteration is 2": ["not allowed"],
        "2 in results[0:1]": [":1]"],
        "2 in iteration": ["a number cannot contain other values"],
        "2 in query": ["a string cannot contain a number"],
        "2 in plan": ["an object cannot contain a number"],
        "1 if ok else 2": ["not allowed"],
        "[1]": ["not allowed"],
        "results[0:1]": [":1]"],
        "lambda: 1": ["is not valid"],
    }.items():
        with subtests.test(expression), pytest.raises(ExpressionError) as caught:
            evaluate(expression, NAMES)
        for words in says:
            assert words in str(caught.value)


def test_comparison_of_different_types_is_refused(subtests: pytest.Subtests) -> None:
    names = {
        "said": "5",
        "score": 5,
        "ok": True,
        "none": None,
        "texts": ["5", None],
        "mixed": ["5", 5],
        "empty": [],
        "data": {},
        "numbers": [5],
        "deep": {"a": [{"b": 5}], "c": 1},
        "deep_text": {"a": [{"b": "5"}, 6]},
        "switches": [True],
        "lists": [["5"]],
    }
    for expression in (
        *(f"said {sign} 5" for sign in ("==", "!=", "<", "<=", ">", ">=")),
        *("5 == said", "score == '5'", "ok == 1", "ok != 'true'", "data == said", "texts == said"),
        *("5 in texts", "5 not in texts", "ok in mixed", "data in mixed"),
        *("numbers == texts", "texts != numbers", "deep == deep_text", "deep_text != deep", "switches == numbers"),
        *("numbers in lists", "ok in numbers", "numbers not in lists"),
    ):
        with subtests.test(expression), pytest.raises(ExpressionError, match='"5" is a string, 5 is a number') as caught:
            evaluate(expression, names)
        assert "it compares " in str(caught.value) or "in a list that contains none" in str(caught.value)
    for expression, value in {
        "said == '5'": True,
        "score == 5.0": True,
        "said == null": False,
        "none != 5": True,
        "none == null": True,
        "numbers == numbers": True,
        "numbers == empty": False,
        "texts == lists[0]": False,
        "texts in lists": False,
        "lists[0] in lists": True,
        "deep == data": False,
        "empty in lists": False,
        "ok == true": True,
        "5 in mixed": True,
        "'6' in texts": False,
        "null in texts": True,
        "5 in empty": False,
        "none in mixed": False,
    }.items():
        with subtests.test(expression):
            assert evaluate(expression, names) is value


def test_expression_cannot_call_python(subtests: pytest.Subtests) -> None:
    for expression in (
        '__import__("os").getcwd() == "x"',
        "query.format(1)",
        "query.__class__",
        "().__class__",
        "len.__globals__",
        "(ok or query).upper()",
        "(1).real",
        "f'{query}'",
        "plan.keys()",
        "len(len)",
        "[x for x in results]",
        "(iteration := 3)",
        "open('/etc/passwd')",
    ):
        with subtests.test(expression), pytest.raises(ExpressionError):
            evaluate(expression, NAMES)
    with pytest.raises(ExpressionError, match="__import__"):
        evaluate('__import__("os").getcwd() == "x"', NAMES)


def test_python_object_has_no_fields_in_an_expression() -> None:
    names = {"thing": SimpleNamespace(secret=1), "function": len}
    for expression in ("thing.secret", "thing", "function", "function(thing)"):
        with pytest.raises(ExpressionError):
            evaluate(expression, names)
    with pytest.raises(ExpressionError, match="SimpleNamespace"):
        evaluate("thing.secret", names)


def test_expensive_expressions_are_refused(subtests: pytest.Subtests) -> None:
    names = {"text": "a" * 60_000, "many": [0] * 60_000, "big": 10**300, "huge": 1e308}
    for expression in (
        "'a' * 1000000000",
        "9 ** 9 ** 9",
        "'%999999999d' % 1",
        "text + text",
        "many + many",
        "many * 3",
        "big * big",
        "huge * 10",
        "huge - -huge",
        "9 << 99999",
        "(" * 300 + "1" + ")" * 300,
        "-" * 300 + "1",
        "!" * 300 + "1",
        "1" + "+1" * 400,
        "1" * (MAX_LENGTH + 1),
        "1e999",
    ):
        with subtests.test(expression[:40]), pytest.raises(ExpressionError):
            evaluate(expression, names)


def test_text_consisting_of_one_expression_becomes_its_value(subtests: pytest.Subtests) -> None:
    for value, becomes in {
        "${results}": NAMES["results"],
        "${ iteration + 1 }": 3,
        "${plan.elicitation}": None,
        " ${iteration}": " 2",
        "${iteration}${iteration}": "22",
        "${query} ${ok} ${plan.elicitation} ${results[-1].result} ${share}": 'How many? true null {"rows":[1,2]} 0.5',
        '${"}"}': "}",
        '${"${"}x}': "${x}",
        "nothing, $ {x} { x } }": "nothing, $ {x} { x } }",
        "$results": NAMES["results"],
        "$plan.steps[0].name": "tides_fetch",
        "$iteration, $share. $5 $nothing.x {{ $query }} $": "2, 0.5. $5 $nothing.x {{ $query }} $",
        '${"$"}iteration': "$iteration",
        "": "",
    }.items():
        with subtests.test(value):
            result = substitute(value, NAMES)
            assert (result, type(result)) == (becomes, type(becomes))


def test_texts_are_substituted_everywhere_in_plain_data() -> None:
    value = {"a": ["${iteration}", {"${query}": "is ${query}"}], "b": 1, "c": None}
    assert substitute(value, NAMES) == {"a": [2, {"${query}": "is How many?"}], "b": 1, "c": None}
    assert substitute("${text}", {"text": "${iteration}"}) == "${iteration}"


def test_unresolvable_text_is_an_error(subtests: pytest.Subtests) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    texts = (
        "${iteration",
        '${"}',
        "${}",
        "${it's}",
        "a ${nothing} b",
        "$nothing",
        "$path(a/b.vm)",
        "a $query.x",
        "${" * 50_000,
        "${text}${text} " * 20,
        deep,
    )
    for value in texts:
        with subtests.test(str(value)[:20]), pytest.raises(ExpressionError):
            substitute(value, {**NAMES, "text": "a" * 60_000})


def test_names_are_listed_without_evaluating_the_expression() -> None:
    assert names_in("len(plan.steps) > 0 && !results[n].plan.ok || true || plan.x") == ("plan", "results", "n")
    assert [one for one in pieces("${x} and $y.z", OF_TASKS) if not isinstance(one, str)] == [("x", 2, ""), ("$y.z", 9, "y")]
    with pytest.raises(ExpressionError):
        names_in("plan.")
    with pytest.raises(ExpressionError):
        names_in(7)  # type: ignore[arg-type]
    with pytest.raises(SettingsError):
        evaluate(["x"], {})  # type: ignore[arg-type]


WORDS = (
    "plan results iteration query . [ ] ( ) len( && || ! == < + - * % // 0 -1 9e9 'a' \" ' \\ ${ } null not and .steps lambda"
)
PIECES = st.sampled_from([*WORDS.split(), " ", "\0", "\ud800"])


@examples(1_000)
@given(st.text(max_size=60) | st.lists(PIECES, max_size=25).map("".join) | st.lists(PIECES, max_size=12).map(" ".join))
def test_any_text_is_a_value_or_an_expression_error(text: str) -> None:
    for function in (evaluate, substitute):
        try:
            function(text, NAMES)
        except ExpressionError as error:
            assert len(str(error)) < 1_000
    try:
        names_in(text)
    except ExpressionError:
        return
    assert text.strip()


def test_expansion_of_shared_lists_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert expressions.MAX_COMPARED == 1_000_000
    monkeypatch.setattr(expressions, "MAX_COMPARED", 10_000)
    left: list[Any] = []
    right: list[Any] = []
    for _ in range(40):  # like forty steps that each pass on their input twice
        left, right = [left, left], [right, right]
    for expression in ("left == right", "left != right", "left in right"):
        with pytest.raises(ExpressionError, match="10,000 values"):
            evaluate(expression, {"left": left, "right": right})
    with pytest.raises(ExpressionError, match="10,000 values"):
        substitute("It is ${left}.", {"left": left})
    assert substitute("${left}", {"left": left}) is left


def test_all_texts_of_a_substitution_share_one_limit() -> None:
    names = {"long": "x" * 90_000}
    assert len(substitute(["${long} "] * 11, names)) == 11
    with pytest.raises(ExpressionError, match="1,000,000 characters"):
        substitute({"a": ["${long} "] * 12}, names)


def test_paths_in_an_expression_are_complete_and_can_be_evaluated() -> None:
    expression = "len(plan.steps) > 1 && !('error' in results[0]) || iteration - results[0].result == 1 && iteration"
    assert paths_in(expression) == ("len(plan.steps)", "results[0]", "iteration", "results[0].result")
    assert [evaluate(path, NAMES) for path in paths_in("len(plan.steps) > results[-1].result.rows[0]")] == [2, 1]
    assert paths_in("true != null") == ()


def test_truthiness_is_configurable_and_evaluation_short_circuits() -> None:
    class Names(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            looked_up.append(name)
            return super().__getitem__(name)

    looked_up: list[str] = []
    names = Names(no="false", yes="yes", other=1)
    assert evaluate("no && other", names, lambda value: value != "false") == "false"
    assert evaluate("yes || other", names, lambda value: value != "false") == "yes"
    assert looked_up == ["no", "yes"]
    assert evaluate("!no", names, lambda value: value != "false") is True
    assert evaluate("!no", names) is False


def test_error_states_the_reason_without_the_expression() -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate("plan.stps", NAMES)
    assert caught.value.what == f"plan.stps: {caught.value.why}"
    assert caught.value.why == "plan has no stps"
