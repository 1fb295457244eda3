"""`holdfast join FILE`: the file is read with care, held against this node, and what follows from it is put in place.

Everything is looked at before anything is written, and the configuration is written last: what fails leaves the node as
it was.
"""

import errno
import os
import pwd
import stat
import sys
from pathlib import Path

import click

from agent.config.configuration import ConfigurationError
from agent.config.token import JoinToken
from holdfast.node.agent_options import NO, fail, note
from holdfast.node.join_plan import DisagreesError, JoinPlan, plan
from holdfast.node.placing import CannotPlaceError, Placed, place
from holdfast.terminal.clock import wall_clock
from snapshot.identifiers import format_time
from wire.invitation import BadInvitationError, Invitation
from wire.local.node_status import NodeStatus

AGENTS_ACCOUNT = "holdfast"
ANOTHER = "make another: holdfastctl allow add NODE --join-file FILE"


def read(file: Path) -> Invitation:
    """Ends the command where there is none to use."""
    try:
        invited = Invitation.read(_bytes(file))
    except BadInvitationError as error:
        raise click.UsageError(f"{file}: {error}") from None
    except OSError as error:
        why = "it is a symbolic link: name the file itself" if error.errno == errno.ELOOP else error.strerror
        raise click.UsageError(f"{file}: {why}") from None
    if JoinToken(invited.token).cluster_id != invited.cluster_id:
        raise click.UsageError(f"{file}: its token is for another cluster than the file: {ANOTHER}")
    return invited


def check_member(status: NodeStatus, invited: Invitation, node_id: str | None) -> None:
    """A member of what the file is for has nothing to do; another's is told so."""
    wanted = _node_id(invited, node_id) or status.node_id
    if (status.cluster_id, status.node_id) != (invited.cluster_id, wanted):
        here, there = f"{status.node_id} of {status.cluster_id}", f"{wanted} of {invited.cluster_id}"
        remedy = "bring the file to the node that it is for, or ask a further agent with --config and --socket"
        fail(f"this node is {here} already, the file is for {there}; {remedy}", NO)


def put_in_place(config: Path, invited: Invitation, node_id: str | None, state: Path | None) -> Path:
    """Where the token lies then. Ends the command with nothing changed where the file and this node do not fit."""
    if invited.expires_at <= wall_clock():
        fail(f"the token in the file ended at {format_time(invited.expires_at)}: {ANOTHER}", NO)
    config = config.absolute()
    try:
        text, mode = _configuration(config)
        made = plan(config, text, invited, _node_id(invited, node_id), state)
        _check_authority(made, invited)
        place(_files(config, mode, made, invited))
    except ConfigurationError as error:
        raise click.UsageError("; ".join(f"{config}: {problem}" for problem in error.problems)) from None
    except ValueError as error:
        raise click.UsageError(f"{config}: {error}") from None
    except (DisagreesError, CannotPlaceError) as error:
        fail(str(error), NO)
    _say(config, made)
    return made.token_file


def _bytes(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(Invitation.MOST_BYTES + 1)
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise BadInvitationError("it is no file")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadInvitationError(f"it is open to others: revoke its token and make another, or chmod 0600 {file}")
        return opened.read(Invitation.MOST_BYTES + 1)


def _node_id(invited: Invitation, given: str | None) -> str | None:
    """The id that the file is for, or that is named here; None where the node has one, or its host's name."""
    if given is not None and invited.node_id not in (None, given):
        raise click.UsageError(f"the file is for the node {invited.node_id}, and --node-id says {given}")
    return invited.node_id or given


def _configuration(config: Path) -> tuple[str, int]:
    """Its text and mode; of one that is not there, those of a new one."""
    try:
        descriptor = os.open(config, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "", 0o644
    except OSError as error:
        link = error.errno == errno.ELOOP
        why = "it is a symbolic link: put the file itself there" if link else f"{error.strerror}: run it as root"
        raise CannotPlaceError(f"{config}: {why}; nothing was changed") from None
    with os.fdopen(descriptor, encoding="utf-8") as opened:
        return opened.read(), stat.S_IMODE(os.fstat(descriptor).st_mode)


def _check_authority(made: JoinPlan, invited: Invitation) -> None:
    try:
        there = made.ca_file.read_text("ascii", "replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotPlaceError(f"{made.ca_file}: {error.strerror}; nothing was changed: run it as root") from None
    if there.split() != invited.ca.decode("ascii", "replace").split():
        raise DisagreesError(f"{made.ca_file} is another CA than the file's; move it away, or find out which is right")


def _files(config: Path, mode: int, made: JoinPlan, invited: Invitation) -> list[Placed]:
    """The token is the agent's alone; the configuration makes the others count, so it comes last."""
    state = made.settings.node.state_directory
    files = [Placed(made.ca_file, invited.ca, 0o644)]
    files.append(Placed(made.token_file, f"{invited.token}\n".encode(), 0o600, _owner(state)))
    if made.configuration is not None:
        files.append(Placed(config, made.configuration.encode(), mode))
    return files


def _owner(state: Path) -> tuple[int, int]:
    """Who the agent is: the owner of its directory, else the account that the package made, else we ourselves."""
    try:
        found = state.stat()
    except OSError:
        pass
    else:
        return found.st_uid, found.st_gid
    try:
        account = pwd.getpwnam(AGENTS_ACCOUNT)
    except KeyError:
        return os.geteuid(), os.getegid()
    return account.pw_uid, account.pw_gid


def _say(config: Path, made: JoinPlan) -> None:
    node = made.settings.node
    note(f"{node.node_id} of {node.cluster_id}: CA in {made.ca_file}, token in {made.token_file}")
    if made.configuration is not None:
        note(f"{config} names this node now, and the root keys of its cluster; the agent takes it up")
    elif not made.pins_roots:
        note(f"{config} pins no root keys ([trust] root_key_ids): those that the file's token names will be")
