"""What all routes for operators have in common: who may ask, how a body is read, how a refusal is said."""

import os
from collections.abc import Awaitable, Callable, Mapping

from sqlalchemy.exc import SQLAlchemyError

from coordinator.base import requests
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember
from coordinator.declared.resources import InvalidResources
from coordinator.runtime.context import to_operator, unavailable
from wire.peer import OperatorPeer, Peer, UnixPeer
from wire.request import HttpError, Request, Response
from wire.routes import Handler

Answering = Callable[[Request], Awaitable[object]]
"""A handler that gives the JSON value of its answer; or where that is large, the answer, written out already."""


def for_operators(answering: Answering) -> Handler:
    """root and the service's own user (rules K51), and operators that remote_admin.py has let in; everybody else is
    `permission_denied`.
    """

    async def handler(request: Request) -> Response:
        if not _may(request.peer):
            raise HttpError(403, Code.PERMISSION_DENIED.value, "only root and the service's own user may ask here")
        try:
            answer = await answering(request)
            return answer if isinstance(answer, Response) else Response.json(answer)
        except InvalidResources as invalid:  # all of it at once: it may be more than any other refusal says
            problems = [vars(each) for each in invalid.problems]
            body = {"code": invalid.code.value, "message": invalid.detail, "problems": problems}
            return Response.json(body, 422)
        except Refused as refused:
            raise to_operator(refused) from refused
        except SQLAlchemyError as error:
            raise unavailable(error, is_operator=True) from error

    return handler


def _may(peer: Peer) -> bool:
    """Nothing but the admin listener makes an OperatorPeer, as nothing but a Unix socket makes the other."""
    return isinstance(peer, OperatorPeer) or (isinstance(peer, UnixPeer) and peer.uid in (0, os.geteuid()))


async def body_of(request: Request, members: Mapping[str, BodyMember]) -> dict[str, object]:
    """The request's JSON object: closed, each member of its form. An absent body is an empty object."""
    data = await request.body()
    value = requests.parse(data or b"{}", request.body_limit)
    requests.closed(value, members)
    return value


def parameter(request: Request, name: str, accepts: Callable[[object], bool]) -> str:
    """A segment of the path; what is out of form does not exist."""
    text = request.parameters[name]
    if not accepts(text):
        raise Refused(Code.NOT_FOUND, f"there is no such {name}")
    return text
