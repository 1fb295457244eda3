"""The parts of an operation, short enough that a list of routes reads as one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapshot.identifiers import MAX_INTEGER
from wire.endings import EndingThing
from wire.forms import IDENTIFIER, SCOPE, record
from wire.routes import HttpRoute

Value = dict[str, Any]

DOCUMENT = "application/vnd.holdfast.document"
JSON = "application/json"
TEXT = {"type": "string"}
BOOLEAN = {"type": "boolean"}
NUMBER = {"type": "number"}
ANYTHING: Value = {}
TIME = {"type": "string", "format": "date-time"}
COUNT = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
VERSION = {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}

ERROR = {
    "description": "What is wrong, with a stable code: see reasons.md.",
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
}

PARAMETERS: Mapping[str, tuple[Any, str]] = {
    "sha256": ({"type": "string", "pattern": "^[0-9a-f]{64}$"}, "The SHA-256 of the bytes, in hexadecimal."),
    "scope": (SCOPE.schema, "A scope type, or `scope_type/ids`; `/` is written `%2F`."),
    "path": ({"type": "string", "maxLength": 255}, "The file's path; its slashes are slashes."),
    "name": ({"type": "string", "maxLength": 128}, "The name of a section, or of an operator."),
    "snapshot_id": (IDENTIFIER.schema, "A document's id, as the head lists it."),
    "node_id": (IDENTIFIER.schema, "A node."),
    "site_id": (IDENTIFIER.schema, "A site."),
    "coordinator_id": (IDENTIFIER.schema, "A coordinator."),
    "fingerprint": ({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}, "A CA, by the SHA-256 of its DER."),
    "change": ({"type": "string", "pattern": "^c-[1-9][0-9]{0,15}$"}, "A change."),
    "jti": ({"type": "string", "maxLength": 64}, "A token's id."),
    "kind": (TEXT, "A kind of resource."),
    "table": (TEXT, "One of the tables that a page of the verification names."),
    "id": (IDENTIFIER.schema, "The id of a resource."),
    "category": (
        {"enum": ["key_ids", "role_assignments", "service_ids", "endpoints"]},
        "What kind of thing is revoked; a node is revoked as a node.",
    ),
    "value": ({"type": "string", "maxLength": 320}, "What is revoked; `/` is written `%2F`."),
}
"""The named segments of the paths."""


@dataclass(frozen=True)
class Operation:
    """`answers`: by status, each as `answer` makes it. `refusals`: statuses whose body is an error."""

    summary: str
    answers: Mapping[int, Value]
    refusals: tuple[int, ...] = ()
    query: tuple[Value, ...] = ()
    headers: tuple[Value, ...] = ()
    body: Value | None = None
    description: str = ""

    def value(self, route: HttpRoute) -> Value:
        """As OpenAPI has it."""
        path = [_path(name) for name in re.findall(r"{(\w+)", route.template)]
        made: Value = {"operationId": _operation_id(route), "summary": self.summary}
        description = " ".join(part for part in (self.description, _limits(route)) if part)
        if description:
            made["description"] = description
        if parameters := [*path, *self.query, *self.headers]:
            made["parameters"] = parameters
        if self.body is not None:
            made["requestBody"] = self.body
        error = {"$ref": "#/components/responses/Error"}
        made["responses"] = {
            **{str(status): answer for status, answer in self.answers.items()},
            **{str(status): error for status in self.refusals},
            "default": error,
        }
        return made


def answer(description: str, schema: Value | None = None, kind: str = JSON, headers: Value | None = None) -> Value:
    made: Value = {"description": description}
    if headers:
        made["headers"] = headers
    if schema is not None:
        made["content"] = {kind: {"schema": schema}}
    return made


def document(description: str, headers: Value | None = None) -> Value:
    return answer(description, {"type": "string", "contentMediaType": DOCUMENT}, DOCUMENT, headers)


def body(schema: Value, *, required: bool = True, kind: str = JSON) -> Value:
    return {"required": required, "content": {kind: {"schema": schema}}}


def query(name: str, schema: Value, about: str, *, several: bool = False) -> Value:
    shape = {"type": "array", "items": schema} if several else schema
    return {"name": name, "in": "query", "description": about, "schema": shape}


def header(name: str, about: str) -> Value:
    return {"name": name, "in": "header", "description": about, "schema": TEXT}


def shown(headers: Mapping[str, str]) -> Value:
    """Headers of an answer."""
    return {name: {"description": about, "schema": TEXT} for name, about in headers.items()}


def ref(name: str) -> Value:
    return {"$ref": f"#/components/schemas/{name}"}


def closed(required: Mapping[str, Value], **optional: Value) -> Value:
    """An object of these members and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def several(schema: Value) -> Value:
    return {"type": "array", "items": schema}


def named(schema: Value) -> Value:
    """An object whose member names are data."""
    return {"type": "object", "additionalProperties": schema}


def nullable(schema: Value) -> Value:
    return {"anyOf": [schema, {"type": "null"}]}


def schema_of(cls: type) -> Value:
    """As the code reads it."""
    return dict(record(cls).schema)


def _path(name: str) -> Value:
    schema, about = PARAMETERS[name]
    return {"name": name, "in": "path", "required": True, "description": about, "schema": dict(schema)}


def _operation_id(route: HttpRoute) -> str:
    words = re.sub(r"[{}.]", "", route.template).strip("/").split("/")
    return "_".join([route.method.lower(), *(word.replace("-", "_") for word in words if word != "v1")])


def _limits(route: HttpRoute) -> str:
    """What the route's own limits are, where they differ from the listener's."""
    limits = []
    if route.body_bytes is not None:
        limits.append(f"a body of at most {route.body_bytes} bytes")
    if route.deadline_s is not None:
        limits.append(f"an answer within {route.deadline_s:g} s")
    if route.most is not None:
        limits.append(f"at most {route.most} at a time")
    return f"Limits: {', '.join(limits)}." if limits else ""


ENDING = schema_of(EndingThing)
