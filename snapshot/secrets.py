"""Raw secrets (format.md 9, step 12): by name, by structure, by shape; never by entropy.

    find_secret         in a value that somebody is about to publish
    find_secret_in      in a section that has been read: gates first, each a few searches in C, then a close look

A gate only says where a close look is needed; what is a secret is said below it alone. A finding names the detector
and where, never the value (threats D-55).
"""

import base64
import json
import re
import unicodedata
from collections.abc import Iterator
from itertools import islice

from snapshot.canonical import Parsed, survey
from snapshot.frozen import frozen

# Names are compared as words; the last ones must be these.
FORBIDDEN_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "private_key",
    "secret_key",
    "api_key",
    "access_key",
    "psk",
    "pre_shared_key",
    "preshared_key",
    "snmp_community",
    "token",
    "credentials",
)
REFERENCE = "secret_ref"

_FORBIDDEN_WORDS = tuple(tuple(name.split("_")) for name in FORBIDDEN_NAMES)
# Each ends in a word of these, by a letter that it holds and many names do not: one look for that spares its words.
_LAST_WORDS = (
    ("k", ("key", "psk", "token")),
    ("w", ("pwd",)),
    ("", ("pass", "secret", "community", "credentials")),
)
_SEPARATORS = re.compile(r"[_\-. ]+")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*:\S.*", re.DOTALL)
_PRIVATE_JWK = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

