"""The personas: rates of faults, and reactions to guidance."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path

import msgspec
import pytest
from property_settings import size
from replies_by_hand import PROMPT, ask, conversation, do, reply, right, updates

import agentnb
from agentnb.core.messages import Message, Text, user
from agentnb.core.todos import open_todos
from agentnb.errors import SettingsError, UnknownModel
from agentnb.models import SimulatedModel
from agentnb.models.prices import Price
from agentnb.models.registry import make_model
from agentnb.models.simulated.personas import FAULTS, PERSONAS, USUAL_HEED, USUAL_P, options_of

SEEDS = size(200, nightly=400)


# How often


def test_faults_occur_about_as_often_as_their_probability(subtests: pytest.Subtests) -> None:
    for fault, p in [*product(FAULTS, [0.2, 0.5, 0.9])][:: size(2, nightly=1)]:
        with subtests.test(fault.persona, p=p):
            faulty = [reply(SimulatedModel(fault.persona, seed=seed, p=p)).message != right() for seed in range(SEEDS)]
            assert abs(sum(faulty) / SEEDS - p) < 0.08


def test_fault_of_probability_0_never_and_of_1_always_occurs(subtests: pytest.Subtests) -> None:
    for fault in FAULTS:
        with subtests.test(fault.persona):
            for seed in range(50):
                assert reply(SimulatedModel(fault.persona, seed=seed, p=0)).message == right()
                assert reply(SimulatedModel(fault.persona, seed=seed, p=1)).message != right()


def test_persona_with_fault_probability_0_acts_disciplined(subtests: pytest.Subtests) -> None:
    for fault in FAULTS:
        with subtests.test(fault.persona):
            assert [reply(SimulatedModel(fault.persona, p=0), at) for at in range(6)] == [
                reply(SimulatedModel(), at) for at in range(6)
            ]


def test_mixed_persona_shows_one_fault_per_reply_at_configured_rates() -> None:
    faults = Counter(reply(SimulatedModel("mixed", seed=seed)).metadata.get("fault") for seed in range(2 * SEEDS))
    for fault in FAULTS:
        assert abs(faults[fault.option] / (2 * SEEDS) - fault.mixed) < 0.05


def test_mixed_persona_accepts_a_probability_per_fault() -> None:
    zero = dict.fromkeys((fault.option for fault in FAULTS), 0.0)
    for fault in FAULTS:
        answer = reply(SimulatedModel("mixed", **{**zero, fault.option: 1.0}))
        assert answer.metadata["fault"] == fault.option
        assert answer.message == reply(SimulatedModel(fault.persona, p=1)).message
    assert reply(SimulatedModel("mixed", **zero)).message == right()


def test_same_request_gets_the_same_reply_unless_seeds_differ() -> None:
    first, again = ([reply(SimulatedModel("mixed", seed=seed)) for seed in range(40)] for _ in range(2))
    assert first == again
    assert len({one.metadata.get("fault") for one in first}) > 3


def test_each_reply_makes_a_new_random_draw() -> None:
    drawn = [tuple(bool(reply(SimulatedModel("chatty", seed=seed), at).metadata) for at in (1, 2, 3)) for seed in range(60)]
    assert len(set(drawn)) == 8


# Heeding


def test_each_fault_heeds_only_its_own_guidance_words() -> None:
    for fault in FAULTS:
        model = SimulatedModel(fault.persona, p=1, heed=1)
        for words in fault.heeds:
            answer = reply(model, reminder=f"PLEASE {' please '.join(words).upper()}!")
            assert (answer.metadata["asked"], answer.metadata["heeded"]) == (True, True)
            assert answer.message == right()
            if len(words) > 1:
                assert reply(model, reminder=words[0]).metadata["asked"] is False
        deaf = reply(model, reminder="Be good. Round 3 of 50.")
        assert (deaf.metadata["asked"], deaf.metadata["heeded"]) == (False, None)
        assert deaf.message == reply(model).message != right()


@pytest.mark.slow("hundreds of runs, to count how often")
def test_persona_heeds_guidance_at_its_configured_rate(subtests: pytest.Subtests) -> None:
    for fault, heed in product(FAULTS, [0.0, 0.3, USUAL_HEED, 1.0]):
        with subtests.test(fault.persona, heed=heed):
            reminder, seeds = " ".join(fault.heeds[0]), range(50 if heed in (0, 1) else SEEDS)
            heeded = [reply(SimulatedModel(fault.persona, seed=seed, p=1, heed=heed), reminder=reminder) for seed in seeds]
            share = sum(one.message == right() for one in heeded) / len(seeds)
            assert abs(share - heed) < 0.08 and (heed not in (0, 1) or share == heed)
            assert all((one.message == right()) == one.metadata["heeded"] for one in heeded)


def test_guidance_words_in_a_prompt_are_not_a_reminder() -> None:
    model = SimulatedModel("chatty", p=1, heed=1)
    answer = ask(model, user(f"{PROMPT}\n\nCall the tool, execute it."), tools=conversation(0, todos=False)[1])
    assert answer.metadata["asked"] is False and not answer.message.calls


def test_reminder_from_an_earlier_request_is_not_heeded_again() -> None:
    messages, tools = conversation(2)
    told = Message("user", (*messages[0].parts, Text("<system-reminder>call a tool</system-reminder>")))
    answer = ask(SimulatedModel("chatty", p=1, heed=1), told, *messages[1:], tools=tools)
    assert answer.metadata["asked"] is False


def test_list_in_a_reminder_is_not_a_plan() -> None:
    assert right(reminder="Todos:\n- Do this `add(99)`\n- and that `add(98)`") == right()


def test_forgetful_persona_that_heeds_also_marks_earlier_omissions() -> None:
    forgot = do("simulated:forgetful?p=1&heed=0")
    messages, tools = forgot.messages[:7], conversation(0)[1]
    asked = Message("tool", (*messages[-1].parts, Text("<system-reminder>Mark it completed.</system-reminder>")))
    heeding = ask(SimulatedModel("forgetful", p=1, heed=1), *messages[:-1], asked, tools=tools)
    assert updates(heeding) == [(1, "completed"), (2, "completed"), (3, "in-progress")] and heeding.metadata["heeded"]
    lucky = ask(SimulatedModel("forgetful", p=0), *messages[:-1], asked, tools=tools)
    assert updates(lucky) == [(2, "completed"), (3, "in-progress")]


def test_persona_heeding_nothing_ignores_guidance(subtests: pytest.Subtests) -> None:
    for fault in FAULTS:
        with subtests.test(fault.persona):
            words = " ".join(word for alternatives in fault.heeds for word in alternatives)
            for rounds in range(6):
                model = SimulatedModel(fault.persona, seed=rounds, p=0.6, heed=0)
                assert reply(model, rounds).message == reply(model, rounds, reminder=words).message


def test_always_heeding_persona_closes_the_list_on_request(subtests: pytest.Subtests) -> None:
    for persona in ["forgetful", "early-stopper"]:
        with subtests.test(persona):
            deaf = do(f"simulated:{persona}?p=1&heed=0", guidance="matrix")
            assert deaf.stop_reason == "todo_intervention_exhausted" and open_todos(deaf.todos)
            heeding = do(f"simulated:{persona}?p=1&heed=1", guidance="matrix", max_rounds=30)
            assert (heeding.stop_reason, open_todos(heeding.todos)) == ("natural", ())


# Recorded decisions


def test_fault_decision_is_recorded_with_the_reply() -> None:
    model = SimulatedModel("chatty", p=1, heed=1)
    metadata = reply(model, reminder="call a tool").metadata
    assert {key: metadata[key] for key in ("persona", "fault", "asked", "heeded")} == {
        "persona": "chatty",
        "fault": "chat",
        "asked": True,
        "heeded": True,
    }
    assert set(metadata) == {"persona", "fault", "asked", "heeded", "draw", "heed"}
    assert all(0 <= metadata[key] <= 1 and round(metadata[key], 4) == metadata[key] for key in ("draw", "heed"))
    assert msgspec.json.decode(msgspec.json.encode(metadata)) == metadata
    run = do(model, guidance="matrix")
    assert [round_.metadata.get("fault") for round_ in run.rounds if round_.metadata] == ["chat"] * 4


def test_reply_without_a_fault_records_no_decision() -> None:
    assert reply(SimulatedModel()).metadata == {} == reply(SimulatedModel("chatty", p=0)).metadata
    assert reply(SimulatedModel("mixed", stop=1, forget=0, chat=0, loop=0, plan=0), 1).metadata == {}


# Names and options


def test_name_with_nondefault_options_recreates_the_model(subtests: pytest.Subtests) -> None:
    cases = [
        (SimulatedModel("forgetful"), "simulated:forgetful"),
        (SimulatedModel("forgetful", seed=3, heed=0.5, p=0.75), "simulated:forgetful?seed=3&heed=0.5&p=0.75"),
        (SimulatedModel("chatty", p=0.5, heed=USUAL_HEED, seed=0), "simulated:chatty"),
        (SimulatedModel("mixed", loop=1 / 3, forget=0), f"simulated:mixed?forget=0&loop={1 / 3!r}"),
        (SimulatedModel("disciplined", seed=-7), "simulated:disciplined?seed=-7"),
        (SimulatedModel("chatty", seed=1, price=Price.parse("3/15")), "simulated:chatty?seed=1&price=3/15"),
        (SimulatedModel("disciplined", price=Price.parse("0.1/0.5/0/1")), "simulated:disciplined?price=0.1/0.5/0/1"),
        (SimulatedModel("disciplined", price=Price.parse("0")), "simulated:disciplined"),
    ]
    for model, name in cases:
        with subtests.test(name):
            again = make_model(name)
            assert model.name == name == again.name
            assert isinstance(again, SimulatedModel)
            assert [reply(model, at) for at in range(6)] == [reply(again, at) for at in range(6)]


def test_invalid_option_error_names_the_alternatives(subtests: pytest.Subtests) -> None:
    cases = [
        ("forgetful?luck=1", "simulated:forgetful?seed=0&heed=0.7&p=0.5&delay=0&price=0"),
        ("disciplined?p=1", "simulated:disciplined?seed=0&heed=0.7&delay=0&price=0"),
        ("mixed?p=1", "?seed=0&heed=0.7&forget=0.2&chat=0.2&loop=0.1&plan=0.1&stop=0.1&delay=0&price=0"),
        ("chatty?forget=1", "simulated:chatty has no option 'forget'"),
        ("chatty?p=often", "p='often' of simulated:chatty must be a number"),
        ("chatty?p=", "p='' of simulated:chatty must be a number"),
        ("chatty?seed=1.5", "seed='1.5' of simulated:chatty must be a whole number"),
        ("chatty?p=1.1", "p=1.1 of simulated:chatty must be between 0 and 1"),
        ("chatty?heed=-0.1", "heed=-0.1 of simulated:chatty must be between 0 and 1"),
        ("chatty?heed=nan", "heed=nan of simulated:chatty must be between 0 and 1"),
        ("mixed?forget=0.9", "The fault probabilities of simulated:mixed add up to 1.4"),
        ("forgetfull", "simulated has no persona 'forgetfull'. Did you mean forgetful"),
    ]
    for name, said in cases:
        with subtests.test(name):
            with pytest.raises(UnknownModel) as caught:
                make_model(f"simulated:{name}")
            assert said in str(caught.value)


def test_options_passed_in_python_are_validated_too(subtests: pytest.Subtests) -> None:
    cases = [{"seed": "1"}, {"seed": True}, {"seed": 1.0}, {"p": "x"}, {"heed": None}, {"luck": 1}, {"price": "3/15"}]
    for given in cases:
        with subtests.test(given=given):
            with pytest.raises(UnknownModel):
                SimulatedModel("chatty", **given)


def test_error_for_an_invalid_price_shows_the_syntax(subtests: pytest.Subtests) -> None:
    for price in ["3", "-3/15", "three/15", ""]:
        with subtests.test(price):
            with pytest.raises(
                SettingsError, match=r"is not a price\. Write US dollars per million tokens: input/output as 3/15"
            ):
                make_model(f"simulated:chatty?price={price}")


def test_default_option_given_explicitly_makes_the_default_model() -> None:
    for persona in PERSONAS:
        with pytest.raises(UnknownModel) as caught:
            make_model(f"simulated:{persona}?luck=1")
        assert make_model(caught.value.hint.rpartition(" ")[2]).name == f"simulated:{persona}"


# Documentation


def table() -> dict[str, list[str]]:
    """The rows of the table in docs/personas.md, by persona."""
    text = (Path(agentnb.__file__).parents[1] / "docs" / "personas.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_documentation_describes_the_personas() -> None:
    rows = table()
    assert list(rows) == [fault.persona for fault in FAULTS]
    for fault in FAULTS:
        option, p, mixed, looks, heeds = rows[fault.persona]
        assert (option.strip("`"), float(p), float(mixed)) == (fault.option, USUAL_P, fault.mixed)
        assert options_of(fault.persona)["p"] == USUAL_P and options_of("mixed")[fault.option] == fault.mixed
        assert len(looks.split()) > 5
        assert tuple(tuple(re.findall(r'"([^"]+)"', way)) for way in heeds.split(";")) == fault.heeds


def test_documentation_distinguishes_personas_from_language_models() -> None:
    text = (Path(agentnb.__file__).parents[1] / "docs" / "personas.md").read_text(encoding="utf-8")
    assert "not language models" in text and "say nothing about real ones" in text
