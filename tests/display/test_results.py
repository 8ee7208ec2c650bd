"""The result of a tool as HTML."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

import PIL.Image
import pytest
from msgspec.structs import replace

from agentnb.core.display_data import Table
from agentnb.core.messages import Image, Text, ToolCall, ToolResult
from agentnb.core.run.rounds import CallRecord
from agentnb.display.form import Form
from agentnb.display.parts.data_table import MAX_INDENTED_LEVELS, pretty
from agentnb.display.parts.tool_results import arguments_html, result_html

WHERE = "run.rounds[3].results[0].text"
TABLE = Table(("species", "mass", "n"), ((0, "Adelie", 3700.66225, 152), (1, "Gentoo", 5076.0, None)), 344, 3, ("row",), gap=1)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details><iframe src=x>",
    "<svg onload=alert(1)>",
    "[x](javascript:alert(1))",
    "{{constructor}}",
]


class Element:
    """An element with its content."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name, self.attributes, self.content = name, attributes, list[Any]()

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    def all(self, name: str) -> Iterator[Element]:
        for part in self.content:
            if isinstance(part, Element):
                if part.name == name:
                    yield part
                yield from part.all(name)

    def names(self) -> set[str]:
        return {self.name}.union(*(part.names() for part in self.content if isinstance(part, Element)))


