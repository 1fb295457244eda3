"""A join file: all that a node needs to join, as one JSON object, made by holdfastctl and read by `holdfast join`.

It holds a token, so it is a secret until that was used or has ended. JSON rather than TOML: a program writes it and a
program reads it; the agent's configuration is made of it and stays the one place that people edit.
"""

from typing import ClassVar, Self

from snapshot.identifiers import is_endpoint
from wire.forms import HASH, IDENTIFIER, TIME, array, binary, integer, member, message, nullable, text
from wire.messages import BadMessageError, Message

FORMAT = 1
MOST_URLS, MOST_ROOTS = 64, 64
TOKEN_BYTES, CA_BYTES = 8 << 10, 64 << 10


class BadInvitationError(ValueError):
    """Not a join file that this version can use; the text says why, and never quotes it."""


@message
class Invitation(Message):
    """`node_id`: None where the node has its own from elsewhere (an image). `ca`: PEM. `expires_at`: of the token."""

    MOST_BYTES: ClassVar[int] = 192 << 10

    holdfast_join_file: int = member(integer(1))
    cluster_id: str = member(IDENTIFIER)
    node_id: str | None = member(nullable(IDENTIFIER))
    site_id: str = member(IDENTIFIER)
    urls: tuple[str, ...] = member(array(text(512), MOST_URLS))
    join_urls: tuple[str, ...] = member(array(text(512), MOST_URLS))
    ca: bytes = member(binary(CA_BYTES))
    root_key_ids: tuple[str, ...] = member(array(HASH, MOST_ROOTS))
    root_threshold: int = member(integer(1, MOST_ROOTS))
    token: str = member(text(TOKEN_BYTES, 1))
    expires_at: int = member(TIME)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """BadInvitationError."""
        try:
            made = cls.parse(data)
        except BadMessageError:
            detail = "it is no join file of this version: make one with holdfastctl allow add NODE --join-file FILE"
            raise BadInvitationError(detail) from None
        if made.holdfast_join_file != FORMAT:
            raise BadInvitationError("it is of a later version: install the holdfast that fits the coordinator")
        if not made.is_whole:
            raise BadInvitationError("what it names cannot be used: make it anew, and do not edit it")
        return made

    @property
    def is_whole(self) -> bool:
        """Whether a node could join by it, as far as the file shows."""
        urls = (*self.urls, *self.join_urls)
        is_public = b"BEGIN CERTIFICATE" in self.ca and b"PRIVATE" not in self.ca
        enough = self.root_threshold <= len(self.root_key_ids)
        return bool(self.urls and self.join_urls) and all(map(is_endpoint, urls)) and is_public and enough
