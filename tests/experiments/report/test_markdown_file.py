"""Markdown reports: a Markdown parser returns every text unchanged."""

from __future__ import annotations

import re

import mistune
import pytest
from markdown_it import MarkdownIt

from agentnb.experiments.report.document import Code, Document, Facts, Grid, Heading, Paragraph
from agentnb.experiments.report.markdown_file import escape, report_markdown

TEXTS = (
    "<script>alert(1)</script>",
    "a | b || c",
    "`code` and ``more``",
    "[click](javascript:alert(1))",
    "![picture](https://evil.example/x.png)",
    "<https://evil.example> https://evil.example www.evil.example me@evil.example",
    "*a* **b** _c_ __d__ ~~e~~ $x$ a_b_c",
    "# heading",
    "> quoted",
    "- item",
    "+ item",
    "1. item",
    "12) item",
    "---",
    "===",
    "***",
    "```",
    "~~~",
    "[x]: javascript:alert(1)",
    "[^1]: note",
    "&lt;b&gt; &amp; &#60;",
    "a\\*b\\",
    "\\`",
    "<!-- comment -->",
    "</td></tr>",
    "| --- |",
)


@pytest.mark.parametrize("text", TEXTS)
def test_markdown_escaping_preserves_the_text(text: str) -> None:
    parts = (Heading(text), Paragraph(text), Grid([text, "n"], [[text, text]]), Facts([(text, text, text)]))
    written = report_markdown(Document(text, parts), "figures")
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(written)
    inline = [token for token in tokens if token.type == "inline"]
    assert len(inline) == 13, "a title, a heading, a paragraph, and ten cells"
    for token in inline:
        kinds = {child.type for child in token.children or []}
        assert kinds <= {"text", "text_special"}
        said = "".join(child.content for child in token.children or [])
        assert said in ("", "n", text)
    with_links = mistune.create_markdown(plugins=["url", "table", "strikethrough", "math", "footnotes"])(written)
    assert {*re.findall(r"<(\w+)", str(with_links))} <= {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td"}


def test_line_breaks_and_control_characters_are_removed() -> None:
    assert escape("a\n\n# b\r\n\tc") == "a # b c"
    assert "\x1b" not in escape("a\x1b[31m")


def test_code_block_content_cannot_close_its_fence() -> None:
    code = "x = '''\n```\n````\n<script>'''"
    (token,) = [
        one for one in MarkdownIt().parse(report_markdown(Document("d", [Code(code, "python")]), "f")) if one.type == "fence"
    ]
    assert token.content == f"{code}\n"
