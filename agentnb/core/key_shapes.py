"""Detection of text that looks like a key. Such text is masked in everything that is shared, such as pages, and in errors about
files and models.

The shapes are those documented by the issuers, long enough not to match words and model names. Libraries for finding secrets,
such as detect-secrets, search source code by entropy, which also flags a run's ids and hashes, and need a web client; a table
of shapes suffices here.
"""

from __future__ import annotations

import re

from agentnb.core.redaction import mask_spans, redact

MASK = "[looks like a key: masked]"

_SHAPES = (
    r"sk-(?:ant|proj|or|svcacct|admin|lf|None)-[A-Za-z0-9_-]{8,}",  # Anthropic, OpenAI, OpenRouter, Langfuse
    r"sk-(?=[A-Za-z0-9_-]*[0-9A-Z])[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9]{20,}",  # OpenAI and compatible providers
    r"[spr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",  # Stripe
    r"sk_(?=[A-Za-z0-9]*[0-9])[A-Za-z0-9]{24,}",  # ElevenLabs, Novita
    r"(?:(?:gsk|hf|r8)_|(?:xai|pplx|tvly|nvapi|csk)-)(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,}",  # Groq, xAI, ...
    r"(?:hf|gsk)_[A-Za-z]{30,}",
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|rt|dt|soat|cbt|ptt|ft|agent|imt|ffct)-[A-Za-z0-9_-]{16,}",  # GitLab
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS
    r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}",  # Google
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}|https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,}",
    r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dop_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?|eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{10,}){2,4}",  # JWT
    r"(?<=[Bb]earer )(?=[A-Za-z0-9._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}={0,2}",
)
_PRIVATE_KEY = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----BEGIN ).)*?(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_LOOKS_LIKE_A_KEY = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_SHAPES)})|{_PRIVATE_KEY}", re.DOTALL)


def mask_shapes(text: str) -> str:
    """Mask everything in the text that looks like a key, even if written with escapes."""
    return mask_spans(text, lambda plain: [match.span() for match in _LOOKS_LIKE_A_KEY.finditer(plain)], MASK)


def mask_keys(text: str) -> str:
    """Redact known keys in the text, and mask anything that looks like a key."""
    return mask_shapes(redact(text))
