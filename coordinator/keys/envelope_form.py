"""The envelopes of many documents that have most members in common: written once, with gaps for the others.

    EnvelopeForm(envelope, gaps)    `envelope`: the bytes of one of them; `gaps`: the members that each has of its own
    form.fill(members)              the bytes of another one

A fleet's heads differ in four members of twenty. To write an envelope anew takes longer than to sort, look at and write
those four; and to know that one is like another that was judged, it is written from that and compared.
"""

from collections.abc import Mapping

from snapshot import canonical
from snapshot.identifiers import format_time

_TIMES = frozenset({"issued_at", "valid_from", "refresh_after", "expires_at"})
_NUMBERS = frozenset({"config_version", "content_length"})


class EnvelopeForm:
    """Of a good envelope: none of its members has a percent sign, a quote or an escape, nor have those for the gaps."""

    def __init__(self, envelope: bytes, gaps: tuple[str, ...]) -> None:
        members = canonical.reread(envelope)
        if not isinstance(members, dict) or not members.keys() >= set(gaps):
            raise AssertionError("an envelope is an object of these members")
        text = canonical.dumps(members | {name: f"%({name})s" for name in gaps}).decode()
        for name in _NUMBERS.intersection(gaps):
            text = text.replace(f'"%({name})s"', f"%({name})s")
        self._text, self._gaps = text, [(name, name in _TIMES) for name in gaps]

    def fill(self, members: Mapping[str, object]) -> bytes:
        """`members`: as an envelope has them; times are Unix seconds."""
        own = {name: format_time(members[name]) if is_time else members[name] for name, is_time in self._gaps}  # type: ignore[arg-type]
        return (self._text % own).encode()
