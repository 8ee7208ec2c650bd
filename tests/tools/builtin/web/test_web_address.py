"""Web addresses: valid and public ones, and allowed redirects."""

from __future__ import annotations

import pytest

from agentnb.policies.permissions.path_rules import canonical_address
from agentnb.tools.builtin.web.page_errors import ToolRefused
from agentnb.tools.builtin.web.web_address import check_literal, is_public, next_address, read_address

PUBLIC = ("93.184.216.34", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:82a::200e", "64:ff9b::808:808")
NOT_PUBLIC = {
    "loopback": "127.0.0.1 127.255.255.254 ::1",
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fd00:ec2::254",
    "link-local": "169.254.169.254 169.254.0.1 fe80::1 fe80::1%1",
    "shared by customers of a provider": "100.64.0.1 100.100.100.200 100.127.255.255",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "broadcast and reserved": "255.255.255.255 240.0.0.1",
    "documentation and benchmarks": "192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.1 2001:db8::1 3fff::1",
    "metadata of clouds": "168.63.129.16 192.0.0.192",
    "IPv4 in IPv6": "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1",
    "translated": "64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808",
    "tunnels": "2002:7f00:1::1 2002:808:808::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 192.88.99.1",
    "old and unassigned": "fec0::1 4000::1 5f00::1 100::1",
    "no address": "localhost x 1.2.3 ::1::2",
}


def refusal(url: str) -> str | None:
    with pytest.raises(ToolRefused) as caught:
        read_address(url)
    return caught.value.outcome.error_code


def test_public_addresses_are_distinguished_from_all_others(subtests: pytest.Subtests) -> None:
    assert [address for address in PUBLIC if not is_public(address)] == []
    for kind, addresses in NOT_PUBLIC.items():
        with subtests.test(kind):
            assert [address for address in addresses.split() if is_public(address)] == []


def test_address_is_parsed_into_the_parts_used_for_connecting() -> None:
    cases = {
        "https://docs.python.org": ("https", "docs.python.org", 443, "/"),
        "http://Example.ORG.:8080/a/b?x=1&y=%20#part": ("http", "example.org", 8080, "/a/b?x=1&y=%20"),
        "https://bücher.example/ä?ö": ("https", "xn--bcher-kva.example", 443, "/%C3%A4?%C3%B6"),
        "http://[::1]:80/": ("http", "::1", 80, "/"),
    }
    for url, parts in cases.items():
        assert tuple(read_address(url)) == parts
    assert read_address("http://[::1]:81/a?b").text == "http://[::1]:81/a?b"
    assert read_address("https://a.test:443/").text == "https://a.test/"


def test_permission_check_sees_the_same_host_as_the_connection() -> None:
    for url in ("https://faß.de/", "https://BÜCHER.example./", "http://Example.org:80/a", "https://\uff45xample.org/"):
        address = read_address(url)
        judged = canonical_address(url)
        assert judged is not None and judged.startswith(f"{address.scheme}://{address.host}:{address.port}/")


def test_unsupported_or_malformed_addresses_are_refused(subtests: pytest.Subtests) -> None:
    for url in (
        "ftp://a.test/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "a.test",
        "",
        "https://",
        "https:///a",
        "https://ada:word@a.test/",
        "https://ada@a.test/",
        "https://@a.test/",
        "https://a.test:0/",
        "https://a.test:99999/",
        "https://a.test:x/",
        "https://a.test/a b",
        "https://a.test\\@b.test/",
        "https://a.test/\n",
        "https://a.test/\0",
        "http://[fe80::1%25eth0]/",
        "http://[::1/",
        f"https://{'ä' * 70}.test/",
        f"https://a.test/{'a' * 4000}",
    ):
        with subtests.test(url[:40]):
            assert refusal(url) == "invalid_url"


def test_only_redirects_to_the_same_page_are_followed(subtests: pytest.Subtests) -> None:
    start = read_address("https://a.test/x/y?z")
    for location, target in {
        "y/": "https://a.test/x/y/",
        "https://A.test/x/y": "https://a.test/x/y",
        "//a.test:443/x/y?r": "https://a.test/x/y?r",
        "?n=1": "https://a.test/x/y?n=1",
    }.items():
        assert next_address(start, location, is_local=False).text == target
    assert next_address(read_address("http://a.test/"), "https://a.test/", is_local=False).text == "https://a.test/"
    for location, code in {
        "https://b.test/x/y": "redirected",
        "/b": "redirected",
        "b c": "redirected",
        "/": "redirected",
        "https://www.a.test/": "redirected",
        "http://a.test/x": "redirected",
        "https://a.test:8443/": "redirected",
        "http://169.254.169.254/latest": "address_refused",
        "http://[::1]/": "address_refused",
        "file:///etc/passwd": "invalid_url",
        "http://[::1/": "invalid_url",
        "https://ada:word@a.test/": "invalid_url",
    }.items():
        with subtests.test(location):
            with pytest.raises(ToolRefused) as caught:
                next_address(start, location, is_local=False)
            assert caught.value.outcome.error_code == code
    with pytest.raises(ToolRefused) as local:
        next_address(start, "http://127.0.0.1/", is_local=True)
    assert local.value.outcome.error_code == "redirected"
    with pytest.raises(ToolRefused):
        next_address(read_address("http://a.test:8080/"), "https://a.test:8443/", is_local=False)


def test_ip_addresses_are_checked_at_once_and_names_when_resolved() -> None:
    check_literal("localhost")
    check_literal("93.184.216.34")
    with pytest.raises(ToolRefused):
        check_literal("127.0.0.1")
