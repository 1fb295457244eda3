"""`holdfast import FILE...`: documents from another medium, through the agent's whole verification (rules S60, S87)."""

import json
from collections.abc import Mapping
from pathlib import Path

import click

from holdfast.agent_options import EXITS, NO, asks_the_agent, note
from holdfast.client import Client, Refused
from holdfast.import_order import Carried, in_order
from snapshot.reasons import Reason
from snapshot.remedies import EXPLANATIONS

UNPROCESSABLE, CONFLICT = 422, 409
TIMEOUT_S = 600.0
OF_OTHERS = ("wrong_node", "not_listed")  # among many files no fault: a tree is made for the whole fleet


@click.command("import", epilog=EXITS, short_help="Hand documents in files to the agent.")
@click.argument("documents", metavar="FILE...", nargs=-1, required=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="What became of each, one JSON object a line.")
@asks_the_agent
def command(client: Client, documents: tuple[Path, ...], as_json: bool) -> None:
    """Hand the document in each FILE to the agent, as root or as its own account.

    They go through the same verification as those from the coordinator; what is refused changes nothing.

    Of several files the order does not matter: trust bundles go first, then the head, then node_bootstrap and
    node_runtime, then the others. Documents of other nodes among them are passed over.
    """
    try:
        carried = in_order(documents)
        node_id = client.status()["node_id"] if len(documents) > 1 else ""
        taken = [_hand_in(client, one, node_id, alone=len(documents) == 1, as_json=as_json) for one in carried]
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from None
    if not all(taken):
        raise SystemExit(NO)


def _hand_in(client: Client, one: Carried, node_id: str, *, alone: bool, as_json: bool) -> bool:
    """Whether nothing is wrong with it."""
    try:
        outcome = _outcome(client, one, node_id, alone=alone)
    except Refused as refused:
        if refused.status != UNPROCESSABLE:
            raise
        note(("" if alone else f"{one.path}: ") + _explained(refused))
        if as_json and not alone:
            _say_json(one, {"outcome": "refused", "reason": refused.code, "step": refused.step})
        return False
    if as_json:
        _say_json(one, outcome)
    else:
        words = "  ".join(f"{name} {value}" for name, value in outcome.items())
        click.echo(words if alone else f"{one.path}: {words}")
    return True


def _outcome(client: Client, one: Carried, node_id: str, *, alone: bool) -> Mapping[str, object]:
    if not alone and not one.is_for(node_id):
        return {"outcome": "passed_over", "reason": "wrong_node"}
    try:
        with one.path.open("rb") as document:
            outcome: Mapping[str, object] = client.request("POST", "/v1/import", document, wait_s=TIMEOUT_S).value
    except Refused as refused:
        if alone or refused.status not in (UNPROCESSABLE, CONFLICT) or refused.code not in OF_OTHERS:
            raise
        return {"outcome": "passed_over", "reason": refused.code}
    return outcome


def _say_json(one: Carried, outcome: Mapping[str, object]) -> None:
    click.echo(json.dumps({"file": str(one.path), **outcome}))  # noqa: TID251 - a report, no document


def _explained(refused: Refused) -> str:
    where = "" if refused.step is None else f" at step {refused.step}"
    text = f"refused{where}: {refused.code}: {refused}"
    if refused.code in set(Reason):
        explanation = EXPLANATIONS[Reason(refused.code)]
        text += f"\n  meaning  {explanation.meaning}\n  to do    {explanation.remedy}"
    return text
