"""Clear answers to a draft: yes, no or neither."""

from __future__ import annotations

import pytest

from agentnb.chat.plans.clear_words import LANGUAGES, MAX_OF_A_MESSAGE, clear_word

SAID = {
    "yes": (
        *(
            "Yes",
            "yes.",
            "YES!!",
            "  yes\n",
            "y",
            "OK",
            "okay, run it",
            "Yes, run it",
            "yes please",
            "Yes, go ahead",
            "Go ahead",
        ),
        *("yes - run the plan", "Please run it now, thanks!", "ok ok", "Approved.", "Ja, bitte ausführen", "Mach das!"),
        *(
            "Führe den Plan bitte aus.",
            "Ja, danke schön",
            "Oui, lance-le s\u2019il te plaît",
            "d'accord",
            "¡Sí, adelante!",
            "Ejecútalo, por favor",
        ),
    ),
    "no": (
        *(
            "No",
            "no!",
            "n",
            "NO.",
            "No! Do not run it.",
            "No, don\u2019t!",
            "dont run it",
            "No thanks",
            "Stop.",
            "Cancel it, please",
        ),
        *(
            "no, no, no",
            "Never mind",
            "Please do not run it",
            "Nein, danke",
            "Mach es nicht",
            "Bitte nicht ausführen",
            "Non merci",
        ),
        *("Ne lance pas le plan", "n\u2019exécute pas le plan", "No lo ejecutes", "No, para"),
    ),
    "": (
        *("", " ", "!!!", "no problem, run it", "no-problem run it", "No, go ahead", "yes no", "Yes. No.", "ok, cancel it"),
        *("Yes, but leave out step 2", "But leave out step 2", "Yes to step 1", "Run it, no", "yes?", "Shall I say yes", "Hm"),
        *(
            "don't stop",
            "Do not cancel",
            "yesterday",
            "nothing",
            "now",
            "thanks",
            "Please",
            "not yet",
            "Wait",
            "Yes 👎",
            "yes\u200b no",
        ),
        *("Yes\u202eon", '"yes"', "Again", "run it only if it is free", f"yes{' yes' * MAX_OF_A_MESSAGE}", "y\u200bes"),
    ),
}


def test_only_an_unqualified_yes_or_no_is_clear(subtests: pytest.Subtests) -> None:
    for word, texts in SAID.items():
        for text in texts:
            with subtests.test(text):
                assert clear_word(text) == word


def test_each_phrase_has_only_one_clear_meaning() -> None:
    for language in LANGUAGES.values():
        for word, fields in {"yes": (language.yes, language.run), "no": (language.no, language.stop)}.items():
            phrases = [
                phrase.replace("*", it) for field in fields for phrase in field.split("|") for it in language.it.split("|")
            ]
            assert {clear_word(phrase) for phrase in phrases} == {word}
        assert {clear_word(phrase) for phrase in language.polite.split("|")} == {""}
