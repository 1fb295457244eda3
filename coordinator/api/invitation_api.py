"""What a node has to know before it can join: whom to ask, whose certificates to believe, whose signatures.

None of it is a secret; a token is made beside it (admission.py), and both go into one join file.
"""

import ssl
from pathlib import Path

from coordinator.api.operator_route import for_operators
from coordinator.base.refusal import Code, Refused
from coordinator.base.threads import in_library
from coordinator.database import cluster_state
from coordinator.membership import admission, ca_exchange, replicas
from coordinator.runtime.context import Coordinator
from wire.endpoint import BadEndpointError, Endpoint
from wire.operators.operator_answers import JoinFacts
from wire.request import Request
from wire.routes import HttpRoute

CA_BYTES = 64 << 10


class InvitationApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (HttpRoute("GET", "/v1/invitation", for_operators(self.invitation)),)

    async def invitation(self, _request: Request) -> JoinFacts:
        return await in_library(_invitation, self._at)


def _invitation(at: Coordinator) -> JoinFacts:
    with at.database.read() as transaction:
        cluster_id = cluster_state.standing(transaction).cluster_id
        pins = admission.first_roots(transaction)
    if pins is None:
        raise Refused(Code.NO_STATE, "there is no trust bundle yet", remedy="holdfastctl trust add")
    urls = [replica.url for replica in replicas.list_replicas(at.database)]
    return JoinFacts(
        cluster_id=cluster_id,
        urls=tuple(urls),
        join_urls=tuple(_at_port(url, at.join_port) for url in urls),
        ca=_listed_text(at) or _text(at.node_authority),
        root_key_ids=tuple(pins.root_key_ids),
        root_threshold=pins.threshold,
    )


def _listed_text(at: Coordinator) -> str:
    """What members are told to believe, where they are told anything: over an exchange both."""
    return "".join(map(ssl.DER_cert_to_PEM_cert, ca_exchange.listed_authorities(at.database)))


def _at_port(url: str, port: int) -> str:
    """The same host at the join listener, as this coordinator has it: those of a cluster are set up alike."""
    try:
        host = Endpoint.parse(url, configured=True).host
    except BadEndpointError as error:
        raise Refused(Code.INVALID_RESOURCES, f"{url} is no URL that a node could ask: {error}") from error
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _text(path: Path) -> str | None:
    """None where the certificate has come from elsewhere: the operator names its CA."""
    try:
        text = path.read_text("ascii")
    except (OSError, ValueError):
        return None
    return text if "PRIVATE" not in text and len(text) <= CA_BYTES else None
