"""The join file that holdfastctl writes: what a node needs, and a token of its own in it (wire/invitation.py).

Made before anything is asked that would change something, and taken away where that fails: no token is lost, and no
half of a file is left.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import click

from coordinator.base.refusal import Code, Refused
from holdfast.ctl.socket import CoordinatorClient
from wire.invitation import FORMAT, BadInvitationError, Invitation
from wire.operators.operator_answers import IssuedToken, JoinFacts

_PATH = click.Path(path_type=Path)
_OPTIONS = (
    click.option("--join-file", type=_PATH, help="Write all that the node needs to a new file (0600): holdfast join."),
    click.option("--join-url", "join_urls", multiple=True, metavar="URL",
                 help="Where nodes join.  [default: each coordinator's host, at [listen] join]"),
    click.option("--node-ca", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                 help="The CA of the coordinators' certificates.  [default: the one that init made]"),
)  # fmt: skip


def join_file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@contextmanager
def new_file(path: Path) -> Iterator[IO[str]]:
    """0600 from its first moment, and of nobody's who was there before; gone where what goes into it fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def facts_for_nodes(asked: CoordinatorClient, join_urls: tuple[str, ...], node_ca: Path | None) -> JoinFacts:
    """Of the coordinator, and in place of what it cannot know, of the operator."""
    facts = asked.get(JoinFacts, "invitation")
    if join_urls:
        facts = replace(facts, join_urls=join_urls)
    if node_ca is not None:
        facts = replace(facts, ca=node_ca.read_text())
    if facts.ca is None:
        detail = "the coordinator's certificate is not of the CA that `holdfastctl init` makes"
        raise Refused(Code.CONFLICT, detail, remedy="name its CA file with --node-ca")
    return facts


def write(file: IO[str], facts: JoinFacts, token: IssuedToken) -> None:
    """Write what a node reads to join; Refused where a node would refuse it."""
    made = Invitation(
        holdfast_join_file=FORMAT,
        **{**vars(facts), "ca": (facts.ca or "").encode()},
        token=token.token,
        expires_at=token.expires_at,
        node_id=token.node_id,
        site_id=token.site_id,
    )
    data = made.to_bytes()
    try:
        Invitation.read(data)
    except BadInvitationError as error:  # what a node would refuse is not handed out
        remedy = "look at --join-url, --node-ca and `holdfastctl coordinators list`"
        raise Refused(Code.BAD_REQUEST, str(error), remedy=remedy) from None
    file.write(data.decode() + "\n")
