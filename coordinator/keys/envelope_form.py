"""The envelopes of many documents that have most members in common: written once, with gaps for the others.

    EnvelopeForm(envelope, gaps)    `envelope`: the bytes of one of them; `gaps`: the members that each has of its own
    form.fill(members)              the bytes of another one

A fleet's heads differ in four members of twenty. To write an envelope anew takes longer than to sort, look at and write
those four; and to know that one is like another that was judged, it is written from that and compared.
"""

from collections.abc import Mapping
from json.encoder import encode_basestring

from snapshot import canonical
from snapshot.identifiers import format_time

_TIMES = frozenset({"issued_at", "valid_from", "refresh_after", "expires_at"})
_NUMBERS = frozenset({"config_version", "content_length"})


class EnvelopeForm:
    """Of an envelope, whose names need no escapes; what its members say may need some."""

    def __init__(self, envelope: bytes, gaps: tuple[str, ...]) -> None:
        members = canonical.reread(envelope)
        if not isinstance(members, dict) or not members.keys() >= set(gaps):
            raise AssertionError("an envelope is an object of these members")
        kept = {name: canonical.dumps(value).decode().replace("%", "%%") for name, value in members.items()}
        self._form = canonical.join(kept | {name: f"%({name})s" for name in gaps})
        self._times, self._numbers = _TIMES.intersection(gaps), _NUMBERS.intersection(gaps)
        self._texts = [name for name in gaps if name not in _TIMES | _NUMBERS]

    def fill(self, members: Mapping[str, object]) -> bytes:
        """`members`: as an envelope has them; times are Unix seconds. AssertionError for one of another type."""
        own = {}
        for name in self._texts:
            if not isinstance(text := members[name], str):
                raise AssertionError(f"{name} of an envelope is a string")
            own[name] = encode_basestring(text)  # in C; its escapes are those of RFC 8785
        for name in self._times:
            if not isinstance(seconds := members[name], int | float):
                raise AssertionError(f"{name} of an envelope is a time")
            own[name] = f'"{format_time(seconds)}"'
        for name in self._numbers:
            if type(number := members[name]) is not int:  # a bool is written otherwise
                raise AssertionError(f"{name} of an envelope is an integer")
            own[name] = str(number)
        return (self._form % own).encode()
