"""Where an Expectation looks: its scope and its pointer, read. Pure.

    read_place(scope, pointer)    ExpectedPlace, or WrongPlaceError
    faults_of(expectation)        what is wrong with one by itself

    /routes/north/ttl_s          in a scope of JSON: a section, and a JSON pointer (RFC 6901) into it
    nginx.conf                   of a Config: a file, by its path as `files` has it
    limits.json#/tables/users    what stands in a file that holds JSON; `limits.json#` is all of it

The `#` is that of a URL: what is left of it names a file, what is right of it leads into it; no path of a file holds
one. Rejected: one pointer through path and content, `/conf.d/limits.json/tables`, where nobody can tell where the path
ends, and which would change its meaning with a file that comes beside it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator.declared.config_scope import CONFIG
from coordinator.declared.fields import CONTAINS, EQUALS, FieldFault, is_file_path
from coordinator.declared.kinds import Expectation
from coordinator.declared.views import VIEWS
from snapshot.identifiers import ONE_EACH, Scope, is_section_name, parse_scope
from snapshot.limits import DEFAULT

_BAD_ESCAPE = re.compile(r"~(?![01])")


class WrongPlaceError(ValueError):
    """What is wrong with one member of an Expectation, and the remedy."""

    def __init__(self, member: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.member, self.message, self.remedy = member, message, remedy


@dataclass(frozen=True)
class ExpectedPlace:
    """`name`: a section, or a file. `tokens`: the way into it; None for a file as it is."""

    scope: Scope
    name: str
    tokens: tuple[str, ...] | None


def read_place(scope: str, pointer: str) -> ExpectedPlace:
    """WrongPlaceError for what leads nowhere in any scope."""
    found = _scope(scope)
    return _file_place(found, pointer) if found.type == CONFIG else _section_place(found, pointer)


def faults_of(expectation: Expectation) -> Iterator[FieldFault]:
    """Beside the form of each of its members."""
    try:
        place = read_place(expectation.scope, expectation.pointer)
    except WrongPlaceError as error:
        yield FieldFault(("spec", error.member), error.message, error.remedy)
        return
    if place.scope.type != CONFIG or place.tokens is not None or not isinstance(expectation.is_, Mapping):
        return
    for word, wanted in expectation.is_.items():
        if word in (EQUALS, CONTAINS) and not (isinstance(wanted, str) and wanted):
            yield FieldFault(("spec", "is", word), "a file holds text", "write text, or look into the file: FILE#/...")


def _scope(scope: str) -> Scope:
    try:
        found = parse_scope(scope)
    except ValueError as error:
        remedy = "write route_policy, service_assignment/ID, config/ID and the like"
        raise WrongPlaceError("scope", f"is no scope: {error}", remedy) from None
    if found.type not in VIEWS:
        raise WrongPlaceError("scope", f"{found.type} is not compiled from resources", f"use {', '.join(VIEWS)}")
    if len(found.ids) != (found.type in ONE_EACH):
        remedy = f"write {found.type}/ID" if found.type in ONE_EACH else f"write {found.type}"
        raise WrongPlaceError("scope", "is no scope that a node holds", remedy)
    return found


def _section_place(scope: Scope, pointer: str) -> ExpectedPlace:
    name, *tokens = _tokens(pointer) or [""]
    if not is_section_name(name):
        raise WrongPlaceError("pointer", "is no pointer into a section", "write /SECTION/..., as /routes/north/ttl_s")
    return ExpectedPlace(scope, name, tuple(tokens))


def _file_place(scope: Scope, pointer: str) -> ExpectedPlace:
    path, sharp, inside = pointer.partition("#")
    if not is_file_path(path):
        remedy = "write the file's path as `files` has it, and FILE#/... for what stands in it"
        raise WrongPlaceError("pointer", "does not begin with the path of a file", remedy)
    return ExpectedPlace(scope, path, tuple(_tokens(inside)) if sharp else None)


def _tokens(pointer: str) -> list[str]:
    if (pointer and not pointer.startswith("/")) or _BAD_ESCAPE.search(pointer):
        raise WrongPlaceError("pointer", "is no JSON pointer", "write /a/b; ~1 stands for a slash in a name, ~0 for ~")
    tokens = pointer.split("/")[1:]
    if len(tokens) > DEFAULT.pointer_tokens:
        raise WrongPlaceError(
            "pointer", f"goes deeper than {DEFAULT.pointer_tokens} names", "name something further up"
        )
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens]
