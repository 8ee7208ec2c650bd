"""Addresses of the web: read from text, and judged by the machines that they lead to."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from agentnb.tools.builtin.web.errors import after_redirect
from agentnb.tools.tool import ToolRefused

PORTS = {"http": 80, "https": 443}
MAX_URL_CHARACTERS = 4_000
_UNSAFE = re.compile(r"[\s\\\x00-\x20\x7f]")
"""Characters that programs read in different ways, as rules about addresses do."""
_SAFE_IN_PATH = "%/:@!$&'()*+,;=~"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments, and the metadata of one cloud
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # the metadata of another cloud, in a public network
        "2001::/23",  # Teredo and other protocols
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation; older Pythons do not know it
    )
)


class WebAddress(NamedTuple):
    """An address, split as it is used: the host that is judged is the host that is called."""

    scheme: str
    host: str
    """Lower case, without a dot at its end; a name that is not ASCII is encoded."""
    port: int
    target: str
    """Path and query."""

    @property
    def server(self) -> str:
        """The host as requests name it: in brackets if it is IPv6, with a port that is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        """The whole address."""
        return f"{self.scheme}://{self.server}{self.target}"


def read_address(url: str) -> WebAddress:
    """Return the parts of an address. Raises `ToolRefused` unless it is plain http or https, without a name or password."""
    if len(url) > MAX_URL_CHARACTERS or _UNSAFE.search(url):
        raise _invalid(f"the address is longer than {MAX_URL_CHARACTERS:,} characters, or has blanks or backslashes")
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
        # As rules about addresses encode it: another way of encoding could lead to another host.
        host = (host if host.isascii() else host.encode("idna").decode()).rstrip(".")
    except (ValueError, UnicodeError):
        raise _invalid("the address cannot be read") from None
    if scheme not in PORTS:
        raise _invalid("the address does not begin with https:// or http://")
    if "@" in parts.netloc:
        raise _invalid("the address holds a name or a password")
    if not host or "%" in host or port == 0:
        raise _invalid("the address names no host")
    query = f"?{quote(parts.query, safe=f'{_SAFE_IN_PATH}?')}" if parts.query else ""
    return WebAddress(scheme, host.lower(), port or PORTS[scheme], quote(parts.path or "/", safe=_SAFE_IN_PATH) + query)


def next_address(address: WebAddress, location: str, *, is_local: bool) -> WebAddress:
    """Return the address that a redirect leads to. Raises `ToolRefused` if it is another page, or refused.

    The permission of a call is for the page that it names: only a change from http to https, of the slash at the end of the
    path, and of what is behind ``?`` is followed.
    """
    try:
        target = read_address(urljoin(address.text, location.strip().replace(" ", "%20")))
        if not is_local:
            check_literal(target.host)
    except ValueError:  # brackets that hold no address
        raise after_redirect(_invalid("the address cannot be read"), address.text) from None
    except ToolRefused as error:
        raise after_redirect(error, address.text) from None
    is_upgrade = (address.scheme, address.port, target.scheme, target.port) == ("http", 80, "https", 443)
    is_same_page = target.target.partition("?")[0].rstrip("/") == address.target.partition("?")[0].rstrip("/")
    if target.host != address.host or not (is_upgrade or target[:3] == address[:3]) or not is_same_page:
        raise ToolRefused(
            "redirected",
            f"{address.text} redirects to another page, which was not asked for: {target.text}",
            "Call web_fetch with that address if it is the page you want.",
        )
    return target


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public internet, also where it stands for another one."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
        if ip not in _GLOBAL_UNICAST:
            return False
    is_refused = any(ip in network for network in _REFUSED if network.version == ip.version)
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not is_refused


def check_addresses(host: str, addresses: list[str]) -> None:
    """Raise `ToolRefused` unless all addresses of a host are public."""
    refused = [address for address in addresses if not is_public(address)]
    if refused or not addresses:
        raise refused_host(host, refused)


def check_literal(host: str) -> None:
    """Raise `ToolRefused` if the host is itself an address that is not public; names are judged when they are resolved."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return
    check_addresses(host, [host])


def refused_host(host: str, addresses: list[str]) -> ToolRefused:
    """Return the error for a host at addresses that are not public."""
    where = f" at {', '.join(addresses[:3])}" if addresses and addresses != [host] else ""
    return ToolRefused(
        "address_refused",
        f"{host} is not a public server: it is this machine, or in a private network{where}. Nothing was sent to it.",
        "Read a public page instead. Only the person can allow local servers: tools=[Web(local=True)].",
    )


def _invalid(problem: str) -> ToolRefused:
    advice = "Call web_fetch with a whole address, such as https://docs.python.org/3/; write a blank as %20."
    return ToolRefused("invalid_url", f"Nothing was fetched: {problem}.", advice)
