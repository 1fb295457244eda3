"""What is declared, as an operator looks at it: by pages, whole or as somebody would write it."""

from collections.abc import Callable

from coordinator.api.operator_route import for_operators, parameter, write_answer
from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.base.threads import in_library
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared.kinds import BY_NAME, Resource
from coordinator.declared.model import Key
from coordinator.runtime.context import Coordinator
from snapshot.identifiers import is_id
from wire import forms
from wire.operators.operator_answers import ResourceEntry, ResourcePage
from wire.request import Request, Response
from wire.routes import HttpRoute

MOST = 1_000  # resources in one answer
Spec = Callable[[Resource], dict[str, object]]


class ResourceApi:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("GET", "/v1/resources", for_operators(self.list_resources)),
            HttpRoute("GET", "/v1/resources/{kind}/{id}", for_operators(self.one)),
        )

    async def list_resources(self, request: Request) -> Response:
        """In the order of kind and id; `next` is the one to page on after."""
        kind, after = request.query_one("kind"), _key(request.query_one("after"))
        most = request.query_integer("most", MOST, 1, MOST)
        if kind is not None:
            _check(kind)
        return await in_library(_page, self._at.database, kind, after, most, _spec(request))

    async def one(self, request: Request) -> ResourceEntry:
        kind, id_ = parameter(request, "kind", forms.text(64, 1).takes), parameter(request, "id", is_id)
        _check(kind)
        return await in_library(_find, self._at.database, (kind, id_), _spec(request))


def _page(database: Database, kind: str | None, after: Key | None, most: int, spec: Spec) -> Response:
    kept = _resources(database)
    keys = sorted(key for key in kept if kind in (None, key[0]) and (after is None or key > after))
    shown = tuple(_entry(kept[key], spec) for key in keys[:most])
    return write_answer(ResourcePage("/".join(keys[most - 1]) if len(keys) > most else None, shown))


def _find(database: Database, key: Key, spec: Spec) -> ResourceEntry:
    found = _resources(database).get(key)
    if found is None:
        raise Refused(Code.NOT_FOUND, f"{' '.join(key)} is not declared", remedy="holdfastctl resources list")
    return _entry(found, spec)


def _resources(database: Database) -> dict[Key, Resource]:
    with database.read() as transaction:
        return dict(catalog.load(transaction).resources)


def _entry(resource: Resource, spec: Spec) -> ResourceEntry:
    return ResourceEntry(kind=resource.KIND, id=resource.id, spec=spec(resource))


def _spec(request: Request) -> Spec:
    """`brief=true`: without what goes without saying."""
    wanted = request.query_one("brief")
    if wanted not in (None, "true", "false"):
        raise Refused(Code.BAD_REQUEST, "brief is true or false")
    return Resource.brief if wanted == "true" else Resource.spec


def _check(kind: str) -> None:
    if kind not in BY_NAME:
        raise Refused(
            Code.NOT_FOUND, f"{bound_text(kind, 64)} is no kind of resource", remedy=f"use {', '.join(BY_NAME)}"
        )


def _key(text: str | None) -> Key | None:
    if text is None:
        return None
    kind, _, id_ = text.partition("/")
    if kind not in BY_NAME or not is_id(id_):
        raise Refused(Code.BAD_REQUEST, "`after` is KIND/ID", remedy="give the `next` of an earlier answer")
    return kind, id_
