"""The words of HTML, as a page without styles shows them."""

from __future__ import annotations

import re
from html import unescape


def words_in(html: str) -> str:
    """The words on one line; what is escaped in the HTML is itself here."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
