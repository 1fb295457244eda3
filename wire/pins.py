"""The table that says which certificate speaks for which node: the DER's hash -> node and state.

It decides after every handshake; TLS only follows it (tls.py). It changes while connections are open: a node that is
no longer active loses them at once, and so does a pin that is taken away (threats M07).
"""

import hmac
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from wire.certificate import BadCertificateError, Certificate, fingerprint
from wire.peer import PinState

PINS_EACH = 2  # that speak for a node: one, and its successor while a renewal goes on (threats D-31)


class PinFault(StrEnum):
    UNREADABLE = "unreadable"
    AUTHORITY = "authority"
    OWN = "own"
    OTHER_NODE = "other_node"
    TOO_MANY = "too_many"


class PinRefusedError(ValueError):
    """A certificate that must not be pinned; the table is as it was."""

    def __init__(self, reason: PinFault, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Pin:
    fingerprint: str
    der: bytes
    node_id: str
    state: PinState


class Follower(Protocol):
    """Who must know what the table holds: the trust store of a listener."""

    def trust_pin(self, pin: Pin) -> None:
        """ssl.SSLError where TLS cannot read it."""

    def distrust_pin(self, pin: Pin) -> None: ...


class PinTable:
    """`own`: our certificates (DER), which nobody else may show (threats M04, rules K34)."""

    def __init__(self, own: Iterable[bytes] = ()) -> None:
        self._own = {fingerprint(der) for der in own}
        self._pins: dict[str, Pin] = {}
        self._by_node: dict[str, set[str]] = {}
        self._open: dict[str, dict[object, Callable[[], None]]] = {}
        self._followers: list[Follower] = []

    def __len__(self) -> int:
        return len(self._pins)

    def __iter__(self) -> Iterator[Pin]:
        return iter(list(self._pins.values()))

    def attach(self, follower: Follower) -> None:
        """Tells a follower of every pin, now and from now on."""
        self._followers.append(follower)

    def find(self, der: bytes) -> Pin | None:
        """The pin of exactly this certificate."""
        shown = fingerprint(der)
        pin = self._pins.get(shown)
        if pin is None or not hmac.compare_digest(pin.der, der):
            return None
        return pin

    def add_own(self, der: bytes) -> None:
        """A further certificate of ours."""
        self._own.add(fingerprint(der))

    def of_node(self, node_id: str) -> list[Pin]:
        return [self._pins[shown] for shown in self._by_node.get(node_id, ())]

    def speaks_for(self, shown: str, node_id: str) -> bool:
        """Whether this certificate is pinned for this node, which is active."""
        pin = self._pins.get(shown)
        return pin is not None and pin.node_id == node_id and pin.state is PinState.ACTIVE

    def add(self, der: bytes, node_id: str, state: PinState = PinState.ACTIVE) -> Pin:
        """Pins a certificate; PinRefusedError where it must not be. Pinned already: its state is set."""
        pin = Pin(self._judge(der, node_id, state), der, node_id, state)
        if pin.fingerprint in self._pins:
            self._change(self._pins[pin.fingerprint], state)
            return self._pins[pin.fingerprint]
        self._trust(pin)
        self._pins[pin.fingerprint] = pin
        self._by_node.setdefault(node_id, set()).add(pin.fingerprint)
        return pin

    def _trust(self, pin: Pin) -> None:
        """First of all: what TLS cannot read is pinned for nobody."""
        try:
            for follower in self._followers:
                follower.trust_pin(pin)
        except ssl.SSLError as error:
            raise _unreadable(pin.node_id) from error

    def set_state(self, node_id: str, state: PinState) -> None:
        """What a node is from now on. Unless it is active, its open connections end; it can come and be told."""
        for pin in self.of_node(node_id):
            self._change(pin, state)

    def remove(self, shown: str) -> None:
        """Forgets one certificate (its successor is in use): its connections end, and TLS will refuse it."""
        pin = self._pins.pop(shown, None)
        if pin is None:
            return
        self._by_node[pin.node_id].discard(shown)
        if not self._by_node[pin.node_id]:
            del self._by_node[pin.node_id]
        self._end_connections(shown)
        for follower in self._followers:
            follower.distrust_pin(pin)

    def bring_to(self, wanted: Iterable[tuple[bytes, str, PinState]]) -> list[PinRefusedError]:
        """Makes the table hold exactly these (DER, node, state); returns why some could not be pinned."""
        wanted = list(wanted)
        keep = {fingerprint(der) for der, _, _ in wanted}
        for pin in self:
            if pin.fingerprint not in keep:
                self.remove(pin.fingerprint)
        refused = []
        for der, node_id, state in wanted:
            try:
                self.add(der, node_id, state)
            except PinRefusedError as error:
                refused.append(error)
        return refused

    def connections_of(self, node_id: str) -> int:
        return sum(len(self._open.get(shown, ())) for shown in self._by_node.get(node_id, ()))

    @contextmanager
    def open_connection(self, shown: str, end: Callable[[], None]) -> Iterator[None]:
        """While the block runs, `end` is called if the pin is taken away or its node is no longer active."""
        key = object()
        self._open.setdefault(shown, {})[key] = end
        try:
            yield
        finally:
            mine = self._open[shown]
            del mine[key]
            if not mine:
                del self._open[shown]

    def _judge(self, der: bytes, node_id: str, state: PinState) -> str:
        known = self._pins.get(fingerprint(der))
        if known is not None:
            if known.node_id != node_id:
                raise PinRefusedError(PinFault.OTHER_NODE, f"the certificate of {node_id} is another node's")
            return known.fingerprint
        certificate = _readable(der, node_id)
        if certificate.fingerprint in self._own:
            raise PinRefusedError(PinFault.OWN, f"the certificate of {node_id} is our own")
        if certificate.is_authority:
            # It could issue certificates in every node's name that TLS would take (threats M02).
            raise PinRefusedError(PinFault.AUTHORITY, f"the certificate of {node_id} is a CA's")
        # Those that are kept so that they can be told are no part of the bound: they speak for nobody.
        if state is PinState.ACTIVE and sum(pin.state is state for pin in self.of_node(node_id)) >= PINS_EACH:
            raise PinRefusedError(PinFault.TOO_MANY, f"{node_id} has {PINS_EACH} certificates already")
        return certificate.fingerprint

    def _change(self, pin: Pin, state: PinState) -> None:
        if pin.state is state:
            return
        self._pins[pin.fingerprint] = replace(pin, state=state)
        self._end_connections(pin.fingerprint)

    def _end_connections(self, shown: str) -> None:
        for end in list(self._open.get(shown, {}).values()):
            end()


def _readable(der: bytes, node_id: str) -> Certificate:
    try:
        return Certificate.read(der)
    except BadCertificateError as error:
        raise _unreadable(node_id) from error


def _unreadable(node_id: str) -> PinRefusedError:
    return PinRefusedError(PinFault.UNREADABLE, f"the certificate of {node_id} cannot be read")
