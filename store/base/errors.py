"""What the store refuses: one exception, many stable slugs, whose meanings and remedies are in snapshot/codes.py."""

from enum import StrEnum


class StoreFault(StrEnum):
    BAD_PERMISSIONS = "bad_permissions"  # rules L23
    BAD_IDENTIFIER = "bad_identifier"  # rules L24
    STORE_LOCKED = "store_locked"  # rules L25
    STORE_FORMAT_NEWER = "store_format_newer"  # rules L37
    STORE_CORRUPT = "store_corrupt"  # rules L30, L31
    STORE_FULL = "store_full"  # rules L35
    STORE_IO = "store_io"
    PROBE_FAILED = "probe_failed"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"  # rules L28, H9
    NOT_DURABLE = "not_durable"
    TOO_LARGE = "too_large"


class StoreError(Exception):
    """The store refuses or cannot go on. `fault` is stable; `detail` names the thing; `remedy` says what to do."""

    def __init__(self, fault: StoreFault, detail: str) -> None:
        # Loaded when it is needed: the probe, which each start waits for, imports this and not the catalogue (L30).
        from snapshot.codes import CATALOGUE, Area  # noqa: PLC0415

        self.fault = fault
        self.detail = detail
        self.remedy = CATALOGUE[Area.STORE][fault].clause
        super().__init__(f"{fault}: {detail}; {self.remedy}")
