"""docs/openapi-*.yaml (OpenAPI 3.1): the route tables of the code, with what each route takes and answers.

    document(api)   the whole document
    text(api)       the same as YAML
    gaps(api)       routes without a description, and descriptions without a route

Methods, paths, body limits and scopes of the messages are the code's; summaries and the rest stand in local.py,
coordinator.py and admin.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from tests.pages.openapi.parts import ERROR, Operation, Value
from wire.forms import record
from wire.messages import ErrorBody
from wire.routes import HttpRoute

Key = tuple[str, str]
"""Method and path template."""


@dataclass(frozen=True)
class Api:
    """One HTTP interface: the routes that the code has, and what is said of each."""

    title: str
    description: str
    servers: tuple[Mapping[str, str], ...]
    routes: tuple[HttpRoute, ...]
    operations: Mapping[Key, Operation]
    schemas: Mapping[str, Value]

    @property
    def described(self) -> dict[Key, tuple[HttpRoute, Operation]]:
        """In the order of the descriptions."""
        routes = {_key(route): route for route in self.routes}
        return {key: (routes[key], operation) for key, operation in self.operations.items() if key in routes}


def document(api: Api) -> Value:
    paths: dict[str, dict[str, Value]] = {}
    for (method, template), (route, operation) in api.described.items():
        paths.setdefault(template.replace("...", ""), {})[method.lower()] = operation.value(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": api.title, "version": "1", "description": " ".join(api.description.split())},
        "servers": list(api.servers),
        "paths": paths,
        "components": {
            "schemas": {**api.schemas, "Error": record(ErrorBody).schema},
            "responses": {"Error": ERROR},
        },
    }


def text(api: Api) -> str:
    head = "# Made from the code by `python -m tests.pages --write`; a test holds it against the code.\n"
    return head + yaml.dump(document(api), Dumper=_Plain, sort_keys=False, width=118, allow_unicode=True)


def gaps(api: Api) -> tuple[list[Key], list[Key]]:
    routed = {_key(route) for route in api.routes}
    return sorted(routed - api.operations.keys()), sorted(api.operations.keys() - routed)


def _key(route: HttpRoute) -> Key:
    return route.method, route.template


class _Plain(yaml.SafeDumper):
    """Without anchors: each part is written out where it stands."""

    def ignore_aliases(self, data: object) -> bool:
        return True
