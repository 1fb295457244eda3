"""What one coordinator asks of another, on the listener that is theirs alone (rules H26, H30, H47).

RecoverRequest    POST /v1/recover: a nonce of this exchange
RecoverAnswer     that nonce, and what a coordinator of this manifest has; no member is missing, short or surplus
"""

from typing import ClassVar

from wire.forms import binary, hexadecimal, member, message
from wire.messages import Message

PATH = "/v1/recover"
NONCE_DIGITS = 64
ANSWER_BYTES = 4 << 20


@message
class RecoverRequest(Message):
    nonce: str = member(hexadecimal(NONCE_DIGITS))


@message
class RecoverAnswer(Message):
    """`seed`, `salt`: 32 bytes each. `mesh_key`: PKCS#8, PEM. `manifest`: canonical JSON. No text of it shows them."""

    MOST_BYTES: ClassVar[int] = ANSWER_BYTES

    nonce: str = member(hexadecimal(NONCE_DIGITS))
    seed: bytes = member(binary(44))
    salt: bytes = member(binary(44))
    mesh_key: bytes = member(binary(16 << 10))
    manifest: bytes = member(binary(ANSWER_BYTES))

    def __repr__(self) -> str:
        return "RecoverAnswer(...)"
