"""Files that hold keys, recognized by name. Reading them needs approval; searches and diffs skip them.

| names | but not |
|---|---|
| ``.env``, ``.env.*``, ``*.env``, ``.envrc`` | ``.env.example``, ``.sample``, ``.template``, ``.dist`` |
| ``*.pem``, ``*.key``, ``*.p12``, ``*.pfx``, ``*.ppk``, ``*.jks``, ``*.keystore``, ``*.kdbx`` | |
| ``id_*`` (SSH) | ``*.pub``, and tables, text and code, such as ``id_list.csv`` |
| ``credentials*``, ``.git-credentials``, ``client_secret*``, ``secrets.toml`` (and yaml, yml, json, ini) | code and text |
| ``.netrc``, ``_netrc``, ``.pypirc``, ``.npmrc``, ``.pgpass``, ``.htpasswd``, ``.dockercfg``, ``.s3cfg``, ``.boto`` | |

Case-insensitive.
"""

from __future__ import annotations

import re

PATTERN = (
    r"(?:"
    r"\.env(?:\.(?!(?:.*\.)?(?:example|sample|template|dist)\Z).*)?|.*\.env|\.envrc"
    r"|.*\.(?:pem|key|p12|pfx|ppk|jks|keystore|kdbx)"
    r"|id_(?!.*\.(?:pub|csv|tsv|parquet|xlsx|json|jsonl|txt|md|rst|py|ipynb|r|sql)\Z).*"
    r"|(?:credentials|client_secret)(?!.*\.(?:md|rst|py|ipynb|r|sql)\Z).*|\.git-credentials"
    r"|secrets\.(?:toml|ya?ml|json|ini)"
    r"|[._]netrc|\.pypirc|\.npmrc|\.pgpass|\.htpasswd|\.dockercfg|\.s3cfg|\.boto"
    r")\Z"
)
"""These names as one case-insensitive regular expression, for programs that do not import agentnb."""
_is_key_name = re.compile(PATTERN, re.IGNORECASE | re.DOTALL).match


def is_key_file(name: str) -> bool:
    """True if a file with this name may hold keys. ``name``: the last part of its path, with links resolved."""
    return _is_key_name(name) is not None
