"""`holdfastctl resources`: what is declared, to look at and to take away."""

import json
from typing import Any

import click

from holdfast.ctl import output
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from holdfast.terminal.shown import say

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
    found = list(asked.pages("resources", kind=kind, brief="true"))
    asked.show({"resources": found}, _render)


@resources.command()
@click.argument("kind")
@click.argument("id_", metavar="ID")
@asks_the_coordinator
def get(asked: CoordinatorClient, kind: str, id_: str) -> None:
    """One resource, with every member."""
    asked.show(asked.get("resources", kind, id_), lambda answer: say(*_yaml([answer])))


@resources.command()
@_KIND
@asks_the_coordinator
def export(asked: CoordinatorClient, kind: str | None) -> None:
    """All of it as YAML that `apply -f` takes back unchanged: to keep, to compare, to begin another cluster with."""
    found = sorted(asked.pages("resources", kind=kind, brief="true"), key=_in_order)
    asked.show({"resources": found}, lambda answer: say(*_yaml(answer["resources"])))


def _in_order(entry: dict[str, Any]) -> tuple[int, str, str]:
    kind = entry["kind"]
    return ORDER.index(kind) if kind in ORDER else len(ORDER), kind, entry["id"]


def _yaml(entries: list[dict[str, Any]]) -> list[str]:
    from holdfast.ctl import declared_text  # noqa: PLC0415 - the writer of YAML: nothing else here waits for it

    return declared_text.written(entries).splitlines()


def _render(answer: dict[str, Any]) -> None:
    rows = ((each["kind"], each["id"], _in_short(each["spec"])) for each in answer["resources"])
    output.table(("kind", "id", "says"), rows, nothing="nothing is declared; `holdfastctl apply -f DIR` does it")


def _in_short(spec: dict[str, Any]) -> str:
    return json.dumps(spec, ensure_ascii=False)  # noqa: TID251 - an answer, no document
