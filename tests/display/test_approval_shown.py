"""The question about a tool call in a card: the command, the change, what each answer allows."""

from __future__ import annotations

import re
from html import unescape

import pytest
from asserted_sentences import Snapshot
from hostile import BREAKS, SCRIPTS, check_is_harmless
from shown_words import words_in
from some_approvals import BASH, CASES, CODE, DIFF, OF_SERVER, OFFERS, approval
from some_questions import run_of

from agentnb.cli.workflow_runs import _how_to_answer
from agentnb.core.log import events as e
from agentnb.core.questions import REACHES, AskedQuestion, GrantOffer, check_answer
from agentnb.display.card.text import run_text
from agentnb.display.form import Form
from agentnb.display.parts.questions.call_view import call_part_html
from agentnb.display.parts.questions.question import question_html
from agentnb.display.parts.questions.schema_form import HIDDEN_KEY, form_html
from agentnb.display.texts.judged_call import call_text
from agentnb.display.texts.question_labels import answer_told, listed_choices, typed_answers


def buttons(html: str) -> list[str]:
    return [" ".join(unescape(re.sub(r"<[^>]+>", "", one)).split()) for one in re.findall("<button.*?</button>", html)]


SENTENCE = re.compile(r'<div( hidden)? data-calls="([^"]*)" data-reach="([^"]*)"[^>]*>(.*?)</div>')


def test_command_is_shown_as_a_block_before_other_arguments() -> None:
    html = question_html(CASES["command"], Form(live=True))
    blocks = [words_in(one) for one in re.findall("<pre.*?</pre>", html, re.DOTALL)]
    assert blocks == ["git status··-s", "Other arguments of bash: timeout: 5"] and words_in(html).startswith(
        "Run a command May bash run?"
    )
    alone = question_html(approval({"command": "ls"}, command="ls"), Form(live=True))
    assert len(re.findall("<pre", alone)) == 1, "a command that is the only argument is shown once"


def test_approval_title_names_a_file_that_may_hold_keys(subtests: pytest.Subtests) -> None:
    cases = {
        "Read .env": approval({"path": ".env"}, tool="read_file", effects="read"),
        "Call look": approval({"path": ".env"}, tool="look", effects="read"),
        "Run a command that uses conf/.env, which may contain keys": approval({"command": "x"}, command="cat conf/.env a.txt"),
        "Run a command": approval({"command": "x"}, command="cat notes.txt"),
    }
    for title, case in cases.items():
        with subtests.test(title):
            html = words_in(question_html(case, Form(live=True)))
            assert html.startswith(f"{title} May ")
            assert ("which may contain keys:\n" in call_text(case.question)) == ("which may contain keys" in title)
    grants = (GrantOffer("bash(cat .env)"),)
    command = approval({"command": "cat .env"}, command="cat .env", grants=grants)
    assert "always: cat .env, in this run" in listed_choices(command.question), "the command, not that file with anything"
    assert "only this command: cat .env" in question_html(command, Form(live=True))
    assert "Another pattern…" in question_html(command, Form(live=True))


def test_diff_is_coloured_by_line_and_keeps_its_signs() -> None:
    html = question_html(CASES["diff"], Form(live=True))
    lines = [(kind, unescape(line)) for kind, line in re.findall(r'<span class="agentnb-(line-\w+)">(.*?)\n</span>', html)]
    assert lines == [
        ("line-place", "--- a/note.py"),
        ("line-place", "+++ b/note.py"),
        ("line-place", "@@ -1,3 +1,3 @@"),
        ("line-same", " def note():"),
        ("line-removed", '-    return "<b>old</b>"'),
        ("line-added", '+    return "<script>new</script>"'),
        ("line-same", " # end"),
    ]


def test_warning_about_an_irreversible_change_precedes_the_change(snapshot: Snapshot) -> None:
    lasting, other = (approval({"path": "a.py"}, tool="write", diff=DIFF, cannot_undo=one) for one in (True, False))
    note, *rest = call_text(lasting.question).split("\n")
    assert note == snapshot and "\n".join(rest) == call_text(other.question)
    for live in (True, False):
        html = words_in(question_html(lasting, Form(live=live)))
        assert html.index(note) < html.index("--- a/note.py")
        assert "undone" not in words_in(question_html(other, Form(live=live)))


def test_arguments_visible_in_the_diff_are_not_repeated() -> None:
    diff = "--- /dev/null\n+++ a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    (case,) = [approval({"path": "a.py", "content": "one\ntwo\n"}, tool="write", diff=diff)]
    assert "path" not in call_text(case.question) and call_text(case.question).count("two") == 1, "the diff names the file"
    other = approval({"path": "a.py", "content": "one\nthree\n"}, tool="write", diff=diff)
    assert "path: a.py\n  content: \n    one\n    three" in call_text(other.question), "what the diff does not hold is shown"
    assert words_in(question_html(case, Form(live=True))).startswith("Create a.py May write run?")


