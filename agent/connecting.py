"""Connections to sources, their TLS made when one is first needed: a file that cannot be used is that source's error.

A CA or a key that is missing is put back by an operator; until then the source fails as one that is not there, with
its back-off, and everything else goes on (rules A14, P1).
"""

from collections.abc import Callable

from wire.certificate import BadCertificateError
from wire.client import ClientError, ClientFault, Connected, HttpsConnector
from wire.endpoint import Endpoint


class LateConnector:
    """`make` reads the files named by `what`; it is called again at each attempt until it succeeds."""

    def __init__(self, make: Callable[[], HttpsConnector], what: str) -> None:
        self._make = make
        self._what = what
        self._made: HttpsConnector | None = None

    async def connect(self, place: Endpoint, seconds: float) -> Connected:
        if self._made is None:
            try:
                self._made = self._make()
            except OSError as error:  # ssl's own are, too
                raise ClientError(ClientFault.TLS_FAILED, f"{self._what}: {error.strerror or error}") from error
            except BadCertificateError as error:
                raise ClientError(ClientFault.TLS_FAILED, f"{self._what}: {error}") from error
        return await self._made.connect(place, seconds)
