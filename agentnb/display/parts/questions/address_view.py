"""Web addresses for the person to open: the host, the full address, and a link that opens only when clicked."""

from __future__ import annotations

from agentnb.core.schema.web_addresses import WebAddress
from agentnb.display.css import wrap_output
from agentnb.display.markup import NOTHING, Html, tag
from agentnb.display.texts.question_labels import host_in_words


def link_html(address: WebAddress, kind: str, text: str) -> Html:
    """Return a link to an address. The page it opens learns nothing about this one."""
    attributes = {"href": address.opened, "target": "_blank", "rel": "noopener noreferrer", "referrerpolicy": "no-referrer"}
    return tag("a", kind, text, **attributes)


def address_html(address: WebAddress | None, whole: str) -> Html:
    """Return the host of an address above the full address, as text or as a link."""
    host = NOTHING if address is None else tag("div", "question-host", host_in_words(address))
    return tag("div", "question-address", host, tag("div", "question-url", whole))


def login_html(title: str, address: WebAddress) -> Html:
    """Return the address at which the person logs in, as a cell output."""
    asked = tag("div", "asked", title)
    return wrap_output(tag("div", "question", asked, address_html(address, link_html(address, "", address.opened))))
