"""What `holdfastctl init` and `coordinators prepare` do: options become what is wanted; it is made, and said."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.database.database_fault import line_of
from coordinator.keys import seed as seeds
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.setup import begin_history as begun_history
from coordinator.setup import cluster_files, configuration, initialise, starter
from coordinator.setup import pin_identity as pinned_identity
from coordinator.setup import prepare as preparing
from coordinator.setup.begin_history import BegunHistory
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.configuration import Configuration
from coordinator.setup.initialise import MadeCluster
from coordinator.setup.pin_identity import PinnedIdentity
from coordinator.setup.prepare import PreparedCoordinator, PrepareRequest
from holdfast.ctl import output
from holdfast.ctl.machine import AMONG_COORDINATORS
from holdfast.ctl.owners import read_owners
from holdfast.ctl.socket import UNANSWERED, Failed
from holdfast.ctl.trust import new_passphrase
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say, say_json


@dataclass(frozen=True)
class CarriedOver:
    """What a cluster from before has now. `history`: None where it was begun before, and only the identity was missing.
    `identity`: None where the coordinator of this machine had one.
    """

    history: BegunHistory | None
    identity: PinnedIdentity | None


def found_cluster(given: dict[str, object]) -> None:
    """`given`: the options by name. All of it is there afterwards, or nothing."""
    wanted = _cluster_request(given)
    would_start(configuration_text(given, wanted.state, wanted.database_url))
    agrees(Path(str(given["path"])), configuration_text(given, wanted.state, wanted.database_url))
    with telling_of_the_database():
        made = initialise.initialise(wanted, actor=as_actor(), now=wall_clock())
    say_made(made, given, _render)


def prepare_further(given: dict[str, object]) -> None:
    """The same, for a further coordinator, which is none yet."""
    state, path = Path(str(given["state"])).absolute(), Path(str(given["path"]))
    pins = _read_pins(given)
    text = configuration_text(given, state, str(given["database_url"])) + configuration.trust_table(pins)
    would_start(text)
    agrees(path, text)
    wanted = PrepareRequest(
        state=state,
        configuration=None if path.exists() else (path, text),
        notes=path.absolute().parent,
        roots=pins,
        **{name: given[name] for name in ("cluster_id", "coordinator_id", "url", "database_url", "hosts")},  # type: ignore[arg-type]
    )
    with telling_of_the_database():
        made = preparing.prepare(wanted, now=wall_clock())
    say_made(made, given, _render_prepared)


def begin_history(at: Configuration, *, anew: bool, as_json: bool) -> None:
    """The history of the cluster of this machine's coordinator, and an identity for it where it has none."""
    with telling_of_the_database():
        carried = _carry_over(at, anew=anew)
    say_made(carried, {"as_json": as_json}, _render_history)
    if anew and not as_json:
        say("It names no owners of the seed: where there were any, name them anew, by coordinators set")
        if carried.history is not None and carried.history.is_seed_new:
            say("A CA that followed from the former seed ends with it, exchange it: holdfastctl coordinators ca begin")


def _carry_over(at: Configuration, *, anew: bool) -> CarriedOver:
    """Two links, one after the other; whoever was stopped in between has the second made by the same command."""
    made: BegunHistory | None = None
    try:
        made = begun_history.begin(at, anew=anew, actor=as_actor(), now=wall_clock())
    except Refused as refused:
        is_here = refused.code is Code.ALREADY_INITIALISED and seeds.load(at.keys_directory, os.environ) is not None
        own = pinned_identity.pin_if_none(at, actor=as_actor(), now=wall_clock()) if is_here and not anew else None
        if own is None:
            raise
        return CarriedOver(None, own)
    try:
        return CarriedOver(made, pinned_identity.pin_if_none(at, actor=as_actor(), now=wall_clock()))
    except SQLAlchemyError as error:
        said = f"the history is begun, and then the database did not answer: {line_of(error)}"
        raise Failed(f"{said}; for the identity: holdfastctl coordinators pin", UNANSWERED) from None


def pin_identity(at: Configuration, *, anew: bool, as_json: bool) -> None:
    """The identity of this machine's coordinator."""
    with telling_of_the_database():
        made = pinned_identity.pin(at, anew=anew, actor=as_actor(), now=wall_clock())
    say_made(made, {"as_json": as_json}, _render_identity)


