"""What a store of published files has to do, whatever it is: list, put, remove. It is opened for one round each time.

    async with opened() as store:            credentials and certificates as they are now
        present = await store.listing()

A `mark` says which bytes lie under a name, as the store itself tells it: another mark, and somebody has changed them.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from coordinator.storage.payload import Payload

MOST_LISTED = 1_000_000  # files; ten thousand nodes with a hundred of their own. What lists more is no store of ours


class FileStore(Protocol):
    """Every error is a StorageError. Only names of ours are listed."""

    @property
    def workers(self) -> int:
        """How many files are put at a time."""

    async def listing(self) -> Mapping[str, str]:
        """path -> mark."""

    async def put(self, path: str, payload: Payload, present: str | None) -> str:
        """Its mark. Whole or not at all; where `present`, the mark of what lies there, is of these bytes already,
        nothing need be sent.
        """

    async def replace(self, path: str, payload: Payload, mark: str) -> str | None:
        """In the place of what bears this mark, and its own mark then; None where that lies there no more."""

    async def remove(self, path: str) -> None:
        """Gone already is as good."""

    async def settle(self) -> None:
        """What was put and removed is durable."""


OpenStore = Callable[[], AbstractAsyncContextManager[FileStore]]
