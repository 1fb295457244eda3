"""Where a name has led: the address at which its server was last reached, and proved that it is the one (rules K50).

    book.find(endpoint)             that address, or None
    book.note(endpoint, address)    a handshake has succeeded there just now

It is a hint where to connect and nothing else: whoever answers there is judged as anybody, by the name. `Addresses` is
a book for the life of a process.
"""

from typing import Protocol

from wire.endpoint import Endpoint


class AddressBook(Protocol):
    def find(self, endpoint: Endpoint) -> str | None: ...

    def note(self, endpoint: Endpoint, address: str) -> None: ...


class Addresses:
    """As many as there are endpoints."""

    def __init__(self) -> None:
        self._last: dict[Endpoint, str] = {}

    def find(self, endpoint: Endpoint) -> str | None:
        return self._last.get(endpoint)

    def note(self, endpoint: Endpoint, address: str) -> None:
        self._last[endpoint] = address
