"""`holdfastctl publish`: what is published as files, for a mirror or an object store."""

from pathlib import Path

import click

from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from wire.operators.operator_answers import Written
from wire.operators.operator_messages import PublishRequest


@click.command()
@click.option(
    "--to", type=click.Path(path_type=Path), required=True, help="A directory that the coordinator may write."
)
@asks_the_coordinator
def publish(asked: CoordinatorClient, to: Path) -> None:
    """Bring a directory up to what is published now. Nodes verify what they take from there like all else."""
    answer = asked.post(Written, "publish", body=PublishRequest(str(to.absolute())))
    asked.say(answer, f"{to}: {answer.new} new, {answer.unchanged} unchanged, {answer.removed} removed")
