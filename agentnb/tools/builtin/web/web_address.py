"""Web addresses: parsing, and checks of the machines that they lead to."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from agentnb.tools.builtin.web.page_errors import after_redirect
from agentnb.tools.tool import ToolRefused

PORTS = {"http": 80, "https": 443}
MAX_URL_CHARACTERS = 4_000
_UNSAFE = re.compile(r"[\s\\\x00-\x20\x7f]")
"""Characters that programs and rules about addresses interpret in different ways."""
_SAFE_IN_PATH = "%/:@!$&'()*+,;=~"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments, and the metadata service of a cloud
        "192.88.99.0/24",  # relays of 6to4
        "168.63.129.16/32",  # metadata service of another cloud, in a public network
        "2001::/23",  # Teredo and other protocols
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation; unknown to older Pythons
    )
)


class WebAddress(NamedTuple):
    """A parsed address. The host that is checked is the host that is called."""

    scheme: str
    host: str
    """Lowercase, without a trailing dot; IDNA-encoded unless ASCII."""
    port: int
    target: str
    """Path and query."""

    @property
    def server(self) -> str:
        """Host for requests: IPv6 in brackets, followed by a port other than the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        """The complete address."""
        return f"{self.scheme}://{self.server}{self.target}"


def read_address(url: str) -> WebAddress:
    """Parse an address. Raises `ToolRefused` unless it is http or https without credentials."""
    if len(url) > MAX_URL_CHARACTERS or _UNSAFE.search(url):
        raise _invalid_address(
            f"the address is longer than {MAX_URL_CHARACTERS:,} characters, or contains spaces or backslashes"
        )
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
        # Same encoding as in rules about addresses: another one could lead to another host.
        host = (host if host.isascii() else host.encode("idna").decode()).rstrip(".")
    except (ValueError, UnicodeError):
        raise _invalid_address("the address is invalid") from None
    if scheme not in PORTS:
        raise _invalid_address("the address does not begin with https:// or http://")
    if "@" in parts.netloc:
        raise _invalid_address("the address contains a user name or password")
    if not host or "%" in host or port == 0:
        raise _invalid_address("the address has no host")
    query = f"?{quote(parts.query, safe=f'{_SAFE_IN_PATH}?')}" if parts.query else ""
    return WebAddress(scheme, host.lower(), port or PORTS[scheme], quote(parts.path or "/", safe=_SAFE_IN_PATH) + query)


def next_address(address: WebAddress, location: str, *, is_local: bool) -> WebAddress:
    """Return the target of a redirect. Raises `ToolRefused` if it leads to a different page or a refused host.

    Permission for a call covers only the page that it names: a redirect may only change http to https, a trailing slash of the
    path, or the query.
    """
    try:
        target = read_address(urljoin(address.text, location.strip().replace(" ", "%20")))
        if not is_local:
            check_literal(target.host)
    except ValueError:  # brackets without an address
        raise after_redirect(_invalid_address("the address is invalid"), address.text) from None
    except ToolRefused as error:
        raise after_redirect(error, address.text) from None
    is_upgrade = (address.scheme, address.port, target.scheme, target.port) == ("http", 80, "https", 443)
    is_same_page = target.target.partition("?")[0].rstrip("/") == address.target.partition("?")[0].rstrip("/")
    if target.host != address.host or not (is_upgrade or target[:3] == address[:3]) or not is_same_page:
        raise ToolRefused(
            "redirected",
            f"{address.text} redirects to a different page: {target.text}",
            "Call web_fetch with that address if it is the page you want.",
        )
    return target


def is_public(address: str) -> bool:
    """True for an IP address of the public internet, even after unwrapping IPv4 addresses embedded in IPv6."""
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
    """Raise `ToolRefused` for an IP address that is not public. Names are checked after resolution."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return
    check_addresses(host, [host])


def refused_host(host: str, addresses: list[str]) -> ToolRefused:
    """Return the error for a host with private addresses."""
    where = f" at {', '.join(addresses[:3])}" if addresses and addresses != [host] else ""
    return ToolRefused(
        "address_refused",
        f"{host} is not a public server: it is on this machine or a private network{where}. Nothing was sent to it.",
        "Read a public page instead. Only the person can allow local servers: tools=[Web(local=True)].",
    )


def _invalid_address(problem: str) -> ToolRefused:
    advice = "Call web_fetch with a complete address, such as https://docs.python.org/3/; write a space as %20."
    return ToolRefused("invalid_url", f"Nothing was fetched: {problem}.", advice)
