"""What all routes for operators have in common: who may ask, how a body is read, how a refusal is said."""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_planner
from coordinator.declared.resources import InvalidResources
from coordinator.runtime.context import status_of, to_operator, unavailable
from wire.answer_message import AnswerMessage
from wire.messages import BadMessageError, Message
from wire.operators.operator_answers import OperatorRefusal, ResourceProblem
from wire.peer import OperatorPeer, Peer, UnixPeer
from wire.request import HttpError, Request, Response
from wire.routes import Handler

Read = TypeVar("Read", bound=Message)

AT_ONCE_BYTES = 64 * 1024  # a larger body is read on a thread: it would hold everybody up, nodes as well

Answering = Callable[[Request], Awaitable[AnswerMessage | Response]]
"""A handler that gives its answer; or where that is large, written out already."""


def for_operators(answering: Answering) -> Handler:
    """root and the service's own user (rules K51), and operators that remote_admin.py has let in; everybody else is
    `permission_denied`.
    """

    async def handler(request: Request) -> Response:
        if not _may(request.peer):
            raise HttpError(403, Code.PERMISSION_DENIED.value, "only root and the service's own user may ask here")
        try:
            answer = await answering(request)
            return answer if isinstance(answer, Response) else write_answer(answer)
        except Refused as refused:
            if isinstance(refused, InvalidResources) or refused.lines:
                return Response.json(refusal_of(refused).to_value(), status_of(refused.code))
            raise to_operator(refused) from refused
        except SQLAlchemyError as error:
            raise unavailable(error, is_operator=True) from error

    return handler


def refusal_of(refused: Refused) -> OperatorRefusal:
    """All of it at once: of files it may be more than any other refusal says."""
    if isinstance(refused, InvalidResources):
        problems = tuple(ResourceProblem(**vars(problem)) for problem in refused.problems)
        return OperatorRefusal(refused.code.value, refused.detail, problems)
    said = to_operator(refused).message
    return OperatorRefusal(refused.code.value, said, None, refused.lines or None, refused.remedy or None)


def write_answer(answer: AnswerMessage) -> Response:
    return Response.json(answer.to_value())


def _may(peer: Peer) -> bool:
    """Nothing but the admin listener makes an OperatorPeer, as nothing but a Unix socket makes the other."""
    return isinstance(peer, OperatorPeer) or (isinstance(peer, UnixPeer) and peer.uid in (0, os.geteuid()))


async def message_of(request: Request, kind: type[Read]) -> Read:
    """The request's body, as the message says. An absent body is an empty object."""
    data = await request.body() or b"{}"
    try:
        if len(data) <= AT_ONCE_BYTES:
            return kind.parse(data, request.body_limit)
        return await in_planner(kind.parse, data, request.body_limit)
    except BadMessageError as error:
        raise Refused(Code.BAD_REQUEST, str(error)) from error


def parameter(request: Request, name: str, accepts: Callable[[object], bool]) -> str:
    """A segment of the path; what is out of form does not exist."""
    text = request.parameters[name]
    if not accepts(text):
        raise Refused(Code.NOT_FOUND, f"there is no such {name}")
    return text