_PEM = re.compile(r"-----\s*(?:BEGIN|END)[A-Z0-9 ]*PRIVATE KEY")
_AGE = re.compile(r"AGE-SECRET-KEY-(?:PQ-)?1")
# By their first letter, which the regular expression engine searches for fast; none follows a letter or digit.
_TOKENS = {
    "A": r"(?:(?:KIA|SIA)[A-Z0-9]{16}|Iza[A-Za-z0-9_-]{35}|ccountKey=[A-Za-z0-9+/]{86}==)",
    "g": r"(?:h[pousr]_[A-Za-z0-9]{36}|ithub_pat_[A-Za-z0-9_]{22}|lpat-[A-Za-z0-9_-]{20})",
    "x": r"ox[abprs]-[A-Za-z0-9-]{10}",
    "d": r"op_v1_[0-9a-f]{64}",
}
_TOKEN = [re.compile(f"{first}(?<![A-Za-z0-9]{first}){rest}") for first, rest in _TOKENS.items()]
# Three base64url parts; a lookahead, since a host name in front must not swallow the first of them.
_JWT = re.compile(r"(?<![A-Za-z0-9_-])(?=([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.)")
_AUTHORITY = re.compile(r"//([^/?#\s]*)@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NOT_TEXT = re.compile(r"[\ud800-\udfff]")  # a byte of a file that is not UTF-8
_WIREGUARD = re.compile(r"(?:^|\\n)[ \t]*(?:PrivateKey|PresharedKey)[ \t]*=[ \t]*\S", re.MULTILINE | re.IGNORECASE)

# Before a close look at each string, the text of the section as it was signed: two characters that it must hold, which
# costs next to nothing, and patterns that must match, the first one fast. An escape may stand before a token there.
_AFTER = r"(?:(?<![A-Za-z0-9]{0})|(?<=\\[bfnrt]{0})|(?<=\\u[0-9a-f]{{4}}{0}))"
_STRICT = {first: re.compile(first + _AFTER.format(first) + rest) for first, rest in _TOKENS.items()}
_GATES = [
    (gate, other, re.compile(pattern), strict)
    for gate, other, pattern, *strict in (
        ("A", "A", r"A(?:KIA|SIA|Iza|ccountKey=)", _STRICT["A"]),
        (" ", "P", r"PRIVATE KEY"),
        ("-", "A", r"AGE-SECRET-KEY-"),
        ("@", "/", r"//[^/?#]*@"),
        ("=", "y", r"[Pp](?i:rivateKey|resharedKey)"),
        ("=", "Y", r"[Pp](?i:rivateKey|resharedKey)"),
        # `"alg"` in base64url, at each of the three places in a group; and the escape by which it could be spelled.
        (".", "Z", r"ImFsZy"),
        (".", "G", r"JhbGci"),
        (".", "W", r"iYWxnI"),
        (".", "X", r"XHUw"),
        (".", "M", r"x1MD"),
        (".", "T", r"cdTAw"),
    )
]


# Letters that nearly every text holds would need a pattern over all of it for each of these. So all other letters are
# left out first, in one pass that costs as much as one such pattern; what is left of a token begins with one of these.
_MARKS = [
    (mark, (re.compile(pattern), _STRICT[pattern[0]]))
    for mark, pattern in (
        (b"gh_", r"g(?:h[pousr]_|ithub_pat_)"),
        (b"gl-", r"glpat-"),
        (b"xx-", r"xox[abprs]-"),
        (b"_v_", r"dop_v1_"),
    )
]
_NO_MARK = bytes(set(range(256)) - set(b"ghlxv_-"))


@frozen
class SecretFinding:
    """Where (a JSON pointer) and by which detector."""

    pointer: str
    detector: str


def find_secret(value: object) -> SecretFinding | None:
    return find_secret_in(survey(value))


def find_secret_in(section: Parsed) -> SecretFinding | None:
    """The first raw secret of a section: by name, by structure, then by shape."""
    for item, member, detector in _suspects(section):
        return SecretFinding(_pointer(section.value, item) + member, detector)
    return None


def find_shape(text: str) -> str | None:
    """The same of a long text, with the gates before it."""
    return shape_of(text) if _may_hold_shape(text) else None


def shape_of(text: str) -> str | None:
    """The detector whose shape occurs anywhere in a string."""
    if _PEM.search(text):
        return "pem_private_key"
    if _AGE.search(text):
        return "age_secret_key"
    if any(pattern.search(text) for pattern in _TOKEN):
        return "provider_token"
    if any(_ends_in_jwt_header(match[1]) for match in _JWT.finditer(text)):
        return "jwt"
    if any(_is_login(match) for match in _AUTHORITY.finditer(text)):
        return "url_credentials"
    return "wireguard_key" if _WIREGUARD.search(text) else None


def is_forbidden_name(name: str) -> bool:
    """Whether a member name is, or ends with, a name under which only a reference may stand."""
    words = _words(name)
    return any(words[-len(forbidden) :] == forbidden for forbidden in _FORBIDDEN_WORDS)


def is_reference(value: object) -> bool:
    """`{"secret_ref": "<resolver>:<path>"}`, exactly."""
    if not isinstance(value, dict) or value.keys() != {REFERENCE}:
        return False
    text = value[REFERENCE]
    return isinstance(text, str) and bool(_REFERENCE.fullmatch(text))


def _suspects(section: Parsed) -> Iterator[tuple[object, str, str]]:
    """What is a secret: the object that holds it, or the string itself; the pointer from there; the detector."""
    forbidden = [name for name in _names_to_look_at(section.names) if is_forbidden_name(name)]
    for item in section.objects if forbidden else ():
        for name in forbidden:
            if name in item and _is_secret(item[name]):
                yield item, f"/{_escape(name)}", "name"
    if REFERENCE in section.names:
        wrong = (item for item in section.objects if REFERENCE in item and not is_reference(item))
        yield from ((item, f"/{REFERENCE}", "reference") for item in wrong)
    if "kty" in section.names:
        private = (item for item in section.objects if "kty" in item and _PRIVATE_JWK & item.keys())
        yield from ((item, "", "private_jwk") for item in private)
    if _may_hold_shape(section.text):
        texts = set(section.strings())
        # What holds for no text as a whole holds for none of its lines.
        if shape_of("\n".join(texts)):
            found = ((text, shape_of(text)) for text in sorted(texts))
            yield from ((text, "", detector) for text, detector in found if detector)


def _names_to_look_at(names: set[str]) -> set[str]:
    """A gate: a forbidden name holds one of few words, or letters that fold into them."""
    everything = " ".join(names)
    if everything.isascii() and not _holds_last_word(everything.lower()):
        return set()
    return {name for name in names if not name.isascii() or _holds_last_word(name.lower())}


def _holds_last_word(text: str) -> bool:
    for letter, words in _LAST_WORDS:
        if letter in text:
            for word in words:
                if word in text:
                    return True
    return False


def _may_hold_shape(text: str) -> bool:
    """A gate, on the text as it was signed: nothing that the patterns look for is ever escaped there."""
    for gate, other, pattern, strict in _GATES:
        if gate in text and other in text and pattern.search(text) and all(token.search(text) for token in strict):
            return True
    return _may_hold_marked_token(text)


def _may_hold_marked_token(text: str) -> bool:
    left = text.encode("utf-8", "surrogatepass").translate(None, _NO_MARK)
    marked = [patterns for mark, patterns in _MARKS if mark in left]
    return any(all(pattern.search(text) for pattern in patterns) for patterns in marked)


def _is_secret(value: object) -> bool:
    """What must not stand under a forbidden name; an array is looked at element by element."""
    if isinstance(value, list):
        return any(map(_is_secret, value))
    if isinstance(value, (str, dict)):
        return bool(value) and not is_reference(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _words(name: str) -> tuple[str, ...]:
    folded = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    spaced = "".join(f" {c}" if _begins_a_word(folded, index) else c for index, c in enumerate(folded))
    return tuple(word for word in _SEPARATORS.split(spaced.lower()) if word)


def _begins_a_word(name: str, index: int) -> bool:
    """Camel case: a capital after a lower-case letter or digit, or the last of several before a lower-case letter."""
    if index == 0 or not name[index].isupper():
        return False
    before, after = name[index - 1], name[index + 1 : index + 2]
    return before.islower() or before.isdigit() or (before.isupper() and after.islower())


def _ends_in_jwt_header(part: str) -> bool:
    """As a whole, or from one of the first places where an object may begin: `session_eyJ...` holds one too."""
    starts = (match.start() for match in islice(re.finditer("eyJ", part), 16))
    return _is_jwt_header(part) or any(_is_jwt_header(part[start:]) for start in starts if start)


def _is_jwt_header(part: str) -> bool:
    """Whether a base64url part decodes to a JSON object with `alg`: one that begins with `{` or white space."""
    if part[0] not in "eICD":
        return False
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode())
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def _is_login(match: re.Match[str]) -> bool:
    """Whether an authority has a password, and is one. No URL holds a control character; one in another encoding than
    UTF-8 is known by its `://`. Else any large binary file held a password: of random bytes, one in 24 MiB.
    """
    userinfo = match[1]
    if not userinfo.partition(":")[2] or _CONTROL.search(userinfo):
        return False
    return not _NOT_TEXT.search(userinfo) or match.string[match.start() - 1 : match.start()] == ":"


def _pointer(value: object, wanted: object) -> str:
    """The JSON pointer of the first place where `wanted` itself stands, or a name of that text."""
    pending: list[tuple[object, str]] = [(value, "")]
    while pending:
        item, pointer = pending.pop()
        if item is wanted or (isinstance(wanted, str) and item == wanted):
            return pointer
        if isinstance(item, dict):
            if isinstance(wanted, str) and wanted in item:
                return f"{pointer}/(a member name)"
            pending += [(child, f"{pointer}/{_escape(name)}") for name, child in reversed(item.items())]
        elif isinstance(item, list):
            pending += [(child, f"{pointer}/{index}") for index, child in reversed(list(enumerate(item)))]
    return ""


def _escape(name: str) -> str:
    """A pointer's token; a name that is a secret itself is not repeated (threats D-55)."""
    return "(secret)" if shape_of(name) else name.replace("~", "~0").replace("/", "~1")
