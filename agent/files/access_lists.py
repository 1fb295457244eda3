"""POSIX access lists, as the kernel keeps them (acl(5)): who reads a file or folder beside its owner.

The owner of a file sets them without any right of its own, and they name users as well as groups: so that files can be
for exactly whom `[access]` names. Others have nothing, and the overflow account has nothing by any group (threats U06).
"""

import contextlib
import errno
import os
import struct
from collections.abc import Iterator

from agent.access.access import Readers
from wire.peer import OVERFLOW_UID

ATTRIBUTE = "system.posix_acl_access"
VERSION = 2
_OWNER, _USER, _GROUP_OBJECT, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 2**32 - 1
_NONE = (errno.ENODATA, errno.EOPNOTSUPP)


def access_list(readers: Readers, mode: int) -> bytes:
    """`mode`: its bits of the owner for the owner, those of the group for each reader."""
    owner, reader = mode >> 6 & 7, mode >> 3 & 7
    entries = [
        (_OWNER, owner, _NO_ID),
        *((_USER, 0 if uid == OVERFLOW_UID else reader, uid) for uid in sorted(readers.uids | {OVERFLOW_UID})),
        (_GROUP_OBJECT, 0, _NO_ID),
        *((_GROUP, reader, gid) for gid in sorted(readers.gids)),
        (_MASK, reader, _NO_ID),
        (_OTHER, 0, _NO_ID),
    ]
    return struct.pack("<I", VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def set_list(descriptor: int, wanted: bytes) -> None:
    """Nothing: the mode alone counts. OSError EOPNOTSUPP where the file system keeps none."""
    if wanted:
        os.setxattr(descriptor, ATTRIBUTE, wanted)
        return
    with _none_there():
        os.removexattr(descriptor, ATTRIBUTE)


def list_of(descriptor: int) -> bytes:
    with _none_there():
        return os.getxattr(descriptor, ATTRIBUTE)
    return b""


@contextlib.contextmanager
def _none_there() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NONE:
            raise