def as_actor() -> str:
    """Who is at this machine's command line."""
    return f"uid:{os.getuid()}"


@contextmanager
def telling_of_the_database() -> Iterator[None]:
    """A database that does not answer ends the command, in one sentence."""
    try:
        yield
    except ArgumentError:
        raise Refused(Code.BAD_REQUEST, "--database is no database URL", remedy="nothing was changed") from None
    except SQLAlchemyError as error:
        remedy = "look at --database and at its server; nothing was changed"
        raise Failed(f"the database does not answer: {line_of(error)}; {remedy}", UNANSWERED) from None


def _cluster_request(given: dict[str, object]) -> ClusterRequest:
    state, path = Path(str(given["state"])).absolute(), Path(str(given["path"]))
    database_url = str(given["database_url"] or f"sqlite:///{state}/coordinator.db")
    names = ("cluster_id", "coordinator_id", "url", "roots", "threshold", "algorithm", "hosts")
    text = configuration_text(given, state, database_url)
    return ClusterRequest(
        state=state,
        root_keys=Path(str(given["root_keys"])).absolute(),
        database_url=database_url,
        passphrase=partial(new_passphrase, bool(given["encrypt"]), given["passphrase_files"]),  # type: ignore[arg-type]
        ca_key=Path(str(given["ca_key"])).absolute() if given["ca_key"] else None,
        configuration=None if path.exists() else (path, text),
        declared=_starter_file(given, path),
        notes=path.absolute().parent,
        owners=read_owners(given["owners"]),  # type: ignore[arg-type]
        shares=Path(str(given["shares"])).absolute() if given["shares"] else None,
        **{name: given[name] for name in names},  # type: ignore[arg-type]
    )


def _starter_file(given: dict[str, object], configuration: Path) -> tuple[Path, str] | None:
    """Beside the configuration. A folder that is there already is the operator's."""
    path = configuration.absolute().parent / starter.FOLDER / starter.NAME
    return None if path.parent.exists() else (path, starter.text(str(given["cluster_id"]), str(given["url"])))


def _read_pins(given: dict[str, object]) -> PinnedRootKeys:
    return PinnedRootKeys(tuple(given["root_key_ids"]), int(str(given["root_threshold"])))  # type: ignore[arg-type]


def _among_coordinators(given: dict[str, object], database_url: str) -> object:
    """Where the others may ask; a SQLite file has one coordinator, whom nobody asks."""
    said = given.get("listen_coordinators")
    return said if said is not None else "" if database_url.startswith("sqlite") else AMONG_COORDINATORS


def configuration_text(given: dict[str, object], state: Path, database_url: str) -> str:
    """Every listener stands in it, also those that are the daemon's own: a port that is taken can be found there."""
    return f"""\
coordinator_id = "{given["coordinator_id"]}"

[database]
url = "{database_url}"

[listen]
# Members, by their pinned certificates; and nodes that want to join.
fleet = "{given["listen"]}"
join = "{given["listen_join"]}"
# Probes and metrics for monitoring, over plain HTTP.
probes = "{given["listen_probes"]}"
# Operators: here by the Unix socket, and from elsewhere over TLS (empty: nobody).
admin_socket = "{Path(str(given["admin_socket"])).absolute()}"
admin = "{given["listen_admin"]}"
# The other coordinators of the manifest, by their identities (host:port; empty: nobody).
coordinators = "{_among_coordinators(given, database_url)}"

[tls]
certificate = "{state}/tls/server.pem"
key = "{state}/tls/server-key.pem"

[keys]
directory = "{cluster_files.keys_directory(state)}"
token = "{cluster_files.token_file(state)}"
"""


def would_start(text: str) -> None:
    """The daemon's own reading of what would be written, before anything is made."""
    try:
        configuration.parse(text)
    except Refused as refused:
        options = "--listen, --listen-join, --listen-probes, --admin-socket, --listen-admin, --listen-coordinators"
        remedy = f"correct the options: {options}, paths without quotes"
        detail = f"the coordinator would refuse its configuration: {refused.detail}"
        raise Refused(refused.code, detail, remedy=remedy) from None


