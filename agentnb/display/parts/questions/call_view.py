"""The call that a question concerns, as shown in a card: command, file change and arguments, with long ones folded."""

from __future__ import annotations

from agentnb.core.questions import WaitingOnUser
from agentnb.display.markdown.markdown import highlight_code
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.texts.judged_call import CallPart, accept_advice, call_parts, undo_note
from agentnb.display.texts.labels import cut
from agentnb.display.texts.notebook_commands import in_notebook

FILL = "question"
"""The action that fills the fold of a long part; also the prefix of the fold's key."""
MAX_OF_A_QUESTION = 10_000
MAX_UNFOLDED_CHARACTERS, MAX_UNFOLDED_LINES = 600, 12
"""Maximum characters and lines of a part that are shown without opening the fold that holds the rest."""
MAX_UNFOLDED_CODE_CHARACTERS, MAX_UNFOLDED_CODE_LINES = 2_000, 24
MAX_OF_A_CALL = 2_000_000
"""Maximum characters of a part that a live card's fold gets from the kernel when it is opened."""
_TO_READ = ("command", "code", "diff", "arguments", "news")
"""The parts to read before approving. A server's description of its own tool is not among them."""
_DIFFS = ("diff", "news")
_TITLED = ("command", "code", "diff")
"""The parts that the question's title names."""
_LINES = {"+": "line-added", "-": "line-removed", "@": "line-place", "\\": "line-place"}
"""The look of a diff line, by its sign. The sign stays visible, so the colour carries no information of its own."""


def call_html(question: WaitingOnUser, index: int, *, live: bool, whole: bool) -> list[Html]:
    """Return the call that a question in a round concerns. The rest of a long part is in a fold."""
    parts = [_part(question, part, index, live=live, whole=whole) for part in call_parts(question)]
    notes = filter(None, (undo_note(question), in_notebook(accept_advice(question)) if live else ""))
    return [*[tag("div", "question-text", note) for note in notes], *parts]


def call_part_html(question: WaitingOnUser, kind: str) -> Html:
    """Return a part of the call that a question concerns, for the part's fold."""
    return join_html(*[_text(part, MAX_OF_A_CALL) for part in call_parts(question) if part.kind == (kind or "arguments")])


def unread_note(question: WaitingOnUser) -> Html:
    """Return the note on an approving button about unopened parts; opening a fold hides its note."""
    return join_html(*map(_unread_note, call_parts(question)))


def _part(question: WaitingOnUser, part: CallPart, index: int, *, live: bool, whole: bool) -> Html:
    is_titled = question.about is not None and part.kind in _TITLED
    heading = tag("div", "quiet", part.title) if part.title and not is_titled else NOTHING
    beginning = _beginning(part)
    if beginning == part.text or whole:
        return tag("div", "question-part", heading, _text(part))
    start = join_html(_text(part._replace(text=f"{beginning}…")))
    key = f"{FILL}:{question.id}" + ("" if part.kind == "arguments" else f":{part.kind}")
    title = f"Show all {len(part.text):,} characters"
    look = "question-rest" + (f" rest-{part.kind}" if part.kind in _TO_READ else "")
    if live:
        container = tag("div", "", data_fill=key)
        fold = fold_tag(look, "", title, container, data_fold=key, data_ask=FILL, data_round=str(index))
    else:
        fold = fold_tag(look, "", title, _text(part, MAX_OF_A_QUESTION))
    return tag("div", "question-part", heading, start, fold)


def _text(part: CallPart, most: int | None = None) -> Html:
    if part.kind == "code":
        return tag("pre", "question-call", highlight_code(part.text if most is None else cut(part.text, most), "python"))
    if part.kind not in _DIFFS:
        return tag("pre", "question-call", words(part.text, most))
    lines = words(part.text, most).split("\n")  # escaped, which changes no line break
    return tag("pre", "question-call", *[_diff_line(Html(line)) for line in lines])


def _diff_line(line: Html) -> Html:
    is_head = line.startswith(("--- ", "+++ "))
    look = "line-place" if is_head else _LINES.get(line[:1], "line-same")
    return tag("span", look, line, "\n")


def _beginning(part: CallPart) -> str:
    """Return the part of a text that its closed fold shows, or all of it if it is short."""
    is_of_lines = part.kind in ("code", *_DIFFS)
    characters = MAX_UNFOLDED_CODE_CHARACTERS if is_of_lines else MAX_UNFOLDED_CHARACTERS
    lines = MAX_UNFOLDED_CODE_LINES if is_of_lines else MAX_UNFOLDED_LINES
    return "\n".join(part.text[:characters].split("\n")[:lines])


def _unread_note(part: CallPart) -> Html:
    hidden = part.text.removeprefix(_beginning(part))
    if not hidden or part.kind not in _TO_READ:
        return NOTHING
    lines = hidden.strip("\n").count("\n") + 1
    amount = f"{lines:,} lines" if lines > 1 else f"{len(hidden):,} characters"
    folded = tag("span", f"unopened-{part.kind}", f" ({amount} not shown)")
    unsent = len(part.text) - MAX_OF_A_CALL
    return join_html(folded, tag("span", "", f" ({unsent:,} characters only in the log)")) if unsent > 0 else folded
