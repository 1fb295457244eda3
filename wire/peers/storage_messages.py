"""What coordinators and storage nodes say to each other (protocol.md 7); both sides read it.

GET    /<folder>/<name>         a file, for anybody who knows its name
PUT    /<folder>/<name>         for coordinators that the node pins -> KeptFile
DELETE /<folder>/<name>         likewise -> 204
GET    /v1/files?after=<path>   likewise -> FileListing
"""

from collections.abc import Mapping
from typing import ClassVar

from wire.answer_message import AnswerMessage
from wire.forms import DIGEST, member, message, table, text

LISTED = 10_000


@message
class KeptFile(AnswerMessage):
    """`sha256`: of the bytes that lie there now."""

    sha256: str = member(DIGEST)


@message
class FileListing(AnswerMessage):
    """path -> SHA-256 of the bytes, in byte order of the paths; `is_more`: there are others after the last one."""

    MOST_BYTES: ClassVar[int] = 4 << 20

    files: Mapping[str, str] = member(table(text(80, 1), DIGEST, LISTED))
    is_more: bool
