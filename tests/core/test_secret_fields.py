"""Fields that ask for a secret: found by name, title, description and format, in flat and nested forms."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.core.schema.secret_fields import secret_fields

TEXT: dict[str, Any] = {"type": "string"}
HITS_NAMES = (
    "password Password user_password newPassword password2 password_again passwordConfirm PASSWD passphrase "
    "Passwort db_pwd pin PIN pin_code pinCode otp cvv passcode token access_token accessToken accesstoken "
    "githubToken GITHUB_TOKEN refresh-token apiKey api_key APIKey API_KEY apikey openai_api_key keys.api_key "
    "privateKey ssh_key secretAccessKey aws_access_key secret clientSecret credentials verification_code "
    "token_value"
)
HITS: dict[str, dict[str, Any]] = dict.fromkeys(HITS_NAMES.split(), TEXT) | {
    "api key": TEXT,
    "a": {"type": "string", "title": "Your API key"},
    "b": {"type": "string", "title": "Password for the database"},
    "c": {"type": "string", "description": "The access token from your account page."},
    "d": {"type": "string", "format": "password"},
    "e": {"type": "integer", "title": "PIN"},
    "f": {"type": ["string", "null"], "title": "Passphrase (optional)"},
    "g": {"description": "Paste the private key here"},
    "h": {"type": "array", "items": TEXT, "title": "API keys"},
    "i": {"type": "string", "title": "2FA code"},
    "j": {"type": "string", "format": "Password"},
    "k": {"anyOf": [{"type": "string", "title": "Password"}, {"type": "null"}]},
    "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44": TEXT,
    "pass\u200bword": TEXT,
    "user_password": {"type": "string", "properties": {}},
    "db_password": {"type": "string", "enum": None},
}
MISSES_NAMES = (
    "token_count tokens max_tokens maxTokens tokenizer token_type keyboard monkey key keys primary_key sort_key "
    "keyword public_key donkey password_length passwordPolicy secretary pinned pin_color spin opinion shopping "
    "compass passport secret_santa name pincode_area author tokenized_text country_code code credentialed "
    "keychain_name"
)
MISSES: dict[str, dict[str, Any]] = dict.fromkeys(MISSES_NAMES.split(), TEXT) | {
    "a": {"type": "boolean", "title": "Reset the password"},
    "reset_password": {"type": "boolean"},
    "token": {"enum": ["short", "long"]},
    "secret": {"oneOf": [{"const": 1, "title": "One"}]},
    "n": {"type": "integer", "title": "Token"},
    "d": {"type": "string", "description": "A name for the connection, not a password."},
    "d2": {"description": "Your favourite word (do not enter your phone number, pin, or other sensitive info)"},
    "e": {"type": "string", "description": "The repository whose token limits are raised"},
    "f": {"type": "string", "format": "email", "title": "Where the password reset goes"},
}


def asked(name: str, schema: Any) -> list[str]:
    return secret_fields({"type": "object", "properties": {name: schema}})


def test_secret_fields_are_recognized(subtests: pytest.Subtests) -> None:
    for cases, is_hit in ((HITS, True), (MISSES, False)):
        for name, schema in cases.items():
            with subtests.test(name, **schema):
                assert asked(name, schema) == ([name] if is_hit else [])


def test_nested_secret_fields_are_found_even_in_recursive_schemas() -> None:
    ring: dict[str, Any] = {"type": "object", "properties": {"again": {"$ref": "#/$defs/ring"}, "password": TEXT}}
    schema = {
        "type": "object",
        "properties": {
            "login": {"type": "object", "properties": {"user": TEXT, "password": TEXT}},
            "way": {"anyOf": [{"$ref": "#/$defs/ring"}, {"type": "null"}]},
            "servers": {"type": "array", "items": {"type": "object", "properties": {"apiToken": TEXT}}},
            "word": {"$ref": "#/$defs/hidden"},
        },
        "allOf": [{"properties": {"pin": {"type": "integer"}}}],
        "$defs": {"ring": ring, "hidden": {"type": "string", "format": "password"}},
    }
    result = ["login.password", "way.password", "servers.apiToken", "word", "pin"]
    assert sorted(secret_fields(schema)) == sorted(result)
    for odd in (None, True, 3, "x", [], {"properties": [1]}, {"properties": {"a": 3, "b": True}}, {"$ref": "#/nothing"}):
        assert secret_fields(odd) == []
    assert secret_fields({"properties": {"password": True}}) == ["password"]