def test_arguments_equal_to_the_code_and_tool_names_are_shown() -> None:
    (case,) = [approval({"code": "deploy", "target": "deploy"}, tool="release", effects="execute")]
    assert "target: deploy" in call_text(case.question)
    assert words_in(question_html(case, Form(live=True))).startswith("Run code with release")
    (remote,) = [approval({"command": "rm -rf x"}, tool="remote_bash", effects="execute", command="rm -rf x")]
    assert words_in(question_html(remote, Form(live=True))).startswith("Run a command with remote_bash")


def test_code_is_a_highlighted_block_that_keeps_its_indentation() -> None:
    html = question_html(CASES["code"], Form(live=True))
    assert words_in(html).startswith("Run Python in your kernel May run_python run?")
    (block,) = re.findall("<pre.*?</pre>", html, re.DOTALL)
    code = unescape(re.sub(r"<[^>]+>", "", block))
    assert code == CODE.replace("  #", "··#")
    assert 'class="agentnb-code-keyword">for<' in block, "colours"


def test_answers_are_in_one_row_above_options_for_later_calls(subtests: pytest.Subtests) -> None:
    note = " (80 lines not shown)"
    row = {
        "command": ["Approve", "Reject…", "Edit", "Later", "Also allow later calls", "Reject", "Approve and allow"],
        "server": [
            f"Approve{note}",
            "Reject…",
            "Edit",
            "Later",
            "Also allow later calls",
            "Reject",
            f"Approve and allow{note}",
        ],
        "key file": ["Approve", "Reject…", "Edit", "Later", "Also allow later calls", "Reject", "Approve and allow"],
        "external agent": ["Approve", "Reject…", "Edit", "Later", "Also allow later calls", "Reject", "Approve and allow"],
        "code": ["Approve", "Reject…", "Edit", "Later", "Reject"],
        "own gate": ["Approve", "always", "Reject…", "Edit", "Later", "Reject"],
    }
    for name, labels in row.items():
        with subtests.test(name):
            html = question_html(CASES[name], Form(live=True), may_wait=True)
            assert buttons(html) == labels
            opened, folds = (re.findall(f'data-{one}="([^"]*)"', html) for one in ("opens", "fold"))
            assert set(opened) <= set(folds), "each button opens a fold of the question"
    with subtests.test("which cannot wait"):
        assert "Later" not in buttons(question_html(CASES["command"], Form(live=True)))


