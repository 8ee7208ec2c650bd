"""The frame of a card whose kernel died, and the styles of the parts that the page fills in."""

from __future__ import annotations

import re

from agentnb.display.card.lost_kernel import inline_styles, remains_html
from agentnb.display.css import inline_css, rules


def test_interrupted_card_says_what_to_type() -> None:
    stored, in_memory = remains_html("20260504-120000-1507efae801"), remains_html()
    assert "The kernel was restarted or died. Define your tools again and run: " in stored
    assert re.findall(r"<code [^>]*>(.*?)</code>", stored) == ["%load_ext agentnb", "%agent recover 7efae801"]
    assert "%agent" not in in_memory and "The run was not stored" in in_memory
    for html in (stored, in_memory):
        assert " Interrupted</span>" in html
        assert re.findall(r'data-slot="(\w+)"', html) == ["meta", "graph", "todos", "findings", "totals", "notes"]
        assert html.count("data-rounds") == 1 and "<button" not in html


def test_placeholder_of_a_lost_kernel_has_inline_styles() -> None:
    styles = inline_styles()
    assert styles and set(styles) <= set(rules())
    for name in rules():
        style = f' style="{styles[name]}"' if name in styles else ""
        assert inline_css(f'<b class="{name}">') == f'<b class="{name}"{style}>'
