"""Destinations: local addresses, and valid ones."""

from __future__ import annotations

import pickle

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.errors import SettingsError
from agentnb.models.destinations.destination import (
    PORTS,
    Destination,
    FileModelName,
    destination_of,
    is_local,
    read_destination,
)

SECRET = "sk-ant-0123456789abcdef"
OF_THIS_MACHINE = (
    "http://localhost",
    "https://localhost:8000/v1",
    "http://127.0.0.1:1",
    "http://127.255.0.9/",
    "http://[::1]:11434/v1",
)
ELSEWHERE = {
    "none": None,
    "all interfaces": "http://0.0.0.0:8000",
    "all interfaces of IPv6": "http://[::]:8000",
    "mapped": "http://[::ffff:127.0.0.1]",
    "long": "http://[0:0:0:0:0:0:0:1]",
    "decimal": "http://2130706433",
    "hexadecimal": "http://0x7f000001",
    "octal": "http://0177.0.0.1",
    "leading zero": "http://127.0.0.01",
    "short": "http://127.1",
    "too large": "http://127.0.0.256",
    "trailing dot": "http://localhost.",
    "trailing dot of a number": "http://127.0.0.1.",
    "upper case": "http://LOCALHOST",
    "beginning of a name": "http://localhost.example.org",
    "number in a name": "http://127.0.0.1.example.org",
    "end of a name": "http://my-localhost",
    "user": "http://localhost@evil.example",
    "user and password": "http://localhost:80@evil.example",
    "backslash": "http://localhost\\@evil.example",
    "fragment": "http://localhost#@evil.example",
    "query": "http://localhost?@evil.example",
    "full-width letters": "http://\uff4cocalhost",
    "full-width dot": "http://127\uff0e0.0.1",
    "Kelvin sign": "http://\u212aelvin.example",
    "percent": "http://local%68ost",
    "blank": "http://localhost ",
    "newline": "http://localhost\n",
    "other scheme": "file://localhost/etc/passwd",
    "no scheme": "localhost:8000",
    "empty port": "http://localhost:",
    "nothing": "",
}


def test_only_literal_loopback_addresses_are_local(subtests: pytest.Subtests) -> None:
    for url in OF_THIS_MACHINE:
        with subtests.test(url):
            assert is_local(url)
    for name, other in ELSEWHERE.items():
        with subtests.test(name):
            assert not is_local(other)


def test_ambiguous_urls_are_refused(subtests: pytest.Subtests) -> None:
    tricks = ("user", "user and password", "backslash", "fragment", "query", "percent", "blank", "newline", "empty port")
    for name in (*tricks, "full-width letters", "full-width dot", "Kelvin sign", "other scheme", "no scheme", "nothing"):
        with subtests.test(name), pytest.raises(SettingsError, match="ambiguous"):
            destination_of(str(ELSEWHERE[name]))
    for port in ("0", "65536", "99999", "-1", "8o"):
        with subtests.test(port=port), pytest.raises(SettingsError, match="ambiguous"):
            destination_of(f"http://a.example:{port}")


def test_scheme_host_port_and_variable_identify_the_destination() -> None:
    own = destination_of("https://A.Example/v1", "MY_KEY")
    assert own == Destination("https", "a.example", 443, "MY_KEY") == destination_of("HTTPS://a.example:443", "MY_KEY")
    others = ("http://a.example", "https://a.example.", "https://b.a.example", "https://a.example:444")
    assert not [url for url in others if own.covers(destination_of(url, "MY_KEY"))]
    assert own.covers(destination_of("https://a.example")) and not own.covers(destination_of("https://a.example", "OTHER"))
    assert not destination_of("https://a.example").covers(own)


def test_destination_survives_parsing_and_formatting(subtests: pytest.Subtests) -> None:
    for text in ("http://a.example", "https://a.example:8443&key=MY_KEY", "http://[::1]:1&key=A_B", "http://a.example&key=K_1"):
        with subtests.test(text):
            assert str(read_destination(text)) == text
    assert str(read_destination(" https://a.example:443/v1/&key=MY_KEY\n")) == "https://a.example&key=MY_KEY"


def test_invalid_url_is_refused_without_repeating_it(subtests: pytest.Subtests) -> None:
    for text in (SECRET, f"https://a.example&key={SECRET}", "https://a.example&key=", "a.example", "https://*.example", ""):
        with subtests.test(text), pytest.raises(SettingsError, match="URL to allow is invalid") as caught:
            read_destination(text)
        assert SECRET not in str(caught.value)


@examples(200)
@given(st.text("htps:/@\\.#?&[]%:0127abcLO \n\t\u212a\uff0e", min_size=1, max_size=14), st.booleans())
def test_client_calls_the_parsed_host(text: str, secure: bool) -> None:
    url = f"http{'s' if secure else ''}://{text}"
    try:
        destination = destination_of(url)
    except SettingsError:
        return
    try:
        called = httpx2.URL(url)
    except httpx2.InvalidURL:
        return  # nothing is called
    name = called.raw_host.decode()
    host = f"[{name}]" if ":" in name else name
    assert (called.scheme, host, called.port or PORTS[called.scheme]) == destination[:3]


def test_pickled_file_model_name_stays_a_file_model_name() -> None:
    name = FileModelName("compatible:m?url=http://a.example")
    assert type(pickle.loads(pickle.dumps(name))) is FileModelName and name == str(name)
