"""Which coordinators a node asks, as one `node_bootstrap` after the other lists them (rules L15, P25, X28). Pure.

    listed     what a document says; what is malformed there authorises nothing
    moved      another set is accepted: the one before is kept
    answered   one of the new set has answered once: the ones before go
    asked      all that may be asked now

A set says where to ask and nothing else: whoever answers there shows a chain to the configured CA, and what it gives is
verified. So an endpoint serves on when the document that lists it has expired: nodes would be stranded, nothing gained.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from enum import StrEnum

from snapshot import canonical
from snapshot.frozen import frozen
from wire.endpoint import BadEndpointError, Endpoint

ROW = "coordinators"
SECTION = "cluster"
MOST = 16  # of one set, as the coordinator declares at most


class NamedBy(StrEnum):
    """Who names a source: for the status."""

    CONFIGURATION = "agent.toml"
    BOOTSTRAP = "node_bootstrap"
    EARLIER = "earlier node_bootstrap"
    STORAGE = "storage_directory"
    PEERS = "peer_directory"


@frozen
class EndpointSets:
    """URLs with their ports. `current` is what the accepted document lists; `after_answer`: one of it did, since.

    Until then two more are kept: `proven`, the last set of which one had answered, and `previous`, the one that was
    replaced, where that is another. However many follow each other unanswered, `proven` stays.
    """

    current: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    answered: bool = False

    @property
    def earlier(self) -> tuple[str, ...]:
        return tuple(url for url in dict.fromkeys((*self.proven, *self.previous)) if url not in self.current)

    def to_row(self) -> dict[str, object]:
        return asdict(self)


def from_row(value: object) -> EndpointSets:
    """What is not in form is not known."""
    try:
        sets = EndpointSets(**value) if isinstance(value, dict) else EndpointSets()
    except TypeError:
        return EndpointSets()
    urls = [getattr(sets, field.name) for field in fields(sets) if field.name != "answered"]
    in_form = all(
        isinstance(entry, tuple) and len(entry) <= MOST and all(isinstance(url, str) for url in entry) for entry in urls
    )
    return sets if in_form and isinstance(sets.answered, bool) else EndpointSets()


def bootstrap_urls(section: bytes | None, configured: Collection[Endpoint]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the URLs of a `node_bootstrap`'s section `cluster`, why others of it are passed over)."""
    found: list[str] = []
    passed_over: list[str] = []
    for value in _values(section):
        try:
            url = url_of(_parse(value, configured))
        except BadEndpointError as error:
            passed_over.append(str(error))
            continue
        if url not in found and len(found) < MOST:
            found.append(url)
    return tuple(found), tuple(passed_over[:MOST])


def after_move(before: EndpointSets, current: tuple[str, ...]) -> EndpointSets:
    """The node has accepted a document that lists these."""
    if set(current) == set(before.current):
        return EndpointSets(current, before.previous, before.proven, before.answered)
    if before.answered:
        return EndpointSets(current, proven=before.current)
    return EndpointSets(current, before.current, before.proven)


def after_answer(before: EndpointSets, endpoint: Endpoint) -> EndpointSets:
    """A coordinator has answered as one. Where the document lists none, those of agent.toml are the new set."""
    if before.current and url_of(endpoint) not in before.current:
        return before
    return EndpointSets(before.current, answered=True)


def askable(sets: EndpointSets, configured: Sequence[Endpoint], revoked: Iterable[str] = ()) -> dict[Endpoint, NamedBy]:
    """Each once, in the order in which they are asked at first. Those of agent.toml always are."""
    found = dict.fromkeys(configured, NamedBy.CONFIGURATION)
    known = {url_of(endpoint) for endpoint in configured} | set(map(_normal, revoked))
    for named_by, urls in ((NamedBy.BOOTSTRAP, sets.current), (NamedBy.EARLIER, sets.earlier)):
        for url in urls:
            endpoint = _strict(url)
            if endpoint is not None and url not in known:
                found[endpoint] = named_by
    return found


def url_of(endpoint: Endpoint) -> str:
    """With its port, as a revocation names it (format.md 5)."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"https://{host}:{endpoint.port}"


def _values(section: bytes | None) -> Sequence[object]:
    try:
        value = canonical.loads(section) if section is not None else None
    except canonical.NotCanonical:
        return ()
    urls = value.get("coordinators") if isinstance(value, Mapping) else None
    return urls if isinstance(urls, list) else ()


def _parse(value: object, configured: Collection[Endpoint]) -> Endpoint:
    """One that agent.toml names as well may be where a signed list alone may not lead to (threats D-47)."""
    if not isinstance(value, str):
        raise BadEndpointError("an endpoint is a text")
    lenient = Endpoint.parse(value, configured=True)
    return lenient if lenient in configured else Endpoint.parse(value)


def _strict(url: str) -> Endpoint | None:
    try:
        return Endpoint.parse(url)
    except BadEndpointError:
        return None


def _normal(url: str) -> str:
    try:
        return url_of(Endpoint.parse(url, configured=True))
    except BadEndpointError:
        return url
