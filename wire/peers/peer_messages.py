"""What nodes ask each other, and what they answer (protocol.md 6; rules K5, J45): one class a message, which both sides
read. The set is closed: nobody joins, is removed, votes or is given a configuration here.

    GET  /v1/inventory                 PeerInventory
    POST /v1/standing                  PeerStanding -> 204
    GET  /v1/heads/<sha256 of a node id>?epoch=&generation=     the head, where it is higher; else 204
    GET  /v1/trust?from=N              TrustList, as a coordinator answers (wire/messages.py)
    GET  /v1/documents/<snapshot id>   the document
    GET  /v1/manifests/<snapshot id>   the same without its sections: what is signed, and the hash of each section
    GET  /v1/sections/<sha256>         the bytes of one section
"""

from collections.abc import Mapping
from typing import ClassVar

from wire.answer_message import AnswerMessage
from wire.forms import DIGEST, IDENTIFIER, binary, integer, member, message, nullable, record, table
from wire.messages import Message

INVENTORY_BYTES = 1 << 20
INVENTORY_HEADS = 4096
HEAD_BYTES = 5 << 20
RUNTIME_BYTES = 256 << 10


@message
class HeldPair:
    """Of a head: what decides which of two is the newer one (rules K32)."""

    authority_epoch: int = member(integer(1))
    generation: int = member(integer(1))

    @property
    def pair(self) -> tuple[int, int]:
        return self.authority_epoch, self.generation


@message
class PeerInventory(AnswerMessage):
    """What a node has for who asks. Heads go by the SHA-256 of the node id, which tells nobody of whom he knows not."""

    MOST_BYTES: ClassVar[int] = INVENTORY_BYTES

    cluster_id: str = member(IDENTIFIER)
    trust_bundle_version: int = member(integer())
    heads: Mapping[str, HeldPair] = member(table(DIGEST, record(HeldPair), INVENTORY_HEADS))


@message
class PeerStanding(Message):
    """What who asks may hold, as the coordinator has signed it: containers of its head, and of its `node_runtime`
    without sections, whose envelope names its organizations.
    """

    MOST_BYTES: ClassVar[int] = 8 << 20

    head: bytes = member(binary(HEAD_BYTES))
    runtime: bytes | None = member(nullable(binary(RUNTIME_BYTES)), default=None)
