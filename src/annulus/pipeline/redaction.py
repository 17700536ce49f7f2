"""What may be shown of an address, and of the errors that repeat it: neither user, password, query nor fragment."""

import re
from urllib.parse import quote, quote_plus, unquote_plus

HIDDEN = "***"
SHORTEST = 4  # letters of a secret; replacing shorter texts would hide half of a sentence


def redacted(text: str, address: str) -> str:
    """Text without the secrets of `address`, in whatever encoding, and without those of the other addresses in it."""
    text = re.sub(r"(?<=://)\S+", _shown, text)
    for secret in sorted(_secrets(address), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return re.sub(r"[?#]\S+", f"?{HIDDEN}", text)


def _secrets(address: str) -> set[str]:
    """User, password, and every value in the query and the fragment, as written, decoded and encoded."""
    place, *rest = re.split(r"[?#&;]", address.partition("://")[2])
    users, at, _ = place.rpartition("@")
    found = {part.partition("=")[2] or part for part in rest} | set(users.split(":") if at else ())
    plain = {unquote_plus(part) for part in found}
    written = found | plain | {quote(part) for part in plain} | {quote_plus(part) for part in plain}
    return {part for part in written if len(part) >= SHORTEST}


def _shown(match: re.Match[str]) -> str:
    """What follows `://`: host, port and path. With an @ behind the first ? or #, no part is sure to be the host."""
    place, *rest = re.split(r"[?#]", match[0], maxsplit=1)
    if rest and "@" in rest[0]:
        return HIDDEN
    _, at, host = place.rpartition("@")
    return (f"{HIDDEN}@" if at else "") + host + (f"?{HIDDEN}" if rest else "")
