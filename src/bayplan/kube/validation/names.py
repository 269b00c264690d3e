"""What Kubernetes accepts as a name: of objects, labels, ports, variables, and addresses.

Each rule takes a text and returns what is wrong with it, nothing if it is fine. The rules are those of
`k8s.io/apimachinery/pkg/util/validation`; the checks of a pod apply them to its fields.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

Rule = Callable[[str], Iterator[str]]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_UNDERSCORE_LABEL = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_SUBDOMAIN_UNDERSCORE = re.compile(rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*")
_QUALIFIED_NAME = re.compile(_QUALIFIED)
_LABEL_VALUE = re.compile(f"({_QUALIFIED})?")
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HTTP_HEADER = re.compile(r"[-A-Za-z0-9]+")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
LONGEST_PORT_NAME = 15

_IN_LABEL = "lowercase letters, digits and '-', starting and ending with a letter or digit"
_IN_SUBDOMAIN = "lowercase letters, digits, '-' and '.', starting and ending with a letter or digit"
_IN_QUALIFIED = "letters, digits, '-', '_' and '.', starting and ending with a letter or digit"


def _length(text: str) -> int:
    """Go counts bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def _too_long(text: str, most: int) -> Iterator[str]:
    if _length(text) > most:
        yield f"must be no more than {most} characters"


def dns_label(text: str) -> Iterator[str]:
    """Such as a container's name: `my-name`."""
    yield from _too_long(text, LONGEST_LABEL)
    if not _DNS_LABEL.fullmatch(text):
        dots = _DNS_SUBDOMAIN.fullmatch(text)
        yield "must not contain dots" if dots else f"must consist of {_IN_LABEL}"


def dns_subdomain(text: str) -> Iterator[str]:
    """Such as a pod's name: `my-name.example.com`."""
    yield from _too_long(text, LONGEST_SUBDOMAIN)
    if not _DNS_SUBDOMAIN.fullmatch(text):
        yield f"must consist of {_IN_SUBDOMAIN}"


def search_domain(text: str) -> Iterator[str]:
    """A subdomain in which underscores are allowed."""
    yield from _too_long(text, LONGEST_SUBDOMAIN)
    if not _DNS_SUBDOMAIN_UNDERSCORE.fullmatch(text):
        yield f"must consist of {_IN_SUBDOMAIN}; '_' is allowed too"


def label_prefix(text: str) -> Iterator[str]:
    """The start of a generated name, to which letters and digits are added: it may end with `-`."""
    yield from dns_subdomain(f"{text[:-1]}a" if len(text) > 1 and text.endswith("-") else text)


def qualified_name(text: str) -> Iterator[str]:
    """Such as a label's key: `example.com/MyName`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        yield "must have at most one '/'"
        return
    if slash and not prefix:
        yield "must have a domain before the '/'"
    elif slash:
        yield from (f"the part before the '/' {problem}" for problem in dns_subdomain(prefix))
    yield from _too_long(name, LONGEST_LABEL)
    if not _QUALIFIED_NAME.fullmatch(name):
        yield f"must consist of {_IN_QUALIFIED}, with an optional domain and '/' in front"


def label_value(text: str) -> Iterator[str]:
    """Empty, or such as `MyValue`."""
    yield from _too_long(text, LONGEST_LABEL)
    if not _LABEL_VALUE.fullmatch(text):
        yield f"must be empty or consist of {_IN_QUALIFIED}"


def port_name(text: str) -> Iterator[str]:
    """Such as `http` or `metrics-2`."""
    yield from _too_long(text, LONGEST_PORT_NAME)
    if not _PORT_NAME.fullmatch(text):
        yield "must consist of lowercase letters, digits and '-'"
    if not re.search("[a-z]", text):
        yield "must contain at least one letter"
    if "--" in text:
        yield "must not contain '--'"
    if text.startswith("-") or text.endswith("-"):
        yield "must not begin or end with '-'"


def variable_name(text: str) -> Iterator[str]:
    """The name of an environment variable."""
    if any(not " " <= letter <= "~" or letter == "=" for letter in text):
        yield "must consist of printable ASCII characters other than '='"


def config_key(text: str) -> Iterator[str]:
    """A key of a ConfigMap or Secret."""
    yield from _too_long(text, LONGEST_SUBDOMAIN)
    if not _CONFIG_KEY.fullmatch(text):
        yield "must consist of letters, digits, '-', '_' and '.'"
    if text == "." or text.startswith(".."):
        yield "must not be '.' or start with '..'"


def http_header(text: str) -> Iterator[str]:
    """The name of a header."""
    if not _HTTP_HEADER.fullmatch(text):
        yield "must consist of letters, digits and '-'"


def sysctl(text: str) -> Iterator[str]:
    """The name of a kernel parameter."""
    if _length(text) > LONGEST_SUBDOMAIN or not _SYSCTL.fullmatch(text):
        yield "must be the name of a kernel parameter, such as net.core.somaxconn"


def decimal_integer(text: str) -> Iterator[str]:
    """A whole number of 64 bits, without leading zeros."""
    if not _DECIMAL.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        yield "must be a whole number"


def ip_address(text: str) -> Iterator[str]:
    """An IPv4 or IPv6 address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        yield "must be an IP address, such as 10.9.8.7 or 2001:db8::ffff"
        return
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        yield "must not be an IPv4-mapped or scoped IPv6 address"


def descending_path(text: str) -> Iterator[str]:
    """A relative path that does not climb."""
    if text.startswith("/"):
        yield "must be a relative path"
    yield from no_backsteps(text)


def local_path(text: str) -> Iterator[str]:
    """A relative path that does not climb and does not begin with two dots."""
    yield from descending_path(text)
    if text.startswith("..") and not text.startswith("../"):
        yield "must not start with '..'"


def no_backsteps(text: str) -> Iterator[str]:
    """A path without `..`."""
    if ".." in text.split("/"):
        yield "must not contain '..'"
