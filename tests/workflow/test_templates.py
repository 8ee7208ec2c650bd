"""Templates of workflows: references and their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.errors import ExpressionError
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import plain, read_yaml
from agentnb.workflow.templates.templates import Scope, references, render, render_text, truth

EXAMPLES = Path(__file__).parent / "examples"
VERDICT = 'I looked at [1].\n```json\n{"ok": true, "grade": {"score": 0.5}, "notes": ["x", "y"]}\n```\nThat is all.'
STEPS: dict[str, Any] = {
    "first-draft": {"agent": "a", "output": VERDICT, "runs": [{"output": '{"ok": false}', "attempts": 1}, {"output": VERDICT}]},
    "said": {"agent": "a", "output": "No", "runs": [{"output": "No"}]},
    "check": {"output": False, "runs": [{"output": False}]},
    "search": {"tool": "search", "output": {"hits": [{"in": 3}], "text": '{"a": 1}'}, "runs": []},
    "each": {"output": ['{"title": "A"}', "plain", {"title": "C"}], "runs": []},
    "par": {
        "outputs": {
            "one": {"agent": "a", "output": "1", "runs": []},
            "inner": {
                "outputs": {"two": {"agent": "b", "output": '{"n": 2}', "runs": []}},
                "order": ["two"],
                "attempts": 1,
            },
        },
        "order": ["one", "inner"],
        "attempts": 3,
    },
    "odd": {"outputs": {"order": {"agent": "a", "output": "Tea.", "runs": []}}, "order": ["order"], "attempts": 1},
}
NOTHING = object()


def scope_of(prompt: str = "", item: Any = NOTHING, index: int = 0, **known: Any) -> Scope:
    result = Scope.of_inputs(**known).with_names({"$prompt": prompt})
    return result if item is NOTHING else result.with_item("", item, index)


SCOPE = scope_of("Fog", {"n": [4, 5], "a-b": 7}, 1, steps=STEPS, inputs={"lang": {"code": "fr"}, "empty": None})


def example(name: str) -> Any:
    node = read_yaml((EXAMPLES / name).read_text(encoding="utf-8"), Problems())
    assert node is not None
    return plain(node)


@pytest.mark.req("R4.10", "R4.24")
def test_example_instruction_renders_as_expected() -> None:
    run = example("templates.run.yaml")
    scope = scope_of("Gulls", steps=run["step_context"]["steps"])
    assert render(example("templates.yaml")["agents"]["editor"]["instruction"], scope) == run["instructions"]["editor"]
    same = {
        render(text, Scope.of_inputs(steps=nested["step_context"]["steps"]))
        for nested in [example("nested-parallel.run.yaml")]
        for text in nested["same"]
    }
    assert same == {"The lamp of Cordouan is the oldest one in use."}


@pytest.mark.req("R4.10", "R4.24", "K4.7")
def test_template_paths_resolve_to_values(subtests: pytest.Subtests) -> None:
    cases: dict[str, Any] = {
        "$prompt": "Fog",
        "$inputs.lang.code": "fr",
        "$inputs.empty": None,
        "$item.n[$index]": 5,
        "$item.a-b": 7,
        "$index-1": 0,
        "$index - 1 + len($item.n)": 2,
        "$steps.first-draft.output": VERDICT,
        "$steps.first-draft.output.grade.score": 0.5,
        "$steps.first-draft.output.notes[-1]": "y",
        "$steps.first-draft.output['grade']['score'] * 2": 1.0,
        "$steps.first-draft.runs[0].output.ok": False,
        "len($steps.first-draft.runs)": 2,
        "$steps.first-draft.agent": "a",
        "$steps.check.output": False,
        "$steps.search.output.hits[0].in": 3,
        "$steps.search.output.text": '{"a": 1}',
        "$steps.each.output[0].title": "A",
        "$steps.each.output[2].title": "C",
        "$steps.each.output[1]": "plain",
        "$steps.par.outputs.one.output": "1",
        "$steps.par.steps.one.output": "1",
        "$steps.par.one.output": "1",
        "$steps.par.outputs[0].output": "1",
        "$steps.par.outputs[-1].outputs[0].output.n": 2,
        "$steps.par.outputs.inner.outputs.two.output.n": 2,
        "$steps.par.outputs.inner.two.output.n": 2,
        "$steps.par.steps.inner.steps.two.output.n": 2,
        "$steps.par.outputs.inner.order": ["two"],
        "$steps.par.order": ["one", "inner"],
        "$steps.par.outputs[$index].order[0]": "two",
        "$steps.par.attempts > 2 && 'one' in $steps.par.order": True,
        "$steps.par.outputs": STEPS["par"]["outputs"],
        "$steps.odd.order": ["order"],
        "$steps.odd.outputs.order.output": "Tea.",
        '"a $steps.x }} b"': "a $steps.x }} b",
        "$steps.par.order == $steps.par.order": True,
    }
    for expression, value in cases.items():
        with subtests.test(expression):
            result = render(f"{{{{ {expression} }}}}", SCOPE)
            assert (result, type(result)) == (value, type(value))
            assert render(f"{{{{{expression}}}}}", SCOPE) == value, "without the blanks"


def test_single_template_keeps_its_type_but_mixed_text_becomes_string() -> None:
    data = {
        "n": "{{ $steps.par.attempts }}",
        "in": ["a {{ $steps.par.attempts }} b", "{{ $steps.par.order }}, {{ $steps.check.output }}", 3, None],
        "two": "{{ $prompt }}{{ $inputs.lang }}",
        "{{ $prompt }}": "{{$prompt}} ",
    }
    assert render(data, SCOPE) == {
        "n": 3,
        "in": ["a 3 b", '["one", "inner"], false', 3, None],
        "two": 'Fog{"code": "fr"}',
        "{{ $prompt }}": "Fog ",
    }
    assert render_text("{{ $steps.par.order }}", SCOPE) == '["one", "inner"]'
    assert render_text("{{ $steps.first-draft.output.grade }}é", SCOPE) == '{"score": 0.5}é'


def test_inserted_values_are_not_rendered_again() -> None:
    scope = scope_of("{{ $steps.secret.output }}")
    assert render("{{ $prompt }} and {{ $prompt }}", scope) == " and ".join(["{{ $steps.secret.output }}"] * 2)
    assert render('{{ "{{" }} $prompt }}', scope) == "{{ $prompt }}"


def test_mutating_a_rendered_value_does_not_change_step_outputs() -> None:
    value = render("{{ $steps.search.output }}", SCOPE)
    value["hits"].append("mine")
    assert len(STEPS["search"]["output"]["hits"]) == 1
    value = render("{{ $steps.first-draft.output.notes }}", SCOPE)
    value.append("mine")
    assert render("{{ $steps.first-draft.output.notes }}", SCOPE) == ["x", "y"]


@pytest.mark.req("R4.15")
def test_errors_quote_the_template_and_suggest_names(subtests: pytest.Subtests) -> None:
    cases = {
        "$steps.zzz.output": ["$steps has no output for zzz", "first-draft", "said"],
        "$steps.frst-draft.output": ["Did you mean first-draft"],
        "$steps.first-draft.output.okay": ["$steps.first-draft.output has no okay", "ok"],
        "$steps.first-draft.output.grade.scor": ["$steps.first-draft.output.grade has no scor", "score"],
        "$steps.first-draft.output.notes[7]": ["2 items", "[7]"],
        "$steps.first-draft.output.ok-1": ["no ok-1", "ok"],
        "$steps.said.output.ok": ["not JSON", "ok", "'No'", "structured_output"],
        "$steps.said": ["$steps.said.output"],
        "$steps.par": ["$steps.par.outputs"],
        "$steps.par.outputs.inner": ["$steps.par.outputs.inner.outputs"],
        "$steps.par.outputs.three.output": ["no three", "one", "inner"],
        "$steps.par.outputs[2].output": ["2 outputs", "[2]"],
        "$steps": ["$steps.ID.output"],
        "$prompt.x": ["$prompt is the string 'Fog'", "no x"],
        "$inputs.langue": ["no langue", "lang"],
        "$item.n.x": ["a list", "no x"],
        "$steps.search.output.text.a": ["the string", "no a"],
        "steps.said.output": ["there is no steps", "$steps"],
        "$step.said.output": ["there is no $step", "$steps"],
        "name": ["there is no name", "$prompt", "$inputs"],
        "__0__ + $index": ["there is no __0__"],
        "$steps.said.output > 3": ["it compares a string with a number"],
        "len($index)": ["$index is a number"],
        "open($prompt)": ["open($prompt) cannot be called"],
        "$steps.par.0.output": ["is not valid", "$steps.ID.output"],
        "$steps[": ["incomplete"],
        "$item.n[0": ["incomplete"],
        "1 +": ["incomplete", "$steps.ID.output"],
        "": ["blank"],
        "$index / 0": ["divides by zero"],
        "$item.n[$steps.gone.output]": ["no output for gone"],
        "$prompt $prompt": ["incomplete"],
        "$prompt.format": ["no format"],
        "$prompt.__class__": ["no __class__"],
        "($prompt).__class__": ["no __class__"],
    }
    for expression, words in cases.items():
        with subtests.test(expression):
            with pytest.raises(ExpressionError) as caught:
                render(f"{{{{ {expression} }}}}", SCOPE)
            said = str(caught.value)
            assert said.startswith(f"{{{{ {expression} }}}}: ")
            assert [word for word in words if word not in said] == []
            assert "__1__" not in said


def test_unterminated_template_is_reported() -> None:
    for text in ("Say {{ $prompt }", "Say {{ 'it }}", "{{"):
        with pytest.raises(ExpressionError, match="is not closed"):
            render(text, SCOPE)


def test_nesting_of_bracketed_paths_is_limited() -> None:
    assert render("{{ " + "$item[" * 8 + "$index" + "]" * 8 + " }}", scope_of(item=[0])) == 0
    for levels, says in ((45, "nested deeper than 40 levels"), (5_000, "more than 2,000")):
        with pytest.raises(ExpressionError, match=says):
            render("{{ " + "$item[" * levels + "$index" + "]" * levels + " }}", SCOPE)


def test_item_and_index_exist_only_in_a_map() -> None:
    for name in ("$item", "$index"):
        with pytest.raises(ExpressionError, match="Only the step of a map"):
            render(f"{{{{ {name} }}}}", Scope.of_inputs())
    assert render("{{ $item }}", scope_of(item=None)) is None


def test_conditions_short_circuit() -> None:
    assert truth("{{ $steps.check.output && $steps.gone.output.ok }}", SCOPE) is False
    assert truth("{{ $steps.first-draft.output.ok || $steps.gone.output.ok }}", SCOPE) is True
    with pytest.raises(ExpressionError, match="gone") as caught:
        truth("{{ $steps.first-draft.output.ok && $steps.gone.output.ok }}", SCOPE)
    assert "on_error: {continue: false}" in caught.value.hint


@pytest.mark.req("R4.12", "R4.14")
def test_conditions_accept_booleans_and_words_for_them(subtests: pytest.Subtests) -> None:
    true: list[Any] = ["true", "TRUE", " yes\n", "1", 1, True]
    false: list[Any] = ["false", "No", "0", 0, False]
    for value, expected in [*((one, True) for one in true), *((one, False) for one in false)]:
        with subtests.test(repr(value)):
            scope = Scope.of_inputs(steps={"qa": {"output": value}})
            assert truth("{{ $steps.qa.output }}", scope) is expected
            assert truth("  {{$steps.qa.output}}\n", scope) is expected
            assert truth("{{ !$steps.qa.output }}", scope) is not expected
            assert truth("{{ $steps.qa.output && true }}", scope) is expected
            assert truth("{{ false || $steps.qa.output }}", scope) is expected
    assert truth("true", Scope.of_inputs()) is True


@pytest.mark.req("R4.12", "R4.14")
def test_other_condition_values_raise_the_documented_error() -> None:
    for value in ("maybe", "", "true.", None, 2, 0.5, [], {}, "2"):
        scope = Scope.of_inputs(steps={"qa": {"output": value}})
        with pytest.raises(ExpressionError) as caught:
            truth("{{ $steps.qa.output }}", scope)
        assert caught.value.what == 'workflow: condition did not resolve to boolean: "{{ $steps.qa.output }}"'
        assert caught.value.hint


@pytest.mark.req("R4.15")
def test_json_is_found_in_an_answer_with_any_wrapping(subtests: pytest.Subtests) -> None:
    texts = {
        "alone": '{"ok": 1}',
        "fenced": '```json\n{"ok": 1}\n```',
        "fenced with prose": 'Here:\n\n```\n{"ok": 1}\n```\nDone.',
        "within prose": 'My verdict is {"ok": 1}, as {you} see [sic].',
        "twice the same": '{"ok": 1} I repeat: {"ok": 1}',
        "beside another": 'Given {"n": 2} it is {"ok": 1}.',
        "after other braces": "f(x) { return x } {" * 20 + '{"ok": 1}',
    }
    for name, text in texts.items():
        with subtests.test(name):
            assert render("{{ $steps.qa.output.ok }}", Scope.of_inputs(steps={"qa": {"output": text}})) == 1


def test_ambiguous_json_is_refused() -> None:
    scope = Scope.of_inputs(steps={"qa": {"output": 'First {"ok": true}, then {"ok": false}.'}})
    with pytest.raises(ExpressionError, match="2 JSON values with different"):
        truth("{{ $steps.qa.output.ok }}", scope)


def test_template_references_are_found_without_evaluating_them() -> None:
    text = "a {{ $steps.qa.output.ok && len($steps.par.outputs[$index].order) > 0 }} b {{ $prompt }}"
    references_found = references(text)
    assert [(one.root, one.written) for one in references_found] == [
        ("$steps", "$steps.qa.output.ok"),
        ("$steps", "$steps.par.outputs[$index].order"),
        ("$index", "$index"),
        ("$prompt", "$prompt"),
    ]
    assert [text[one.place :].startswith(one.written) for one in references_found] == [True] * 4
    assert references_found[0].parts == ("qa", "output", "ok")
    assert references("no { template } }}") == ()
    with pytest.raises(ExpressionError, match="there is no qa"):
        references("{{ qa }}")


def test_size_of_rendered_templates_is_limited() -> None:
    scope = scope_of("x" * 300_000)
    assert len(render("{{ $prompt }} {{ $prompt }}", scope)) == 600_001
    with pytest.raises(ExpressionError, match="1,000,000"):
        render(["{{ $prompt }} {{ $prompt }}"] * 2, scope)
    with pytest.raises(ExpressionError, match="nested deeper"):
        render(_deep(200), scope)


def _deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@examples(300)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one, max_size=3), max_leaves=8
    ),
    before=st.text(max_size=20).filter(lambda text: "{" not in text and "[" not in text),
)
def test_any_json_value_is_found_by_its_path(value: Any, before: str) -> None:
    text = f"{before} {json.dumps({'found': value})}"
    assert render("{{ $steps.qa.output.found }}", Scope.of_inputs(steps={"qa": {"output": text}})) == value


@examples(500)
@given(text=st.text(st.sampled_from("{}$steps.qa.output[0]'\"&|! 19-()\n") | st.characters(), max_size=60))
def test_any_template_text_is_rendered_or_refused(text: str) -> None:
    scope = Scope.of_inputs(steps={"qa": {"output": "x"}, "s": {"output": 1}}).with_names({"$prompt": text})
    for one in (text, f"{{{{ {text} }}}}", f"{{{{ $steps.{text} }}}}"):
        try:
            render(one, scope)
        except ExpressionError as error:
            assert str(error)
