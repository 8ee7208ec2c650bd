"""Names of files that contain keys."""

from __future__ import annotations

import re

import pytest

from agentnb.key_files import PATTERN, is_key_file

HOLD_KEYS = """
.env .ENV .env.local .env.production prod.env .envrc server.pem tls.KEY a.p12 a.pfx putty.ppk store.jks id_rsa id_ed25519
id_rsa.bak credentials credentials.json Credentials.csv .git-credentials client_secret_1.json secrets.toml secrets.yaml
secrets.yml .netrc _netrc .pypirc .npmrc .pgpass .htpasswd
"""
HOLD_NONE = """
.env.example .env.local.sample .env.template .env.dist environment.yml env envoy.txt id_rsa.pub id_list.csv id_map.parquet
idle.txt keys.txt monkey.py a.key.md credentials.py credentials_test.md secrets.py secrets_of_success.txt pem.txt
notes.netrc.txt readme.md
"""


@pytest.mark.req("R2.20")
def test_key_files_are_recognized_by_name(subtests: pytest.Subtests) -> None:
    for expected, names in ((True, HOLD_KEYS), (False, HOLD_NONE)):
        for name in names.split():
            with subtests.test(name):
                assert is_key_file(name) is expected
                assert bool(re.match(PATTERN, name, re.IGNORECASE | re.DOTALL)) is expected


def test_key_file_name_with_a_line_break_is_matched_completely() -> None:
    assert is_key_file("a\nb.pem") and not is_key_file("x.pem\nb") and not is_key_file(".env\n.txt")
