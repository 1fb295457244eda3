"""What the store refuses, and the remedy: one exception, many stable slugs."""

from enum import StrEnum


class StoreFault(StrEnum):
    BAD_PERMISSIONS = "bad_permissions"  # rules L23: open to others, another owner, a link
    BAD_IDENTIFIER = "bad_identifier"  # rules L24: not an id, so never a path
    STORE_LOCKED = "store_locked"  # rules L25: another agent has the root
    STORE_FORMAT_NEWER = "store_format_newer"  # rules L37: a later version of Holdfast wrote the store
    STORE_CORRUPT = "store_corrupt"  # rules L30, L31: bytes that are not what they were
    STORE_FULL = "store_full"  # rules L35: the map or the disk
    STORE_IO = "store_io"  # the disk said no
    PROBE_FAILED = "probe_failed"  # the store could not be examined, for a cause outside of it
    NOT_FOUND = "not_found"  # nothing of that name is held
    CONFLICT = "conflict"  # rules L28, H9: what is active is not what was expected
    NOT_DURABLE = "not_durable"  # an activation without its bytes in the pending slot
    TOO_LARGE = "too_large"  # a value or a count beyond its bound


REMEDY = {
    StoreFault.BAD_PERMISSIONS: "give it to the agent's user alone (chown, chmod 0700 for directories, 0600 for files)",
    StoreFault.BAD_IDENTIFIER: "use an id as format.md 1 has it: lower-case letters, digits, '.', '_' and '-'",
    StoreFault.STORE_LOCKED: "stop the other agent, or give this one a state directory of its own",
    StoreFault.STORE_FORMAT_NEWER: "install the version of Holdfast that wrote it, or a newer one; nothing was changed",
    StoreFault.STORE_CORRUPT: "restart the agent: it sets the damage aside and fetches what is missing",
    StoreFault.STORE_FULL: "free space on the file system, or raise the map size; what is active stays active",
    StoreFault.STORE_IO: "look at the disk and the kernel's log; what is active stays active",
    StoreFault.PROBE_FAILED: "start again; if it stays, reinstall the agent's package; the store was not touched",
    StoreFault.NOT_FOUND: "list what is held, and ask for that",
    StoreFault.CONFLICT: "read what is active now, and verify the document against it again",
    StoreFault.NOT_DURABLE: "bring the document through a pending slot first",
    StoreFault.TOO_LARGE: "keep it within the bound that the message names",
}


class StoreError(Exception):
    """The store refuses or cannot go on. `fault` is stable; `detail` names the thing; `remedy` says what to do."""

    def __init__(self, fault: StoreFault, detail: str) -> None:
        super().__init__(f"{fault}: {detail}; {REMEDY[fault]}")
        self.fault = fault
        self.detail = detail
        self.remedy = REMEDY[fault]
