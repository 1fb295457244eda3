"""Whether a value fits a JSON Schema that an operator gave: asked in a process of its own (schema_child.py).

The library is Debian's. Nothing is fetched: a reference leads into the schema itself or is refused, and the registry is
empty. What is said of a value names the place and the rule, never the value: it may be a secret of an unknown kind.
"""

import json
from collections.abc import Iterable, Iterator

import jsonschema  # type: ignore[import-untyped]
import jsonschema.exceptions  # type: ignore[import-untyped]
import referencing
import referencing.exceptions

MOST_FAULTS = 20
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
Fault = tuple[list[str | int], str]  # where in the value, and what is wrong


def faults_of_all(pairs: Iterable[tuple[str, str]]) -> Iterator[list[Fault]]:
    """Of (schema, value), each as JSON; one after the other, so that whoever ends it knows how far it came."""
    return (list(faults_of(schema, value)) for schema, value in pairs)


def faults_of(schema_text: str, value_text: str) -> Iterator[Fault]:
    """The first of them, in the order of their places."""
    try:
        schema = json.loads(schema_text)
    except (ValueError, RecursionError):
        yield [], "the schema is no JSON"
        return
    try:
        value = json.loads(value_text)
    except (ValueError, RecursionError):
        yield [], "is no JSON, which a schema could judge"
        return
    if (leading := next(_leading_elsewhere(schema), None)) is not None:
        yield [], f"the schema refers to {leading[:128]}, and only to itself it may (#/...)"
        return
    yield from _faults_of(schema, value)


def _faults_of(schema: object, value: object) -> Iterator[Fault]:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        found = list(kind(schema, registry=referencing.Registry()).iter_errors(value))
    except jsonschema.exceptions.SchemaError as error:
        yield (
            [],
            f"the schema is none: {_place(error.absolute_path)} is not as {error.validator!r} of its own schema asks",
        )
        return
    except referencing.exceptions.Unresolvable as missing:
        yield [], f"the schema refers to {str(missing.ref)[:128]}, which is not there"
        return
    except RecursionError:
        yield [], "the schema leads round in a circle"
        return
    for violation in sorted(found, key=lambda fault: list(map(str, fault.absolute_path)))[:MOST_FAULTS]:
        yield list(violation.absolute_path), f"is not as `{violation.validator}` of the schema asks"


def _place(path: Iterable[str | int]) -> str:
    return "#" + "".join(f"/{token}" for token in path)


def _leading_elsewhere(schema: object) -> Iterator[str]:
    """References that would have to be fetched."""
    pending = [schema]
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            said = (found.get(name) for name in _REFERENCES)
            yield from (reference for reference in said if isinstance(reference, str) and not reference.startswith("#"))
            pending += found.values()
        elif isinstance(found, list):
            pending += found
