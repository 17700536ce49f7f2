"""Removes user, password, query and fragment from addresses and from error messages that repeat them."""

import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus, unquote_plus

HIDDEN = "***"
SHORTEST = 4  # letters of a secret; replacing shorter texts would hide half of a sentence


def redacted(text: str, address: str, secrets: frozenset[str] = frozenset()) -> str:
    """Removes from a text `secrets`, the secrets of `address` in any encoding, and the secrets of addresses in it.

    An address may be mistyped: everything before an @ counts as user and password.
    """
    text = re.sub(r"(?i)\b(basic|bearer) +[\w+/=.~-]+", rf"\1 {HIDDEN}", text)  # a server may repeat the request
    text = re.sub(r"(?<=://)\S+", _host_and_path, text)
    text = re.sub(r"\S+", _after_user, text)
    for secret in sorted(_encodings(_parts(address) | secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return re.sub(r"[?#]\S+", f"?{HIDDEN}", text)


def environment_secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Values of an environment whose names end as secrets do: MLFLOW_TRACKING_TOKEN, AWS_SECRET_ACCESS_KEY."""
    secret_name = re.compile(r"(TOKEN|PASSWORD|SECRET|KEY|MLFLOW_TRACKING_USERNAME)$")
    return frozenset(value for name, value in environment.items() if secret_name.search(name))


def _parts(address: str) -> set[str]:
    """User, password, and every value of the query and the fragment."""
    place, *rest = re.split(r"[?#&;]", re.sub(r"^\w+:/+", "", address))
    users, at, _ = place.rpartition("@")
    return {part.partition("=")[2] or part for part in rest} | set(users.split(":") if at else ())


def _encodings(secrets: set[str]) -> set[str]:
    """Secrets in their own form, decoded and encoded."""
    plain = {unquote_plus(part) for part in secrets}
    encodings = secrets | plain | {quote(part) for part in plain} | {quote_plus(part) for part in plain}
    return {part for part in encodings if len(part) >= SHORTEST}


def _after_user(match: re.Match[str]) -> str:
    """Removes the part of a word before its last @; an address keeps its scheme.

    A pattern that searches for the @ itself takes quadratic time on a server's long word without one.
    """
    before, at, after = match[0].rpartition("@")
    if not at:
        return after
    scheme = re.search(r"\w:/+", before)
    return f"{before[: scheme.end()] if scheme else ''}{HIDDEN}@{after}"


def _host_and_path(match: re.Match[str]) -> str:
    """Host, port and path of the part after `://`; nothing if an @ follows the first ? or #, as the host is unsure."""
    place, *rest = re.split(r"[?#]", match[0], maxsplit=1)
    if rest and "@" in rest[0]:
        return HIDDEN
    _, at, host = place.rpartition("@")
    return (f"{HIDDEN}@" if at else "") + host + (f"?{HIDDEN}" if rest else "")