def agrees(path: Path, wanted: str) -> None:
    """A configuration that is there already names what is about to be made (rules K8, K9: and is a coordinator's)."""
    if not path.exists():
        return
    ours, theirs = configuration.parse(wanted), configuration.load(path)
    for name in ("coordinator_id", "database_url", "certificate", "key", "keys_directory", "token_key"):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            remedy = f"let the options say the same, or move {path} away"
            raise Refused(Code.CONFLICT, f"{path} says {name} {there}, but this would be {here}", remedy=remedy)


def say_made(made: Any, given: dict[str, object], render: Callable[[Any], None]) -> None:  # noqa: ANN401 - either's Made
    """As JSON, or in words."""
    if given["as_json"]:
        say_json({name: _plain(value) for name, value in asdict(made).items()})
    else:
        render(made)


def _render(made: MadeCluster) -> None:
    output.facts(
        [
            ("cluster", made.cluster_id),
            *(("root key", f"{key_id}  {path}") for key_id, path in made.root_keys),
            ("config key", f"{made.config_key[0]}  {made.config_key[1]}"),
            ("certificate", f"{made.certificate_sha256}  {made.certificate}"),
            ("CA for nodes", made.authority),
            ("CA key", made.ca_key or "follows from the seed"),
            ("configuration", made.configuration or "there already; not touched"),
            ("first declared", made.declared or "there already; not touched"),
            *(("seed share", f"{owner}  {path}") for owner, path in made.shares),
        ]
    )
    say("Take the root keys away now, each to a place of its own: whoever has enough of them has the cluster.")
    if made.shares:
        say("Give each owner their share: with their key it brings the cluster back when no coordinator is left.")
    folder = made.declared.parent if made.declared else "FILES"
    say(f"Next: systemctl start holdfast-coordinator, holdfastctl apply -f {folder}, holdfastctl allow add NODE")


def _render_prepared(made: PreparedCoordinator) -> None:
    output.facts(
        [
            ("cluster", made.cluster_id),
            ("coordinator", made.coordinator_id),
            ("url", made.url),
            ("identity", f"{made.certificate_sha256}  {made.identity}"),
            ("root keys", f"{len(made.root_keys)}, which lead to the trust bundle of this database"),
            ("configuration", made.configuration or "there already; not touched"),
        ]
    )
    say("It is no coordinator yet, and has no secret of the cluster. Next, where one is, naming all that stay:")
    named = f"{made.coordinator_id}={made.certificate_sha256}"
    say(f"  holdfastctl coordinators set COORDINATOR... {named} --request set.json")
    say("  holdfastctl trust sign set.json --root-key KEYS")
    say("  holdfastctl coordinators commit set.json")
    say("Then here: systemctl start holdfast-coordinator, and declare its URL in the Cluster: holdfastctl apply")


def _render_history(made: CarriedOver) -> None:
    begun, own = made.history, made.identity
    facts: list[tuple[str, object]] = [("history", "begun before; not touched")]
    if begun is not None:
        facts = [
            ("cluster", begun.cluster_id),
            ("history key", begun.history_key),
            ("seed", f"{begun.seed}, {'new' if begun.is_seed_new else 'there already'}"),
            ("audit rows in link 1", begun.rows),
        ]
    if own is not None:
        facts.append((f"identity of {own.coordinator_id}", f"{own.certificate_sha256}  {own.identity}"))
    output.facts(facts)
    say("Seed and identity are secrets, and in backups with keys from now on: make one.")
    say("Next: start it, holdfastctl audit verify; then, on the machine of each other coordinator: a copy of the seed")
    say("beside its config keys, holdfastctl coordinators pin")


def _render_identity(made: PinnedIdentity) -> None:
    output.facts(
        [
            ("coordinator", made.coordinator_id),
            ("identity", f"{made.certificate_sha256}  {made.identity}, {'new' if made.is_new else 'there already'}"),
            ("manifest", f"{made.manifest}, of link {made.number}"),
        ]
    )
    say("Its key is a secret of this machine, and in backups with keys: copy it to no other coordinator.")
    say("Next: start it, holdfastctl coordinators status; and the same on the machine of each other coordinator")


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return str(value) if isinstance(value, Path) else value