class Tree(HTMLParser):
    """The elements of a text; checks that each is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]
        self.feed(html)
        self.close()
        assert self.open == [self.root], html

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].content.append(element)
        if tag != "img":
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def tree(html: str) -> Element:
    return Tree(html).root


def record(*parts: Text | Image | str, display: Table | None = None, traceback: str = "", **how: Any) -> CallRecord:
    """Return a call with this result."""
    told = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    result = ToolResult("call-1", "look", told, **how)
    return CallRecord(ToolCall("look", {}, "call-1"), result, display=display, traceback=traceback)


def shown(*parts: Text | Image | str, **how: Any) -> Element:
    return tree(result_html(record(*parts, **how), Form()))


def rows_of(root: Element) -> list[list[str]]:
    return [[cell.text for cell in row.content] for row in root.all("tr")]


def picture(kind: str = "PNG", width: int = 40) -> bytes:
    file = BytesIO()
    PIL.Image.new("RGB", (width, 30), "red").save(file, kind)
    return file.getvalue()


@pytest.mark.req("R0.73")
def test_table_is_shown_with_its_size_and_folded_text() -> None:
    root = shown("DataFrame, 344 x 3\nthe words", display=TABLE)
    assert rows_of(root) == [
        ["row", "species", "mass", "n"],
        ["0", "Adelie", "3700.66", "152"],
        ["… 342 rows left out …"],
        ["1", "Gentoo", "5076.00", "–"],  # noqa: RUF001
    ]
    assert "2 of 344 rows, 3 columns shown" in root.text
    (fold,) = root.all("details")
    assert "open" not in fold.attributes and "the words" in fold.text
    assert [element.name for element in next(root.all("table")).content] == ["thead", "tbody"]


def test_numbers_and_row_labels_of_a_table_are_styled() -> None:
    root = shown("words", display=TABLE)
    last = list(root.all("tr"))[-1].content
    kinds = [element.attributes["class"].replace("agentnb-data-", "") for element in last]
    assert kinds == ["cell number index", "cell", "cell number", "cell number gap"]
    assert [element.name for element in last] == ["th", "td", "td", "td"]
    heads = [element.attributes for element in next(root.all("thead")).all("th")]
    assert ["number" in head["class"] for head in heads] == [True, False, True, True]
    assert {head["scope"] for head in heads} == {"col"}


def test_complete_table_shows_only_its_size() -> None:
    assert "1 row, 1 column" in shown("x", display=Table(("a",), ((1,),), 1, 1)).text
    text = shown("x", display=Table(("a",), ((1,),), 1, 30)).text
    assert "1 row, 1 of 30 columns shown" in text


def test_column_numbers_have_the_same_decimals(subtests: pytest.Subtests) -> None:
    cases = [
        ([1.5, 20.25], ["1.50", "20.25"]),
        ([1, 2007], ["1", "2007"]),
        ([0.1234567891, 0.5], ["0.123457", "0.500000"]),
        ([1e-9, 1.5], ["1e-09", "1.5"]),
        ([1e20, 0.0], ["1e+20", "0"]),
        ([True, None], ["True", "–"]),  # noqa: RUF001
        (["inf", 1.0], ["inf", "1"]),
    ]
    for column, texts in cases:
        with subtests.test(column=column):
            root = shown("x", display=Table(("a",), tuple((cell,) for cell in column), 2, 1))
            assert [row[0] for row in rows_of(root)[1:]] == texts


def test_table_with_missing_cells_is_shown_as_far_as_possible() -> None:
    assert rows_of(shown("x", display=Table((), (), 0, 0))) == []
    assert rows_of(shown("x", display=Table(("a", "b"), ((1, 2), (1,)), 2, 2))) == [["a"], ["1"], ["1"]]


def test_list_of_uniform_flat_objects_is_shown_as_table() -> None:
    data = [{"name": "a", "mass": 1.5}, {"name": "<b>", "mass": None}]
    root = shown(json.dumps(data))
    assert rows_of(root) == [["name", "mass"], ["a", "1.5"], ["<b>", "–"]]  # noqa: RUF001
    assert "2 rows, 2 columns" in root.text


def test_other_data_is_indented_and_complete(subtests: pytest.Subtests) -> None:
    cases = [
        [{"a": 1}],
        [{"a": 1}] * 31,
        [{"a": 1}, {"b": 1}],
        [{"a": 1}, {"a": [1]}],
        [{"a": 1}, {"a": "long " * 100}],
        [{}, {}],
        [1, 2],
        {"a": 1},
        [{str(n): n for n in range(21)}] * 2,
    ]
    for data in cases:
        with subtests.test(data=data):
            root = shown(json.dumps(data))
            assert "table" not in root.names()
            (block,) = root.all("pre")
            assert json.loads(block.text) == data


def test_only_long_data_is_spread_over_several_lines() -> None:
    assert shown('{"a":1}').text == '{"a": 1}'
    assert shown('{"a":"%s","b":[1]}' % ("x" * 80)).text.splitlines()[1:3] == [f'  "a": "{"x" * 80}",', '  "b": [']


def test_malformed_data_is_shown_as_text(subtests: pytest.Subtests) -> None:
    for text in ["{not json", "[" * 5_000, '{"a": "\\ud800"}', "[1" + "0" * 5_000 + "]", "1.50", '"x"']:
        with subtests.test(text=text):
            html = result_html(record(text), Form(whole=True))
            html.encode()
            assert tree(html).text.rstrip()
    assert [shown(text).text.strip() for text in ("1.50", "1e3", '"x"', "null")] == ["1.50", "1e3", '"x"', "null"]


def test_omitted_rows_are_marked_between_rows_only() -> None:
    for gap, rows in {0: 3, 1: 4, 2: 3}.items():
        assert len(rows_of(shown("", display=replace(TABLE, gap=gap)))) == rows


def test_result_text_keeps_whitespace_and_is_not_rendered_as_markdown() -> None:
    text = "# a  b\n**1**  <b>2</b>\n- [x](https://example.org)"
    root = shown(text)
    (block,) = root.all("pre")
    assert block.text == text and root.names() == {"", "pre"}


def test_empty_text_is_labelled_empty() -> None:
    assert shown("").text == shown().text == shown(" \n").text == "(empty text)"


def test_running_call_shows_no_result() -> None:
    assert result_html(CallRecord(ToolCall("look")), Form()) == ""


def test_picture_has_its_description_as_caption(subtests: pytest.Subtests) -> None:
    for kind in ["PNG", "JPEG", "GIF", "WEBP"]:
        with subtests.test(kind=kind):
            data = picture(kind)
            root = shown("Look:\na picture of 40 x 30 pixels", Image("text/html", data))
            (image,) = root.all("img")
            source, _, encoded = image.attributes["src"].partition(",")
            assert source == f"data:image/{kind.lower()};base64" and b64decode(encoded) == data
            assert image.attributes["alt"] == next(root.all("figcaption")).text == "a picture of 40 x 30 pixels"
            assert [block.text for block in root.all("pre")] == ["Look:"]


def test_text_beside_a_picture_becomes_its_alt_text() -> None:
    root = shown("a map of the bay", Image("image/png", picture()))
    assert next(root.all("img")).attributes["alt"] == "a map of the bay"
    assert [block.text for block in root.all("pre")] == ["a map of the bay"] and "figcaption" not in root.names()


def test_picture_is_replaced_by_its_description_when_pictures_are_off() -> None:
    html = result_html(record("a figure of 1 x 1 pixels", Image("image/png", picture())), Form(pictures=False))
    assert "<img" not in html and tree(html).text == "a figure of 1 x 1 pixels"


def test_bytes_that_are_not_a_picture_are_not_shown(subtests: pytest.Subtests) -> None:
    for data in [b"png", b"<svg onload=x>", b"", picture()[:60]]:
        with subtests.test(data=data):
            html = result_html(record("a picture", Image('image/png"onerror="x', data)), Form())
            assert "<img" not in html and "onerror" not in html and "svg" not in html and "a picture" in html


def test_table_and_picture_of_one_result_are_both_shown() -> None:
    root = shown("DataFrame\na figure of 4 x 3 pixels", Image("image/png", picture()), display=TABLE)
    assert len(list(root.all("table"))) == len(list(root.all("img"))) == len(list(root.all("details"))) == 1
    assert [block.text for block in root.all("pre")] == ["DataFrame"]


def test_failure_shows_its_message_first_and_folds_the_traceback() -> None:
    root = shown("ValueError: boom", traceback='Traceback\n  File "x.py"', is_error=True, error_code="tool_error")
    assert [element.name for element in root.content] == ["pre", "details"]
    assert root.content[0].text == "ValueError: boom" and "tool-problem" in root.content[0].attributes["class"]
    fold = root.content[1]
    assert "open" not in fold.attributes and 'File "x.py"' in fold.text and "Traceback of your code" in fold.text


LONG = "\n".join(f"line {number:05}" for number in range(11_000))


@pytest.mark.req("R0.73")
def test_long_text_is_truncated_in_the_middle_with_a_button() -> None:
    html = result_html(record(LONG), Form(live=True), where=WHERE)
    first, last = [block.text for block in tree(html).all("pre")]
    assert LONG.startswith(first + "\n") and LONG.endswith("\n" + last)
    assert first.splitlines()[-1].startswith("line ") and len(first.splitlines()[-1]) == 10
    assert 3_500 < len(first) + len(last) <= 4_000
    (button,) = tree(html).all("button")
    assert button.text == f"Show all {len(LONG):,} characters"
    assert button.attributes["data-do"] == "all" and button.attributes["data-call"] == "call-1"
    assert f"{len(LONG) - len(first) - len(last):,} characters left out" in html and WHERE not in html


def test_truncated_text_without_buttons_says_where_to_find_the_rest() -> None:
    html = result_html(record(LONG), Form(), where=WHERE)
    assert "<button" not in html and f"{WHERE} has the full text" in tree(html).text


def test_full_text_is_returned_on_request() -> None:
    (block,) = tree(result_html(record(LONG), Form(whole=True, live=True), where=WHERE)).all("pre")
    assert block.text == LONG
    most = result_html(record("x" * 2_100_000), Form(whole=True, live=True), where=WHERE)
    assert len(most) < 2_001_000 and "100,000 characters left out" in most and "<button" not in most


def test_long_line_is_truncated_within_the_line() -> None:
    first, last = [block.text for block in shown("x" * 5_000).all("pre")]
    assert (len(first), len(last)) == (3_000, 1_000)
    assert len(list(shown("x" * 4_000).all("pre"))) == 1


def test_long_traceback_is_truncated_and_says_where_to_find_it() -> None:
    html = result_html(record("boom", traceback=LONG, is_error=True), Form(), where=WHERE)
    assert "run.rounds[3].records[0].traceback has the full text" in tree(html).text


def test_hostile_text_is_escaped_everywhere(subtests: pytest.Subtests) -> None:
    for hostile in HOSTILE:
        with subtests.test(hostile=hostile):
            table = Table((hostile,), ((hostile, hostile),), 1, 1, (hostile,))
            results = [
                record(hostile, display=table),
                record(hostile, traceback=hostile, is_error=True, error_code=hostile),
                record(json.dumps([{hostile: hostile}] * 2)),
                record(json.dumps({hostile: [hostile] * 9})),
                record(hostile, Image(hostile, picture())),
                record(f"a picture of {hostile}", Image("image/png", picture())),
            ]
            for result in results:
                root = tree(result_html(result, Form()))
                assert hostile in root.text or any(hostile in image.attributes["alt"] for image in root.all("img"))
                assert root.names() <= {"", "pre", "details", "summary", "div", "table", "thead", "tbody", "tr", "th", "td"} | {
                    "figure",
                    "figcaption",
                    "img",
                }
            root = tree(arguments_html(CallRecord(ToolCall("look", {hostile: hostile, "a": hostile * 30})), Form()))
            assert root.names() == {"", "div", "span", "code", "pre"} and hostile in root.text


def test_control_and_direction_characters_are_made_visible() -> None:
    html = result_html(record("a\x1b[31mb\u202ec", display=Table(("\x07",), (("\u2066",),), 1, 1)), Form())
    assert not set("\x1b\u202e\x07\u2066") & set(html) and "\ufffd" in html


@pytest.mark.req("R0.74")
def test_arguments_are_shown_in_full_with_line_breaks() -> None:
    code = "import pandas\n\nprint(1)\n"
    call = ToolCall("run", {"code": code, "path": "a.py", "options": {"x": 1}, "many": list(range(50))})
    root = tree(arguments_html(CallRecord(call), Form()))
    assert [span.text for span in root.all("span")] == ["code", "path", "options", "many"]
    blocks = [block.text for block in root.all("pre")]
    assert blocks[0] == code and json.loads(blocks[1]) == list(range(50))
    assert [value.text for value in root.all("code")] == ["a.py", '{"x": 1}']


def test_arguments_that_are_not_an_object_are_shown() -> None:
    assert tree(arguments_html(CallRecord(ToolCall("run", ["a"])), Form())).text == 'arguments ["a"]'


def test_long_arguments_are_truncated_only_after_the_call_ends() -> None:
    running = CallRecord(ToolCall("write", {"text": LONG[:30_000]}, "call-1"))
    over = CallRecord(running.call, ToolResult("call-1", "write", (Text("ok"),)))
    assert "run.rounds[3].records[0].call.arguments has the full text" in tree(arguments_html(over, Form(), where=WHERE)).text
    assert "Show all 30,000 characters" in arguments_html(over, Form(live=True), where=WHERE)
    for html in (arguments_html(running, Form(live=True)), arguments_html(over, Form(whole=True, live=True))):
        (block,) = tree(html).all("pre")
        assert block.text == LONG[:30_000]


def test_long_alt_text_is_truncated() -> None:
    root = shown("words " * 1_000, Image("image/png", picture()))
    assert len(next(root.all("img")).attributes["alt"]) < 250


def deep(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def test_json_is_indented_in_one_pass_unless_it_is_deep(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    with subtests.test("wide"):
        one_by_one: list[Any] = []
        encode = json.dumps

        def dumps(value: Any, **options: Any) -> str:
            if "indent" in options:  # with it, Python calls a function of its own for each value
                one_by_one.append(value)
            return encode(value, **options)

        with monkeypatch.context() as patched:
            patched.setattr(json, "dumps", dumps)
            assert pretty([1] * 50) == encode([1] * 50, indent=2) and one_by_one == []
    with subtests.test("deep"):
        value = deep([1] * 50, MAX_INDENTED_LEVELS)
        assert pretty(value) == json.dumps(value) and pretty(value[0]) == json.dumps(value[0], indent=2)
    with subtests.test("no number"):
        assert pretty([float("nan"), *[1] * 50]).startswith("[\n  NaN,\n  1")