def test_each_option_for_later_calls_is_explained_in_a_sentence(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    offers = {
        "path": ("write", (*[GrantOffer("write(src/**)", reach) for reach in REACHES], GrantOffer("write"))),
        "folder": ("write", (GrantOffer("write(~/*)"),)),
        "file": ("read_file", (GrantOffer("read_file(/w/notes.md)"),)),
        "address": ("web_fetch", (GrantOffer("web_fetch(https://a.example/**)"),)),
    }
    cases = CASES | {name: approval({}, tool=tool, grants=grants) for name, (tool, grants) in offers.items()}
    for name in ("command", "server", "key file", "external agent", *offers):
        with subtests.test(name):
            html = question_html(cases[name], Form(live=True))
            sentences = [
                (unescape(rule), reach, unescape(words), bool(hidden)) for hidden, rule, reach, words in SENTENCE.findall(html)
            ]
            assert [f"{rule} ({reach}): {words}" for rule, reach, words, _ in sentences] == snapshot(name)
            assert [hidden for *_, hidden in sentences] == [False, *[True] * (len(sentences) - 1)]
            chosen = re.findall('<select[^>]*name="calls".*?</select>', html)[0]
            rules = [unescape(one) for one in re.findall('<option value="([^"]*)"', chosen)]
            assert rules == list(dict.fromkeys(rule for rule, *_ in sentences)), "the narrowest first"


def test_each_long_part_is_folded_with_its_own_note(snapshot: Snapshot) -> None:
    case = CASES["long"]
    html = question_html(case, Form(live=True))
    keys = re.findall('<details class="agentnb-question-rest[^>]*data-fold="([^"]*)"', html)
    assert keys == ["question:q1:command", "question:q1:diff", "question:q1"] and len(html) < 12_000
    assert buttons(html)[0] == snapshot
    assert call_part_html(case.question, "diff").count("line-added") == 901
    assert call_part_html(case.question, "command").count("ls") == 2_000


def test_saved_question_lists_the_offered_answers(snapshot: Snapshot) -> None:
    for name in ("command", "external agent"):
        html = question_html(CASES[name], Form())
        assert not re.search("<(button|form|select|textarea|input)", html)
        listed = listed_choices(CASES[name].question)
        assert listed == snapshot(name)
        assert listed in words_in(html)
        run = run_of((e.QuestionAsked, {"question": CASES[name].question}))
        for text in (run_text(run), _how_to_answer(run, ())[0]):
            assert "(approve, always, deny)" in text and listed not in text, "a short line; the commands are listed apart"


def test_typed_answers_on_display_are_accepted() -> None:
    own = [GrantOffer(words, "agent") for words in ("Always allow", "Always, for git (all)")]
    for name, offers in {"command": OFFERS, "server": OF_SERVER, "external agent": (*OFFERS, *own)}.items():
        question = CASES[name].question
        lines = typed_answers(question)
        assert lines[1:] == [*(f"always in {one.reach}: {one.rule}" for one in offers), "deny: REASON"]
        assert [check_answer(question.schema, line) for line in lines] == lines


def test_answered_question_states_what_was_allowed(subtests: pytest.Subtests) -> None:
    cases = [
        ({"always": "bash(git *)", "reach": "run"}, "You approved, and all later calls that match git * in this run"),
        ({"always": "bash", "reach": "run"}, "You approved, and all later calls of bash in this run"),
        ("always", "You approved, and all later calls that match git status * in this run"),
        ("always in session", "You approved, and all later calls that match git status * until the kernel ends"),
        ("always in project: bash(git *)", "You approved, and all later calls that match git * in this project, saved"),
        ({"edit": {"command": "ls"}}, 'You approved with other arguments: command="ls"'),
        ({"deny": "not now"}, "You rejected: “not now”"),
        ("deny: not now", "You rejected: “not now”"),
        ("deny", "You rejected"),
        (False, "You rejected"),
        ("approve", "You approved"),
        ({"always": "Always allow", "reach": "agent"}, "You approved; opencode remembers it: 'Always allow'"),
        ("always in agent", "You approved; opencode remembers it: 'Always allow'"),
        ("always in agent: Always, for git (all)", "You approved; opencode remembers it: 'Always, for git (all)'"),
    ]
    for answer, told in cases:
        with subtests.test(str(answer)):
            asked = AskedQuestion(question=CASES["external agent"].question, round=0, outcome="answered", answer=answer)
            html = question_html(asked, Form())
            assert answer_told(asked) == told
            assert words_in(re.findall("<summary>(.*?)</summary>", html)[0])[2:] == told, "one line, behind a mark"


def test_answer_about_a_server_tool_states_its_scope(snapshot: Snapshot) -> None:
    for answer in ("always", "always in session", {"always": "mcp:fs"}, {"always": "mcp_fs_read", "reach": "session"}):
        asked = AskedQuestion(question=CASES["server"].question, round=0, outcome="answered", answer=answer)
        assert answer_told(asked) == snapshot(str(answer))


def test_server_text_is_labelled_and_never_becomes_markup(snapshot: Snapshot) -> None:
    case = CASES["server"]
    html = question_html(case, Form(live=True))
    check_is_harmless(html)
    assert [words_in(one) for one in re.findall('<div class="agentnb-quiet">(.*?)</div>', html)] == snapshot("titles")
    assert words_in(re.findall('<div class="agentnb-question-text">(.*?)</div>', html)[1]) == snapshot("note")
    assert "<img" not in html and "<script" not in html
    changed = call_part_html(case.question, "news")
    assert changed.count("line-added") == 100 and changed.count("line-removed") == 1
    assert "onerror" in unescape(call_part_html(case.question, "description"))
    lines = call_text(case.question).split("\n")
    assert [line for line in lines if not line.startswith("    ")] == snapshot("text")


def test_edit_form_has_a_field_for_each_argument_value() -> None:
    html = form_html(CASES["diff"].question)
    assert 'type="text" value="note.py"' in html
    assert "<textarea" in html and "<fieldset" in html and 'value="&quot;w&quot;"' in html and "How to write" in html
    assert words_in(html).count("(required)") == 2 and "Approve with these arguments" in words_in(html)
    assert HIDDEN_KEY not in html and HIDDEN_KEY in unescape(form_html(approval({"command": "x [key]"}, schema=BASH).question))


def test_calls_and_schemas_never_become_markup(subtests: pytest.Subtests) -> None:
    for text in [one.text[:1_000] for one in (*SCRIPTS, *BREAKS)]:
        with subtests.test(text[:60]):
            field = {"type": "string", "title": text, "description": text, "enum": [text]}
            schema = {"type": "object", "properties": {text[:90] or "a": field, "b": {"type": "string"}}}
            grants = (GrantOffer(text or "a"), GrantOffer(f"a({text})"))
            own = {"agent_words": (text or "a",)}
            case = approval({"b": text}, tool=text or "a", command=text, diff=f"+{text}", grants=grants, **own)
            check_is_harmless(question_html(case, Form(live=True)))
            check_is_harmless(form_html(approval({"b": text}, schema=schema).question))


def test_hostile_diff_cannot_fake_additional_lines() -> None:
    html = question_html(approval({}, tool="write", diff=f"{DIFF}+a\u2028-b\r+c\x1b[2J"), Form(live=True))
    assert "+a⟨U+2028⟩-b⟨U+000D⟩+c⟨U+001B⟩[2J" in html


def test_text_of_a_waiting_run_lists_answers_to_type(snapshot: Snapshot) -> None:
    run = run_of((e.QuestionAsked, {"question": CASES["command"].question}))
    assert run_text(run).splitlines()[-6:] == snapshot
