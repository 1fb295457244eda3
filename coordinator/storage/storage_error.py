"""Why a store could not be brought up to date: slugs for people and metrics, with what to do.

A fault of one file (`is_of_file`) leaves the others to be written; any other ends the round, and the store rests.
"""

from collections.abc import Mapping
from enum import StrEnum


class StorageFault(StrEnum):
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    UNTRUSTED = "untrusted"
    DENIED = "denied"
    CLOCK_APART = "clock_apart"
    NO_SUCH_BUCKET = "no_such_bucket"
    FULL = "full"
    BUSY = "busy"
    REFUSED = "refused"
    BAD_ANSWER = "bad_answer"
    UNUSABLE = "unusable"


class StorageError(Exception):
    """`detail` is bounded, and holds no secret. `retry_after_s`: as the store asks for."""

    def __init__(
        self, fault: StorageFault, detail: str, *, retry_after_s: float | None = None, is_of_file: bool = False
    ) -> None:
        super().__init__(f"{fault}: {detail[:256]}")
        self.fault = fault
        self.detail = detail[:256]
        self.retry_after_s = retry_after_s
        self.is_of_file = is_of_file


REMEDIES: Mapping[str, str] = {
    StorageFault.UNREACHABLE: "look at its address, at the network, and whether it runs",
    StorageFault.TIMED_OUT: "look at the network and at the store: it is tried again by itself",
    StorageFault.UNTRUSTED: "compare its certificate with ca_file, or with what is declared of it",
    StorageFault.DENIED: "look at the credentials, at what they may do (list, put, delete), and at region",
    StorageFault.CLOCK_APART: "set this machine's clock",
    StorageFault.NO_SUCH_BUCKET: "make the bucket, or correct its URL",
    StorageFault.FULL: "make room there",
    StorageFault.BUSY: "it is tried again by itself",
    StorageFault.REFUSED: "look at the store's own log",
    StorageFault.BAD_ANSWER: "look at who answers at that URL",
    StorageFault.UNUSABLE: "put right what is named, on the coordinator's machine",
}
