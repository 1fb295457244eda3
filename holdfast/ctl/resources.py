"""`holdfastctl resources`: what is declared, to look at and to take away."""

import json
from collections.abc import Mapping
from dataclasses import asdict

import click

from holdfast.ctl import output
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from holdfast.terminal.shown import say
from wire.operators.operator_answers import ResourceEntry, ResourcePage

# Read by a person from the top: what others name stands first.
ORDER = ("Cluster", "Site", "Organization", "Node", "Service", "Route")
_KIND = click.option("--kind", metavar="KIND", help="Of this kind alone, as `Node`.")


@click.group()
def resources() -> None:
    """What is declared."""


@resources.command("list")
@_KIND
@asks_the_coordinator
def list_(asked: CoordinatorClient, kind: str | None) -> None:
    """Every resource, by kind and id, and what stands out in it."""
    found = _all(asked, kind)
    asked.show(_value(found), lambda _: _render(found))


@resources.command()
@click.argument("kind")
@click.argument("id_", metavar="ID")
@asks_the_coordinator
def get(asked: CoordinatorClient, kind: str, id_: str) -> None:
    """One resource, with every member."""
    asked.show(asked.get(ResourceEntry, "resources", kind, id_), lambda answer: say(*_yaml([answer])))


@resources.command()
@_KIND
@asks_the_coordinator
def export(asked: CoordinatorClient, kind: str | None) -> None:
    """All of it as YAML that `apply -f` takes back unchanged: to keep, to compare, to begin another cluster with."""
    found = sorted(_all(asked, kind), key=_in_order)
    asked.show(_value(found), lambda _: say(*_yaml(found)))


def _all(asked: CoordinatorClient, kind: str | None) -> list[ResourceEntry]:
    return [
        resource
        for page in asked.pages(ResourcePage, "resources", kind=kind, brief="true")
        for resource in page.resources
    ]


def _value(found: list[ResourceEntry]) -> object:
    return {"resources": [resource.to_value() for resource in found]}


def _in_order(entry: ResourceEntry) -> tuple[int, str, str]:
    kind = entry.kind
    return ORDER.index(kind) if kind in ORDER else len(ORDER), kind, entry.id


def _yaml(entries: list[ResourceEntry]) -> list[str]:
    from holdfast.ctl import declared_text  # noqa: PLC0415 - the writer of YAML: nothing else here waits for it

    return declared_text.to_yaml(map(asdict, entries)).splitlines()


def _render(found: list[ResourceEntry]) -> None:
    rows = ((resource.kind, resource.id, _in_short(resource.spec)) for resource in found)
    output.table(("kind", "id", "says"), rows, nothing="nothing is declared; `holdfastctl apply -f DIR` does it")


def _in_short(spec: Mapping[str, object]) -> str:
    return json.dumps(spec, ensure_ascii=False)  # noqa: TID251 - an answer, no document
