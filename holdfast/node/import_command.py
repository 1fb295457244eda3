"""`holdfast import FILE...`: documents from another medium, through the agent's whole verification (rules S60, S87)."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from holdfast.client import AgentRefused, Client
from holdfast.node.agent_options import EXITS, NO, asks_the_agent, note
from holdfast.node.agent_status import read_status
from holdfast.node.import_order import Carried, in_order
from holdfast.terminal.shown import say
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.codes import CATALOGUE, Area
from snapshot.reasons import Reason
from wire.local.node_status import NodeStatus

UNPROCESSABLE, CONFLICT = 422, 409
TIMEOUT_S = 600.0
OF_OTHERS = ("wrong_node", "not_listed")  # among many files no fault: a tree is made for the whole fleet


@click.command("import", epilog=EXITS)
@click.argument("documents", metavar="FILE...", nargs=-1, required=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="What became of each, one JSON object a line.")
@asks_the_agent
def command(client: Client, documents: tuple[Path, ...], as_json: bool) -> None:
    """Hand the document in each FILE to the agent, as root or as its own account.

    They go through the same verification as those from the coordinator; what is refused changes nothing.

    Of several files the order does not matter: trust bundles go first, then the head, then node_bootstrap and
    node_runtime, then the others. Documents of neighbours are kept for them, where this node's map names them; those of
    other nodes are passed over, and trust bundles that are older than the one that is held.
    """
    try:
        carried = in_order(documents)
        reader = read_status(client) if len(documents) > 1 else None
        taken = [_hand_in(client, document, reader, as_json=as_json) for document in carried]
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from None
    if not all(taken):
        raise SystemExit(NO)


def _hand_in(client: Client, one: Carried, reader: NodeStatus | None, *, as_json: bool) -> bool:
    """Whether nothing is wrong with it. `reader`: the agent's status, or None for a document that comes alone."""
    alone = reader is None
    try:
        outcome = _outcome(client, one, reader)
    except AgentRefused as refused:
        if refused.status != UNPROCESSABLE:
            raise
        note(*_explain(refused, "" if alone else f"{one.path}: "))
        if as_json and not alone:
            _say_json(one, {"outcome": "refused", "reason": refused.code, "step": refused.step})
        return False
    if as_json:
        _say_json(one, outcome)
    else:
        words = "  ".join(f"{name} {value}" for name, value in outcome.items())
        say(words if alone else f"{one.path}: {words}")
    return True


def _outcome(client: Client, one: Carried, reader: NodeStatus | None) -> Mapping[str, object]:
    needless = _needless(one, reader) if reader is not None else None
    if needless:
        return {"outcome": "passed_over", "reason": needless}
    try:
        with one.path.open("rb") as document:
            outcome: Mapping[str, object] = client.request("POST", "/v1/import", document, wait_s=TIMEOUT_S).value
    except AgentRefused as refused:
        if reader is None or refused.status not in (UNPROCESSABLE, CONFLICT) or refused.code not in OF_OTHERS:
            raise
        return {"outcome": "passed_over", "reason": refused.code}
    return outcome


def _needless(one: Carried, reader: NodeStatus) -> str | None:
    """Why the agent is not asked: a tree is made for the whole fleet, and for nodes that have been away long."""
    neighbours = reader.relay.for_nodes if reader.relay is not None else ()
    if not one.is_for(reader.node_id, *neighbours):
        return "wrong_node"
    bundle = reader.scopes.get(TRUST_BUNDLE)
    held = bundle.active if bundle is not None else None
    return "rollback" if held is not None and one.is_bundle_before(held.config_version) else None


def _say_json(one: Carried, outcome: Mapping[str, object]) -> None:
    say(json.dumps({"file": str(one.path), **outcome}))  # noqa: TID251 - a report, no document


def _explain(refused: AgentRefused, of: str) -> Iterator[str]:
    where = "" if refused.step is None else f" at step {refused.step}"
    yield f"{of}refused{where}: {refused.code}: {refused}"
    if refused.code in set(Reason):
        explanation = CATALOGUE[Area.DOCUMENT][Reason(refused.code)]
        yield f"  meaning  {explanation.meaning}"
        yield f"  to do    {explanation.remedy}"
