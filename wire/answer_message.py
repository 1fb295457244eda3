"""What a coordinator answers its operators, and an agent its node's services: one class an answer, written by the one
and read by the other.

What is out of form is refused. A member that is unknown is passed over: a later release may have added it.
"""

from typing import ClassVar, Self

from wire.forms import MESSAGE, message, record
from wire.messages import Message
from wire.strict_json import parse_json

ANSWER_BYTES = 1 << 30  # a plan for all nodes of a fleet; who asks has asked for it
DEPTH = 64  # it holds what was declared


class AnswerMessage(Message):
    MOST_BYTES: ClassVar[int] = ANSWER_BYTES

    @classmethod
    def read(cls, data: bytes) -> Self:
        """BadMessageError for what is out of form."""
        return cls.from_value(parse_json(data, cls.MOST_BYTES, DEPTH, fractions=True))

    @classmethod
    def from_value(cls, value: object) -> Self:
        """Of JSON that was parsed elsewhere. BadMessageError for what is out of form."""
        form = record(cls)
        return form.read(form.known_part(value), MESSAGE)


@message
class AnswerPage(AnswerMessage):
    """One part of a list. `next`: the entry to page on after, null on the last."""

    next: str | None
