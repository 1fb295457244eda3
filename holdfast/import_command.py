"""`holdfast import FILE`: a document from another medium, through the agent's whole verification (rules S60, S87)."""

import json
from pathlib import Path

import click

from holdfast.agent_options import EXITS, NO, asks_the_agent, fail
from holdfast.client import Client, Refused
from snapshot.reasons import Reason
from snapshot.remedies import EXPLANATIONS

UNPROCESSABLE = 422
TIMEOUT_S = 600.0


@click.command("import", epilog=EXITS, short_help="Hand a document in a file to the agent.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="What became of it, as JSON.")
@asks_the_agent
def command(client: Client, file: Path, as_json: bool) -> None:
    """Hand the document in FILE to the agent, as root or as its own account.

    It goes through the same verification as one from the coordinator; what is refused changes nothing.
    """
    try:
        with file.open("rb") as document:
            outcome = client.request("POST", "/v1/import", document, wait_s=TIMEOUT_S).value
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    except Refused as refused:
        if refused.status != UNPROCESSABLE:
            raise
        _explain(refused)
    if as_json:
        click.echo(json.dumps(outcome))  # noqa: TID251 - a report, no document
    else:
        click.echo("  ".join(f"{name} {value}" for name, value in outcome.items()))


def _explain(refused: Refused) -> None:
    where = "" if refused.step is None else f" at step {refused.step}"
    text = f"refused{where}: {refused.code}: {refused}"
    if refused.code in set(Reason):
        explanation = EXPLANATIONS[Reason(refused.code)]
        text += f"\n  meaning  {explanation.meaning}\n  to do    {explanation.remedy}"
    fail(text, NO)
