"""`holdfastctl epoch`: the number above all versions, which root keys alone announce (format.md 8)."""

import click

from holdfast.ctl.signing import Signing, bundle_options, carry_out, wishes
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from wire.operators.operator_answers import CoordinatorStatus
from wire.operators.trust_messages import EpochWish


@click.group()
def epoch() -> None:
    """The authority epoch."""


@epoch.command()
@asks_the_coordinator
def show(asked: CoordinatorClient) -> None:
    """The present epoch."""
    answer = asked.get(CoordinatorStatus, "status")
    asked.say({"authority_epoch": answer.authority_epoch}, str(answer.authority_epoch))


@epoch.command("raise")
@click.option("--to", type=click.IntRange(2), help="[default: the next one]")
@bundle_options
@asks_the_coordinator
def raise_(asked: CoordinatorClient, to: int | None, signing: Signing) -> None:
    """Publish everything anew under a higher epoch.

    For a database that was restored, and for a stolen config key that has run the versions up: what nodes hold of the
    old epoch gives way, whatever its version.
    """
    carry_out(asked, signing, wishes(EpochWish(to)))
