"""The last working address of each source, over restarts (rules K50, P16, L5, L14): DNS may be down when a node starts.

    KeptAddresses    what wire/client.py asks and tells; `row` is what is kept of it

A node that has been reached before needs no DNS to be reached again: the address is tried beside the look-up, once that
takes long. It is kept for a month after it has last worked (an answer of a coordinator counts as well), and the name's
next working address takes its place. It gives no authority (rules L3, L17): whoever is there now shows a chain for the
name, or a pinned certificate, or nobody is spoken to; and a signed name is led by it to no place where DNS may not lead
it either (threats D-47).

Rejected: keeping all addresses that DNS has given, which have never answered; a date of the record's own (TTL), which
says when to ask again, and asking is what fails; keeping it for ever, since machines go and addresses are given anew.
"""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.state.endpoint_sets import url_of
from wire.endpoint import Endpoint

MOST = 64
KEPT_S = 30 * 86_400
FRESH_S = 86_400  # what has worked so lately is not written again


@dataclass(frozen=True)
class LastAddress:
    """`worked_at`: Unix seconds by the guarded clock."""

    address: str
    worked_at: int


class KeptAddresses:
    """`now`: Unix seconds. `row`: as a former process kept it; what is not in form is not known."""

    def __init__(self, row: object, now: Callable[[], float]) -> None:
        self._now = now
        self._kept = _read_row(row)
        self.is_changed = False

    def find(self, endpoint: Endpoint) -> str | None:
        last = self._kept.get(url_of(endpoint))
        if last is None or self._now() - last.worked_at > KEPT_S:
            return None
        return last.address if endpoint.allows(ipaddress.ip_address(last.address)) else None

    def note(self, endpoint: Endpoint, address: str) -> None:
        """Of a host that is an address nothing is kept: there is no name to ask for."""
        plain, now, url = address.partition("%")[0], int(self._now()), url_of(endpoint)
        if plain == endpoint.host or "%" in address:
            return
        before = self._kept.get(url)
        if before is not None and before.address == plain and 0 <= now - before.worked_at < FRESH_S:
            return
        self._kept[url] = LastAddress(plain, now)
        self._forget(now)
        self.is_changed = True

    def note_answer(self, endpoint: Endpoint) -> None:
        """Over a connection that stands: it may do so for longer than an address is kept."""
        last = self._kept.get(url_of(endpoint))
        if last is not None:
            self.note(endpoint, last.address)

    def to_row(self) -> dict[str, object]:
        """It is as kept from here on, unless it changes again."""
        self.is_changed = False
        return {url: {"address": last.address, "worked_at": last.worked_at} for url, last in self._kept.items()}

    def _forget(self, now: int) -> None:
        """The old ones, and of too many those that have worked the longest ago."""
        newest = sorted(self._kept.items(), key=lambda item: item[1].worked_at, reverse=True)[:MOST]
        self._kept = {url: last for url, last in newest if now - last.worked_at <= KEPT_S}


def _read_row(row: object) -> dict[str, LastAddress]:
    entries = list(row.items())[:MOST] if isinstance(row, Mapping) else []
    found = {url: _read(entry) for url, entry in entries if isinstance(url, str)}
    return {url: last for url, last in found.items() if last is not None}


def _read(entry: object) -> LastAddress | None:
    if not isinstance(entry, Mapping):
        return None
    address, worked_at = entry.get("address"), entry.get("worked_at")
    if not isinstance(address, str) or not isinstance(worked_at, int):
        return None
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return None
    return LastAddress(address, worked_at)
