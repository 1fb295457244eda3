"""`holdfast join`: hands a join token to the agent, and waits for what becomes of it (rules A3, J7, K29).

The agent joins, not this command: it holds the key. The token is never an argument, where every account could read it.
"""

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from agent.config.configuration import TOKEN_VARIABLE, AgentSettings, ConfigurationError, load
from agent.config.credentials import JOIN_TOKEN, credential
from agent.config.token import TOKEN_BYTES, BadTokenFileError, JoinToken, parse_token, read_token
from agent.state.root_pinning import RootsNotPinnedError, check_pinned
from holdfast.client import AgentDown, Client
from holdfast.node import join_by_file
from holdfast.node.agent_options import AGENT_DOWN, EXITS, NO, asks_the_agent, fail, note
from holdfast.node.agent_status import read_status
from holdfast.node.explanations import failure_text, join_text
from holdfast.node.placing import CannotPlaceError, Placed, place
from holdfast.terminal.shown import say
from wire.local.node_status import NodeStatus

CONFIGURATION = Path("/etc/holdfast/agent.toml")
EVERY_S = 0.5
OUTSIDE = ("unenrolled", "joining")


@click.command("join", epilog=EXITS)
@click.option("--config", type=click.Path(path_type=Path), default=CONFIGURATION, show_default=True)
@click.argument("join_file", required=False, metavar="[FILE]", type=click.Path(allow_dash=True, path_type=Path))
@click.option("--node-id", metavar="ID",
              help="With FILE: this node's id, where the file names none.  [default: its host name]")  # fmt: skip
@click.option("--state-directory", type=click.Path(path_type=Path), metavar="DIR",
              help="With FILE: the agent's, where agent.toml does not name a node yet.")  # fmt: skip
@click.option("--token-file", type=click.Path(allow_dash=True, path_type=Path), help="The token; - for standard input.")
@click.option("--trust-on-first-use", "first_use", is_flag=True,
              help="Take the root keys of the first answer, where no token or agent.toml names them.")  # fmt: skip
