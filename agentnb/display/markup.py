"""Builds HTML in which no text from a model or tool can become markup: everything not made by `tag` is escaped."""

from __future__ import annotations

from html import escape

from agentnb.display.texts.labels import clean, cut

PREFIX = "agentnb-"
"""The prefix of all our CSS classes."""


WITHOUT_CONTENT = frozenset({"br", "img", "input"})
"""Elements that have neither content nor an end tag."""


class Html(str):
    """Text that is already safe markup."""

    __slots__ = ()


NOTHING = Html("")


def words(text: str, most: int | None = None) -> Html:
    """Return text as HTML: control characters removed, truncated to ``most`` characters, and escaped."""
    shown = clean(text)
    return Html(escape(shown if most is None else cut(shown, most), quote=False))


def tag(name: str, kind: str, *content: str, **attributes: str | bool | None) -> Html:
    """Return an element with our classes ``kind``: their names without the prefix, separated by spaces; may be empty.

    Content other than `Html` is escaped. Attributes that are True have no value, those that are False or None are omitted,
    ``data_x`` means ``data-x`` and ``for_`` means ``for``.
    """
    written = f"<{name}"
    if kind:
        written += f' class="{" ".join(PREFIX + name_part for name_part in kind.split())}"'
    for key, value in attributes.items():
        if value is not None and value is not False:
            written += f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(clean(value))}"')
    return Html(f"{written}>" if name in WITHOUT_CONTENT else f"{written}>{join_html(*content)}</{name}>")


def fold_tag(kind: str, title_kind: str, title: str, *body: str, **attributes: str | bool | None) -> Html:
    """Return an element that expands below its title.

    ``kind``, ``title_kind``: classes of the fold and of its title; attributes as in `tag`.
    """
    return tag("details", kind, tag("summary", title_kind, title), *body, **attributes)


def join_html(*content: str) -> Html:
    """Join pieces, escaping any that are not `Html`."""
    return Html("".join(piece if isinstance(piece, Html) else words(piece) for piece in content))
