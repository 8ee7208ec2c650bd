"""Detection of tool calls that a reply announces but does not make: "I will now call look." at the end of a reply.

Only the last two sentences outside code and quotes are searched, and only first-person announcements that name a tool count.
Reports, suggestions, questions and replies that wait for the person are answers, not announcements.
"""

from __future__ import annotations

import re
from collections.abc import Collection

MAX_CHARACTERS = 600
"""Maximum number of characters searched, from the end of a reply."""
MAX_SENTENCES = 2

_SUBJECT = (
    r"(?:(?:\b(?:now|next|first|then)\b,?\s+)?\b(?:I'll|I\s+will|I\s+shall|I(?:'m|\s+am)\s+(?:going|about)\s+to|let\s+me|let's)"
    r"|\bI\s+now|\bI'm\s+now|\bI\s+am\s+now|\A\s*now)\b"
)
_ADVERBS = r"(?:,?\s+(?:now|next|first|then|also|just|quickly|proceed\s+to|go\s+ahead\s+and|start\s+by|begin\s+by))*,?"
_VERB = (
    r"\s+(?:make\s+(?:a|the)\s+call\s+(?:to|of)|call|use|run|invoke|execute|try|query|calling|using|running|invoking|executing)"
)
_ARTICLE = r"\s+(?:(?:the|my|your)\s+)?(?:(?:tool|function)\s+)?"
_NAME = r"(?P<mark>[`\"'*]{0,2})(?P<name>[A-Za-z_][A-Za-z0-9_-]{0,63})(?:\([^()\n]{0,200}\))?(?P=mark)"
_ANNOUNCED = re.compile(rf"{_SUBJECT}{_ADVERBS}{_VERB}{_ARTICLE}{_NAME}", re.IGNORECASE)
_NOT_YET = re.compile(
    r"\b(?:if|unless|when|whenever|once|until|as\s+soon\s+as|after\s+you|before\s+I|not|never|n't|would|could|might|may|can"
    r"|shall\s+I|should\s+I|want\s+me|please|wait(?:ing)?|in\s+(?:the\s+)?future|next\s+time|later|from\s+now\s+on|tomorrow)\b",
    re.IGNORECASE,
)
"""Matches words that mark a sentence as a question, or as one about another time."""
_FENCED = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_ASIDE = re.compile(r"^(?: {0,3}>| {4}|\t).*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?…:])[\"'”)*_]*\s+|\n\s*\n|\n(?=\s*(?:[-*#]|\d+[.)])\s)")


def announced_call(text: str, tool_names: Collection[str]) -> str | None:
    """Return the tool whose call the end of the text announces, or None."""
    if not tool_names:
        return None
    words = _ASIDE.sub("", _FENCED.sub("", text)).strip()[-MAX_CHARACTERS:].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    sentences = [part for part in _SENTENCE.split(words) if part and part.strip(" .!…:*_")]
    for sentence in sentences[-MAX_SENTENCES:]:
        match = _ANNOUNCED.search(sentence)
        if match and match["name"] in tool_names and not _is_for_later(sentence) and not _is_quoted(sentence, match.start()):
            return match["name"]
    return None


def _is_for_later(sentence: str) -> bool:
    return sentence.rstrip().endswith("?") or _NOT_YET.search(sentence) is not None


def _is_quoted(sentence: str, start: int) -> bool:
    """True if a position is inside quotation marks or backticks."""
    before = sentence[:start]
    return before.count('"') % 2 == 1 or before.count("`") % 2 == 1 or before.count("“") > before.count("”")