@click.option("--wait", "wait_s", type=click.IntRange(0, 3600), default=90, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Once it is a member, one JSON object that says so.")
@asks_the_agent
def command(
    client: Client,
    config: Path,
    join_file: Path | None,
    node_id: str | None,
    state_directory: Path | None,
    wait_s: int,
    as_json: bool,
    **of_token: Any,  # noqa: ANN401 - the options about it
) -> None:
    """Join a cluster: by FILE, which is what holdfastctl allow add --join-file has made; or by a token alone.

    With FILE (0600, or - for standard input) nothing else is needed: the node's configuration, its CA and its token are
    put in place, root keys are pinned, and the agent that runs takes them up. What stands in agent.toml stays.

    Without FILE the node joins the cluster that agent.toml names, with a token from a file or from standard input. The
    token names the cluster's root keys, and the node believes no others. Where neither token nor agent.toml names any,
    the join is refused, but for --trust-on-first-use: then whoever answers first may be anybody, and until they were
    compared (holdfast trust confirm) nothing of high risk is done.

    Without --token-file the token is the one that lies where the agent looks: coordinator.token_file of agent.toml,
    else the file that HOLDFAST_TOKEN_PATH names, /etc/holdfast/join.token, a systemd credential. Without any of them
    standard input is read. The token's file must be yours alone (0600). Run it as root, or as the agent's account. Exit
    0 once the node is a member, 1 when it is refused or the time is over; the agent goes on trying, and holdfast status
    says why.
    """
    settings = _settings(config) if join_file is None else None
    if join_file is not None and of_token["first_use"]:
        raise click.UsageError("a join file names the root keys: --trust-on-first-use is for a token alone")
    invited = None if join_file is None else join_by_file.read(join_file)
    before = _status(client)
    if before is not None and before.state not in OUTSIDE:
        if invited is not None:
            join_by_file.check_member(before, invited, node_id)
        _say_member(before, as_json)
        return
    if invited is not None:
        state = None if state_directory is None else state_directory.absolute()
        token_place = join_by_file.put_in_place(config, invited, node_id, state)
    else:
        settings = settings or _settings(config)
        token_place = _token_in_place(config, settings, **of_token)
    if before is None:
        fail(
            f"the token is kept in {token_place}; the agent uses it when it starts: systemctl start holdfast-agent",
            AGENT_DOWN,
        )
    joined = _follow(client, before, token_place, wait_s)
    if as_json:
        _say_json("joined", joined)
    else:
        say(f"joined: {joined.node_id} is a member of {joined.cluster_id} ({joined.state})")


def _say_member(status: NodeStatus, as_json: bool) -> None:
    if as_json:
        _say_json("already_member", status)
    note(f"this node is a member of {status.cluster_id} already ({status.state}): nothing to do")


def _token_in_place(config: Path, settings: AgentSettings, token_file: Path | None, *, first_use: bool) -> Path:
    kept = settings.token_files()[0]
    source = token_file or _lying_there(settings)
    found = _token(source)
    token = replace(found, trusts_first_use=first_use or found.trusts_first_use)
    _look_at_roots(config, settings, token)
    if source != kept or token != found or not _is_the_agents(kept, settings.node.state_directory):
        _keep(token, kept, settings.node.state_directory)
    return kept


def _say_json(outcome: str, status: NodeStatus) -> None:
    about = {"node_id": status.node_id, "cluster_id": status.cluster_id, "state": status.state}
    say(json.dumps({"outcome": outcome, **about}, sort_keys=True))  # noqa: TID251 - an answer, no document


def _settings(config: Path) -> AgentSettings:
    try:
        settings = load(config)
    except ConfigurationError as error:
        raise click.UsageError("; ".join(error.problems)) from None
    if settings.coordinator is None:
        raise click.UsageError(f"{config} has a manual map and no [coordinator]: such a node joins nobody")
    return settings


def _look_at_roots(config: Path, settings: AgentSettings, token: JoinToken) -> None:
    """What nobody has vouched for is refused, or said where the operator wants it all the same (threats D-19)."""
    try:
        check_pinned(settings.trust, token)
    except RootsNotPinnedError as error:
        fail(f"refused: roots_not_pinned, {error}: {join_text('roots_not_pinned')}", NO)
    if token.pins is None and not settings.trust.root_key_ids and settings.trust.bundle_file is None:
        note(
            f"WARNING: neither the token nor {config} names root keys: those of the first answer are taken, unseen. "
            "Nothing of high risk is done until they are compared: holdfast trust confirm"
        )


def _lying_there(settings: AgentSettings) -> Path | None:
    """The first that is there of the files that the agent looks for, and of those named to this command (rules K14)."""
    named = [Path(os.environ[TOKEN_VARIABLE])] if os.environ.get(TOKEN_VARIABLE) else []
    given = credential(JOIN_TOKEN)
    files = (*settings.token_files(), *named, *([given] if given else []))
    found = next((file for file in files if os.path.lexists(file)), None)
    if found is not None:
        note(f"the token is the one in {found}; with --token-file - it is read from standard input")
    return found


def _is_the_agents(file: Path, state_directory: Path) -> bool:
    """It lies there for the agent's account already, perhaps where nobody writes."""
    return file.lstat().st_uid == state_directory.stat().st_uid


def _token(source: Path | None) -> JoinToken:
    """The token as it stands there; what cannot be one is wrong usage."""
    try:
        if source is not None and str(source) != "-":
            return read_token(source) or _missing(source)
        if sys.stdin.isatty():
            note("the token, then Ctrl-D (or use --token-file):")
        return parse_token(sys.stdin.buffer.read(TOKEN_BYTES + 1), "standard input")
    except BadTokenFileError as error:
        raise click.UsageError(str(error)) from None


def _missing(file: Path) -> NoReturn:
    raise click.UsageError(f"{file} is not there: name the token's file, or - for standard input")


def _keep(token: JoinToken, file: Path, state_directory: Path) -> None:
    """Where the agent looks, for its account alone, whole from its first moment."""
    try:
        owner = state_directory.stat()
        place([Placed(file, token.lines().encode(), 0o600, (owner.st_uid, owner.st_gid))])
    except OSError as error:
        raise click.UsageError(f"{state_directory}: {error.strerror}: run it as root") from None
    except CannotPlaceError as error:
        raise click.UsageError(str(error)) from None


def _status(client: Client) -> NodeStatus | None:
    try:
        return read_status(client)
    except AgentDown:
        return None


def _follow(client: Client, before: NodeStatus, token_place: Path, wait_s: int) -> NodeStatus:
    """The status once it is a member; it ends where it was refused since `before`, or the time is over."""
    said, tried = "", _tries(before)
    deadline = time.monotonic() + wait_s
    while True:
        status = _status(client) or before
        if status.state not in OUTSIDE:
            with suppress(OSError):  # a credential goes with its service
                token_place.unlink()  # it is good for one join
            return status
        if _tries(status) > tried and (failure := status.join) is not None:
            if failure.refused:
                fail(f"refused: {failure_text(failure)}", NO)
            if failure.code != said:
                said = failure.code
                note(f"not yet: {failure_text(failure)}")
        if time.monotonic() >= deadline:
            fail(f"not a member after {wait_s} s; the agent goes on trying: holdfast status --watch", NO)
        time.sleep(EVERY_S)


def _tries(status: NodeStatus) -> int:
    return status.counters.get("joins_failed", 0)
