"""`holdfast get SCOPE SECTION`: one section, byte for byte."""

import click

from holdfast.agent_options import EXITS, asks_the_agent, note
from holdfast.client import FROM_FILES, Client


@click.command("get", epilog=EXITS, short_help="Print a section of an active scope.")
@click.argument("scope")
@click.argument("section", required=False)
@click.option("--expired", is_flag=True, help="Also when the scope has expired.")
@asks_the_agent
def command(client: Client, scope: str, section: str | None, expired: bool) -> None:
    """Print a section of an active scope as it was signed; without SECTION, the names of its sections.

    When the agent is down, the files that it left are read, and a note on standard error says so.
    """
    if section is None:
        click.echo("\n".join(client.document(scope, expired=expired)["manifest"]))
        return
    found = client.get(scope, section, expired=expired)
    if found.facts.source == FROM_FILES:
        note(f"the agent is down: this is from its files, version {found.facts.version}, {found.facts.grade}")
    click.echo(found.data)
