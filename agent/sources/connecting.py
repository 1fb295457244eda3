"""Connections to sources, their TLS made when one is first needed: a file that cannot be used is that source's error.

    authority_connector(...)   by the CAs that are believed (authorities.py)
    mirror_connector(...)      by what the mirror's own entry says of its server

A CA or a key that is missing is put back by an operator; until then the source fails as one that is not there, with
its back-off, and everything else goes on (rules A14, P1).
"""

from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

import trio

from agent.sources.authorities import BelievedAuthorities
from snapshot.mirrors import MirrorTls
from wire.addresses import AddressBook, Addresses
from wire.certificate import BadCertificateError, Certificate
from wire.client import ClientError, ClientFault, Connected, HttpsConnector
from wire.endpoint import Endpoint
from wire.tls_contexts import EmptyTrustError, TlsIdentity


def authority_connector(
    believed: BelievedAuthorities, file: Path | None, identity: TlsIdentity | None = None
) -> HttpsConnector:
    """To whoever shows a chain to a CA that is believed. OSError, ssl's own among them."""
    return HttpsConnector.to_authority(file if believed.with_file else None, identity, believed.ders)


def mirror_connector(tls: MirrorTls, system_roots: Path) -> HttpsConnector:
    """ClientError where one of its CAs is none: it would vouch for itself."""
    try:
        is_good = all(Certificate.read(der).is_authority for der in tls.authorities)
    except BadCertificateError:
        is_good = False
    if not is_good:
        raise ClientError(ClientFault.UNTRUSTED_MIRROR, "one of its `authorities` is no CA")
    return HttpsConnector.to_mirror(tls, system_roots)


class LateConnector:
    """`make` reads the files named by `what`; it is called again at each attempt until it succeeds.

    `addresses`: where names have led; they outlive this connector. `cut_off` ends every connection that was made, also
    one that is read from, and lets no more be made.
    """

    def __init__(self, make: Callable[[], HttpsConnector], what: str, addresses: AddressBook | None = None) -> None:
        self._make = make
        self._what = what
        self._addresses = addresses or Addresses()
        self._made: HttpsConnector | None = None
        self._open: WeakSet[trio.abc.Stream] = WeakSet()
        self._is_cut_off = False

    async def connect(self, place: Endpoint, seconds: float) -> Connected:
        if self._made is None:
            try:
                self._made = self._make()
                self._made.remember_in(self._addresses)
            except OSError as error:  # ssl's own are, too
                raise ClientError(ClientFault.TLS_FAILED, f"{self._what}: {error.strerror or error}") from error
            except (BadCertificateError, EmptyTrustError) as error:
                raise ClientError(ClientFault.TLS_FAILED, f"{self._what}: {error}") from error
        self._refuse_when_cut_off(place)
        connected = await self._made.connect(place, seconds)
        self._open.add(connected.stream)
        if self._is_cut_off:  # while it was made
            await self.cut_off()
        self._refuse_when_cut_off(place)
        return connected

    async def cut_off(self) -> None:
        """Who reads from a connection gets a ClientError, as if the other end had gone."""
        self._is_cut_off = True
        while self._open:
            await trio.aclose_forcefully(self._open.pop())

    def _refuse_when_cut_off(self, place: Endpoint) -> None:
        if self._is_cut_off:
            raise ClientError(ClientFault.CONNECT_FAILED, f"{place} is asked no more")
