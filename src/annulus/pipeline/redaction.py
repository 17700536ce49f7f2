"""Removes user, password, query and fragment from addresses, and from error messages that repeat them."""

import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus, unquote_plus

HIDDEN = "***"
SHORTEST = 4  # letters of a secret; replacing shorter texts would hide half of a sentence


def redacted(text: str, address: str, secrets: frozenset[str] = frozenset()) -> str:
    """Text without the secrets of `address` and others, in any encoding, and without those of all addresses in it.

    An address may be mistyped: all that precedes an @ counts as user and password.
    """
    text = re.sub(r"(?i)\b(basic|bearer) +[\w+/=.~-]+", rf"\1 {HIDDEN}", text)  # a server may repeat its request
    text = re.sub(r"(?<=://)\S+", _shown, text)
    text = re.sub(r"(?:(\S*?\w:/+)\S*|\S+)@", rf"\1{HIDDEN}@", text)
    for secret in sorted(_written(_parts(address) | secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return re.sub(r"[?#]\S+", f"?{HIDDEN}", text)


def secrets_of(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of an environment that are named as secrets: MLFLOW_TRACKING_TOKEN, AWS_SECRET_ACCESS_KEY."""
    named = re.compile(r"(TOKEN|PASSWORD|SECRET|KEY|MLFLOW_TRACKING_USERNAME)$")
    return frozenset(value for name, value in environment.items() if named.search(name))


def _parts(address: str) -> set[str]:
    """User, password, and every value in the query and the fragment."""
    place, *rest = re.split(r"[?#&;]", re.sub(r"^\w+:/+", "", address))
    users, at, _ = place.rpartition("@")
    return {part.partition("=")[2] or part for part in rest} | set(users.split(":") if at else ())


def _written(secrets: set[str]) -> set[str]:
    """Secrets as given, decoded and encoded."""
    plain = {unquote_plus(part) for part in secrets}
    written = secrets | plain | {quote(part) for part in plain} | {quote_plus(part) for part in plain}
    return {part for part in written if len(part) >= SHORTEST}


def _shown(match: re.Match[str]) -> str:
    """Host, port and path of the part after `://`. With an @ after the first ? or #, no part is sure to be the host."""
    place, *rest = re.split(r"[?#]", match[0], maxsplit=1)
    if rest and "@" in rest[0]:
        return HIDDEN
    _, at, host = place.rpartition("@")
    return (f"{HIDDEN}@" if at else "") + host + (f"?{HIDDEN}" if rest else "")
