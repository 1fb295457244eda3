"""Whether a value fits a JSON Schema that an operator gave: asked in a process of its own (schema_child.py).

The library is Debian's. Nothing is fetched: a reference leads into the schema itself or is refused, and the registry is
empty. What is said of a value names the place and the rule, never the value: it may be a secret of an unknown kind.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import jsonschema.exceptions  # type: ignore[import-untyped]
import referencing
import referencing.exceptions

MOST_FAULTS = 20
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
Fault = tuple[list[str | int], str]  # where in the value, and what is wrong


def faults_of_all(schemas: Sequence[str], pairs: Iterable[tuple[int, str]]) -> Iterator[list[Fault]]:
    """Of (which schema, value), each as JSON; one after the other, so that whoever ends it knows how far it came."""
    judges: dict[int, _Judge] = {}
    for which, value in pairs:
        if which not in judges:  # many values of a template may have one
            judges[which] = _Judge(*_validator(schemas[which]))
        yield list(judges[which].faults_of(value))


@dataclass(frozen=True)
class _Judge:
    """A schema, or what is wrong with it."""

    validator: Any  # as the library has it, which has no types
    fault: str

    def faults_of(self, text: str) -> Iterator[Fault]:
        """The first of them, in the order of their places."""
        if self.fault:
            yield [], self.fault
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            yield [], "is no JSON, which a schema could judge"
            return
        try:
            found = list(self.validator.iter_errors(value))
        except referencing.exceptions.Unresolvable as missing:
            yield [], f"the schema refers to {str(missing.ref)[:128]}, which is not there"
            return
        except RecursionError:
            yield [], "the schema leads round in a circle"
            return
        for violation in sorted(found, key=lambda fault: list(map(str, fault.absolute_path)))[:MOST_FAULTS]:
            yield list(violation.absolute_path), f"is not as `{violation.validator}` of the schema asks"


def _validator(text: str) -> tuple[object, str]:
    """It, or nothing and what is wrong."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None, "the schema is no JSON"
    if (leading := next(_leading_elsewhere(schema), None)) is not None:
        return None, f"the schema refers to {leading[:128]}, and only to itself it may (#/...)"
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.exceptions.SchemaError as error:
        place = _place(error.absolute_path)
        return None, f"the schema is none: {place} is not as {error.validator!r} of its own schema asks"
    except referencing.exceptions.Unresolvable as missing:
        return None, f"the schema refers to {str(missing.ref)[:128]}, which is not there"
    except RecursionError:
        return None, "the schema leads round in a circle"
    return kind(schema, registry=referencing.Registry()), ""


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
