"""`holdfastctl coordinators`: those of a cluster that share one database, and the certificate of this one."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from coordinator.base.places import DEFAULT_PATH
from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore
from coordinator.setup import configuration
from coordinator.setup.configuration import CREDENTIAL
from coordinator.trust import coordinator_set
from coordinator.trust.ceremony import MOST_ROOTS
from holdfast.ctl import output
from holdfast.ctl.ca import ca as ca_exchange
from holdfast.ctl.drill import read_span
from holdfast.ctl.machine import set_up_here, with_a_coordinators_libraries
from holdfast.ctl.move import identity, progress_lines
from holdfast.ctl.owners import owner_key_, owners_by_name, recover, shares
from holdfast.ctl.rotate import keys_directory
from holdfast.ctl.signing import (
    Signing,
    bring_in,
    bundle_options,
    ca_passphrase,
    describe,
    finish_with_key,
    passphrase_option,
    read_set,
)
from holdfast.ctl.socket import (
    DIFFERENT,
    CoordinatorClient,
    asks_the_coordinator,
    confirm,
    says_what_is_wrong,
)
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say, say_json
from snapshot.bundle import CONFIG
from wire.certificate import pem_to_der
from wire.operators.operator_answers import FormerKey, RemovedReplica, ReplicaList, ReplicaStanding, ReplicaStandings
from wire.operators.trust_answers import DraftedRequest
from wire.operators.trust_messages import SetDraftRequest

RELOAD = "next: systemctl reload holdfast-coordinator"
_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False)


@click.group()
def coordinators() -> None:
    """The coordinators of the cluster: several share one PostgreSQL database."""


for _command in (ca_exchange, owner_key_, recover, shares, identity):
    coordinators.add_command(_command)


@coordinators.command("list")
@asks_the_coordinator
def list_(asked: CoordinatorClient) -> None:
    """Which there are: a join is bound to the certificate of one, a token is signed by the key of one."""
    asked.show(asked.get(ReplicaList, "coordinators"), _render)


@coordinators.command()
@click.option("--within", metavar="SPAN", callback=read_span, default="1d", show_default=True,
              help="Of a cluster that was exported from here: who has asked here within this time.")  # fmt: skip
@asks_the_coordinator
def status(asked: CoordinatorClient, within: int) -> None:
    """What each of them says of itself, and what is wrong, in words; and how far a move of the cluster is.

    Exit status 1 where anything is wrong with one of them.
    """
    answer = asked.get(ReplicaStandings, "coordinators", "status", within=within)
    asked.show(answer, _render_standings)
    if any(standing.faults for standing in answer.coordinators):
        raise SystemExit(DIFFERENT)


@coordinators.command()
@click.argument("name")
@click.option("--cluster", "cluster_id", required=True, help="Of which cluster it is to be.")
@click.option("--database", "database_url", required=True, help="The database of the cluster: PostgreSQL.")
@click.option("--root-key-id", "root_key_ids", multiple=True, required=True, metavar="sha256:...",
              help="A root key of the cluster, as `holdfastctl trust show` names it; each of them.")  # fmt: skip
@click.option("--root-threshold", type=click.IntRange(0, MOST_ROOTS), default=0,
              help="How many of them must have signed what is believed.  [default: all]")  # fmt: skip
@set_up_here
@says_what_is_wrong
def prepare(name: str, **given: object) -> None:
    """Prepare this machine for a further coordinator, without a secret of another one.

    Makes its identity, its token key and its configuration, and prints the hash by which `coordinators set` names it.
    Once root keys have signed that set, it starts, gets seed and mesh key from the other coordinators, makes its
    certificate by itself, and is ready. Either all of it is there afterwards, or nothing.
    """
    with with_a_coordinators_libraries():
        from holdfast.ctl import setup  # noqa: PLC0415 - the database's library: no other command waits for it

    setup.prepare_further({"coordinator_id": name, **given})


@coordinators.command("set")
@click.argument("named", nargs=-1, required=True, metavar="NAME[=sha256:PIN]...")
@click.option("--seed-share-owner", "owners", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              multiple=True,
              help="Of a cluster without owners: a public half of `owner-key`. Again for each.")  # fmt: skip
@bundle_options
@asks_the_coordinator
def set_(asked: CoordinatorClient, named: tuple[str, ...], owners: tuple[Path, ...], signing: Signing) -> None:
    """Declare who the coordinators are, all of them: one change, which root keys sign, with a new mesh key.

    NAME stays as it is; NAME=sha256:PIN is one that was prepared and comes new, or is known by another identity from
    then on; who is not named is taken away, and refused at once. Made on the machine of one that stays, which then has
    the mesh key: a config key of this set alone. What comes back signed goes to `coordinators commit` there. Of two
    sets that were made at once one is committed. Owners of shares of the seed are named once, and stay.
    """
    key, named_owners = keystore.new_key(), owners_by_name(owners)
    wanted = SetDraftRequest(_read_names(named), key.algorithm, key.public_key, signing.despite_reports, named_owners)
    request = coordinator_set.read(asked.post(DraftedRequest, "coordinators", "set", body=wanted).request)
    if not asked.as_json:
        describe(request)
    finish_with_key(asked, signing, request, CONFIG, key, keys_directory(asked))


@coordinators.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--despite-reports", is_flag=True, help="Members that report other bundles of that number are wrong.")
@asks_the_coordinator
def commit(asked: CoordinatorClient, file: Path, despite_reports: bool) -> None:
    """Bring a set back that root keys have signed: from then on it says who the coordinators are."""
    bring_in(asked, read_set(file), despite_reports=despite_reports)


@coordinators.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def remove(asked: CoordinatorClient, name: str, yes: bool) -> None:
    """Forget one that is gone: the join tokens that it has signed count no more."""
    confirm(f"Forget the coordinator {name} and its join tokens?", yes=yes)
    asked.say(asked.delete(RemovedReplica, "coordinators", name), f"removed: {name}")


@coordinators.command()
@click.option("--host", "hosts", multiple=True, help="A name or address of the server. [default: the present ones]")
@click.option(
    "--ca",
    type=_DIRECTORY,
    help="Where ca-key.pem lies. [default: it follows from the seed, or lies beside the certificate]",
)
@passphrase_option
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=DEFAULT_PATH, show_default=True,
              help="Names the certificate and its key.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def certificate(
    hosts: tuple[str, ...], ca: Path | None, passphrase_files: tuple[Path, ...], path: Path, as_json: bool
) -> None:
    """A new certificate for the coordinator of this machine, of the CA that nodes trust. It is shown after a reload."""
    with with_a_coordinators_libraries():
        from coordinator.keys import derived_authority, server_certificate  # noqa: PLC0415 - the network's library: no other command waits for it
        from coordinator.keys import seed as seeds  # noqa: PLC0415 - the same

    at = configuration.load(path)
    for name in (at.certificate, at.key):
        if name.startswith(CREDENTIAL):
            remedy = "renew it where that has it from"
            raise Refused(Code.CONFLICT, f"{name} comes from the service manager", remedy=remedy)
    files = Path(at.certificate), Path(at.key)
    place = ca or files[0].parent
    authority = None if ca else derived_authority.beside(place, seeds.load(at.keys_directory, os.environ))
    if authority is None:
        passphrase = ca_passphrase(place, passphrase_files)
        authority = server_certificate.authority_in(place, passphrase, beside=files[0].parent)
    present = files[0].with_name(server_certificate.AUTHORITY)
    if present.is_file() and pem_to_der(present.read_bytes()) != authority.der:
        remedy = f"holdfastctl coordinators ca use --ca {place}"
        raise Refused(Code.CONFLICT, f"{place} holds another CA than {present}", remedy=remedy)
    made = server_certificate.renew(*files, authority, hosts, wall_clock())
    answer = {
        "certificate": str(files[0]),
        "fingerprint": made.fingerprint,
        "names": list(made.names),
        "not_after": output.time(made.not_after),
    }
    if as_json:
        say_json(answer)
        return
    output.facts((name.replace("_", " "), value) for name, value in answer.items())
    say(RELOAD)


@coordinators.command("begin-history")
@click.option("--anew", is_flag=True,
              help="Give up a history that does not verify: another one, over the state as it stands.")  # fmt: skip
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=DEFAULT_PATH, show_default=True,
              help="Names the database and the keys' directory.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def begin_history(anew: bool, path: Path, yes: bool, as_json: bool) -> None:
    """Carry over a cluster from before there was a signed history: begin it. Stop its coordinators first.

    Makes seed and salt beside the config keys, and the first link: over the state as it stands, with all audit rows
    that there are. From then on each change is a signed link (holdfastctl audit verify). Either all of it is done, or
    nothing. Then, as a link of its own, the coordinator of this machine gets an identity, where it has none: what `pin`
    does alone, for others and after an interruption.
    """
    with with_a_coordinators_libraries():
        from holdfast.ctl import setup  # noqa: PLC0415 - the database's library: no other command waits for it

    at = configuration.load(path)
    what = "Give up the history that there is, and begin another one" if anew else "Begin the signed history"
    keys = at.keys_directory
    confirm(f"{what} over the state as it stands, with a seed and this coordinator's identity in {keys}?", yes=yes)
    setup.begin_history(at, anew=anew, as_json=as_json)


@coordinators.command()
@click.option("--anew", is_flag=True, help="Another identity in the place of one that is lost or in wrong hands.")
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=DEFAULT_PATH, show_default=True,
              help="Names the coordinator, the database and the keys' directory.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def pin(anew: bool, path: Path, yes: bool, as_json: bool) -> None:
    """Give the coordinator of this machine an identity, and pin it in the manifest. Stop that coordinator first.

    For one from before there were identities: `init` and `prepare` make one. Makes a key and a certificate beside the
    config keys, which stay on this machine, and one link of the history whose manifest names it. From then on a
    coordinator of this id that shows another one is refused. Either all of it is done, or nothing.
    """
    with with_a_coordinators_libraries():
        from holdfast.ctl import setup  # noqa: PLC0415 - the database's library: no other command waits for it

    at = configuration.load(path)
    what = "Give up the identity that the manifest names, and pin another one" if anew else "Pin an identity"
    confirm(f"{what}, of the coordinator {at.coordinator_id}, with its key in {at.keys_directory}?", yes=yes)
    setup.pin_identity(at, anew=anew, as_json=as_json)


def _read_names(given: tuple[str, ...]) -> dict[str, str]:
    """Each coordinator, with the pin that is given or nothing."""
    found: dict[str, str] = {}
    for text in given:
        name, _, pinned = text.partition("=")
        if name in found:
            raise Refused(Code.BAD_REQUEST, f"{name} is named twice", remedy="name each once")
        found[name] = pinned
    return found


def _render(answer: ReplicaList) -> None:
    rows = (
        (_name(replica.coordinator_id, answer), replica.url, replica.certificate_sha256, output.time(replica.added_at))
        for replica in answer.coordinators
    )
    output.table(("coordinator", "url", "certificate", "added"), rows, nothing="none")


def _render_standings(answer: ReplicaStandings) -> None:
    output.facts([("history", answer.history), ("manifest", answer.manifest)])
    rows = (
        (
            _name(standing.coordinator_id, answer),
            standing.state.replace("_", " "),
            output.time(standing.said_at),
            output.time(standing.started_at),
            standing.version or "-",
            standing.link or "-",
            standing.lag,
            _manifest(standing, answer),
            standing.identity or "none pinned",
        )
        for standing in answer.coordinators
    )
    columns = ("coordinator", "state", "said", "since", "version", "link", "lag", "manifest", "identity")
    output.table(columns, rows, nothing="none")
    for standing in answer.coordinators:
        for fault in standing.faults:
            say(f"{standing.coordinator_id}: {fault}")
    for key in answer.former_keys:
        say(*_former_key_lines(key, answer.now))
    if answer.move is not None:
        say("", *progress_lines(answer.move))


def _former_key_lines(key: FormerKey, now: float) -> Iterator[str]:
    name = key.key_id.removeprefix("sha256:")[:12]
    when = "" if key.retire_at <= now else f", from {output.time(key.retire_at)} on"
    yield f"{key.key_id} is a config key of before, and nodes believe what it signs, whoever has it:"
    yield f"  retire it{when}: holdfastctl rotate retire {name} --request retire.json"
    yield f"  or, if it may be in wrong hands: holdfastctl revoke key {name} --reason WHY --request revoke.json"


def _manifest(standing: ReplicaStanding, answer: ReplicaStandings) -> str:
    if not standing.manifest:
        return "-"
    return "newest" if standing.manifest == answer.manifest else standing.manifest


def _name(coordinator_id: str, answer: ReplicaList | ReplicaStandings) -> str:
    return f"{coordinator_id} (answers)" if coordinator_id == answer.answering else coordinator_id
