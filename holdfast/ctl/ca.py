"""`holdfastctl coordinators ca`: the CA of the coordinators is exchanged, and no node is touched."""

import os
from pathlib import Path

import click

from coordinator.base.places import DEFAULT_PATH
from coordinator.base.refusal import Code, Refused
from coordinator.setup import configuration
from coordinator.setup.configuration import CREDENTIAL
from holdfast.ctl import output
from holdfast.ctl.machine import with_a_coordinators_libraries
from holdfast.ctl.signing import ca_passphrase, passphrase_option
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from holdfast.ctl.trust import new_passphrase
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say
from snapshot.ending import short
from wire.certificate import BadCertificateError, KeyPair, der_to_pem, fingerprint, make_authority, pem_to_der
from wire.operators.operator_answers import AuthorityExchange, AuthorityStanding
from wire.operators.operator_messages import AuthorityRequest, CancelRequest, FinishRequest

DAY = 86_400
USE = "holdfastctl coordinators ca use"
_STANDINGS = {"current": "present", "next": "next", "other": "another's"}


@click.group()
def ca() -> None:
    """The CA of the coordinators' certificates: exchanged while nodes go on, and without touching one."""


@ca.command()
@asks_the_coordinator
def status(asked: CoordinatorClient) -> None:
    """Which CAs nodes believe, who shows a certificate of which, and which nodes have not confirmed the next one."""
    asked.show(asked.get(AuthorityExchange, "coordinators", "ca"), _render)


@ca.command()
@click.option("--to", "place", type=click.Path(path_type=Path, file_okay=False),
              help="Where a CA of its own is put, to be taken away; one that lies there is taken. "
              "[default: its key follows from the seed]")  # fmt: skip
@click.option("--encrypt", is_flag=True, help="Its key under a passphrase, from --passphrase-file or asked for.")
@passphrase_option
@click.option("--days", type=click.IntRange(30, 36_500), default=7_300, show_default=True, help="How long it is good.")
@click.option("--also", "others", type=click.Path(path_type=Path, exists=True, dir_okay=False), multiple=True,
              help="Another CA (PEM) that nodes go on believing: a mirror's, say.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def begin(
    asked: CoordinatorClient,
    place: Path | None,
    encrypt: bool,
    passphrase_files: tuple[Path, ...],
    days: int,
    others: tuple[Path, ...],
    yes: bool,
) -> None:
    """Make the next CA, and have nodes believe it beside the present one. From now on signed content says which CAs
    they believe, and not the file that they were given.

    Its key follows from the seed that each coordinator has, so that none is copied or kept: also for a cluster whose
    present CA is a file. With --to it is one of its own, and each certificate is made where its key lies.
    """
    confirm("Have all nodes believe another CA beside the present one?", yes=yes)
    made = b"" if place is None else _make_own(place, days, encrypt=encrypt, passphrase_files=passphrase_files)
    body = AuthorityRequest(made, tuple(map(_der, others)))
    answer = asked.post(AuthorityExchange, "coordinators", "ca", "begin", body=body)
    asked.show(answer, _render)
    if not asked.as_json:
        use_it = USE if place is None else f"{USE} --ca {place}"
        say(f"next, when no member is named any more, on each coordinator's machine: {use_it}")


@ca.command()
@click.option("--ca", "place", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Where ca.pem and ca-key.pem of the next CA lie. [default: it follows from the seed]")  # fmt: skip
@passphrase_option
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=DEFAULT_PATH, show_default=True,
              help="Names the certificate and its key.")  # fmt: skip
@click.option(
    "--despite-unconfirmed", is_flag=True, help="Also where members have not confirmed that CA, or are not told of it."
)
@asks_the_coordinator
def use(
    asked: CoordinatorClient,
    place: Path | None,
    passphrase_files: tuple[Path, ...],
    path: Path,
    despite_unconfirmed: bool,
) -> None:
    """Give the coordinator of this machine a certificate of that CA. It is shown after a reload."""
    with with_a_coordinators_libraries():
        from coordinator.keys import server_certificate  # noqa: PLC0415 - the network's library: no other command waits for it

    at = configuration.load(path)
    for name in (at.certificate, at.key):
        if name.startswith(CREDENTIAL):
            remedy = "renew it where that has it from"
            raise Refused(Code.CONFLICT, f"{name} comes from the service manager", remedy=remedy)
    exchange = asked.get(AuthorityExchange, "coordinators", "ca")
    if place is None:
        authority = _derive(exchange, at.keys_directory)
    else:
        authority = server_certificate.authority_in(place, ca_passphrase(place, passphrase_files))
    of = fingerprint(authority.der)
    _must_be_believed(exchange, of, despite_unconfirmed=despite_unconfirmed)
    made = server_certificate.exchange(Path(at.certificate), Path(at.key), authority, wall_clock())
    answer = {
        "certificate": at.certificate,
        "fingerprint": made.fingerprint,
        "ca": of,
        "not_after": output.time(made.not_after),
    }
    asked.show(answer, lambda facts: output.facts(facts.items()))
    if not asked.as_json:
        say("next: systemctl reload holdfast-coordinator")


@ca.command()
@click.option(
    "--despite-unconfirmed",
    is_flag=True,
    help="Also where members do not know the next one.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def finish(asked: CoordinatorClient, despite_unconfirmed: bool, yes: bool) -> None:
    """Have nodes believe the CA before no more. Each coordinator shows a certificate of the next one by then."""
    confirm("Have nodes believe the present CA no more?", yes=yes)
    answer = asked.post(AuthorityExchange, "coordinators", "ca", "finish", body=FinishRequest(despite_unconfirmed))
    asked.show(answer, _render)
    if not asked.as_json:
        say("next: destroy the key of the one before: on each coordinator's machine, the folder tls/before")


@ca.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def cancel(asked: CoordinatorClient, yes: bool) -> None:
    """Give the exchange up: nodes believe the next CA no more. No coordinator shows a certificate of it by then."""
    confirm("Have nodes believe the next CA no more?", yes=yes)
    asked.show(asked.post(AuthorityExchange, "coordinators", "ca", "cancel", body=CancelRequest()), _render)


@ca.command()
@click.argument("authority", metavar="FINGERPRINT")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def drop(asked: CoordinatorClient, authority: str, yes: bool) -> None:
    """Have nodes believe another's CA no more, which was listed by --also."""
    confirm(f"Have nodes believe {authority} no more?", yes=yes)
    asked.show(asked.delete(AuthorityExchange, "coordinators", "ca", authority), _render)


def _must_be_believed(exchange: AuthorityExchange, authority: str, *, despite_unconfirmed: bool) -> None:
    """By the nodes, before it is shown to them."""
    standings = {authority.fingerprint: authority.standing for authority in exchange.authorities}
    if despite_unconfirmed:
        return
    if standings.get(authority, "other") == "other":
        remedy = "first: holdfastctl coordinators ca begin"
        raise Refused(Code.CONFLICT, f"nodes are not told of {authority}", remedy=remedy)
    if standings[authority] == "next" and exchange.unconfirmed:
        waiting = [f"{member.node_id}: {member.why}" for member in exchange.unconfirmed]
        detail = f"{len(waiting)} of {exchange.members} members would reach this coordinator no more"
        remedy = "wait for them, bring them their documents as files, take them out, or: --despite-unconfirmed"
        raise Refused(Code.CA_IN_USE, detail, remedy=remedy, lines=waiting[:20])


def _make_own(place: Path, days: int, *, encrypt: bool, passphrase_files: tuple[Path, ...]) -> bytes:
    """The certificate of the CA that lies there, DER; it is made where there is none yet."""
    with with_a_coordinators_libraries():
        from coordinator.keys import server_certificate  # noqa: PLC0415 - the network's library: no other command waits for it

    file, key_file = place / server_certificate.AUTHORITY, place / server_certificate.AUTHORITY_KEY
    if not (file.is_file() and key_file.is_file()):
        made = make_authority("holdfast coordinators", wall_clock(), lifetime_s=days * DAY)
        server_certificate.keep_authority(place, made, new_passphrase(encrypt, passphrase_files))
    return _der(file)


def _derive(exchange: AuthorityExchange, keys: Path) -> KeyPair:
    """The newest CA of the coordinators' own that is listed and follows from the seed here."""
    from coordinator.keys import derived_authority  # noqa: PLC0415 - the network's library: no other command waits for it
    from coordinator.keys import seed as seeds  # noqa: PLC0415 - the same

    seed = seeds.load(keys, os.environ)
    for standing in ("next", "current"):
        for listed in exchange.authorities:
            pem = der_to_pem(listed.certificate)
            if listed.standing == standing and (found := derived_authority.open_authority(seed, pem)):
                return found
    remedy = f"name its directory: {USE} --ca"
    raise Refused(Code.CONFLICT, f"no CA that is listed follows from a seed in {keys}", remedy=remedy)


def _der(file: Path) -> bytes:
    try:
        return pem_to_der(file.read_bytes())
    except BadCertificateError as error:
        raise click.UsageError(f"{file}: {error}") from None


def _render(exchange: AuthorityExchange) -> None:
    rows = (
        (
            authority.fingerprint,
            _STANDINGS[authority.standing],
            output.time(authority.added_at),
            output.time(authority.not_after),
        )
        for authority in exchange.authorities
    )
    output.table(("CA", "whose", "since", "ends"), rows, nothing="nodes believe the file that they were given")
    standings = {authority.fingerprint: _STANDINGS[authority.standing] for authority in exchange.authorities}
    for shown in exchange.coordinators:
        of = f"{short(shown.authority)} ({standings.get(shown.authority, 'not listed')})" if shown.authority else "?"
        say(f"{shown.coordinator_id} shows a certificate of {of}")
    if not any(authority.standing == "next" for authority in exchange.authorities):
        return
    confirmed = exchange.members - len(exchange.unconfirmed)
    say(f"{confirmed} of {exchange.members} members have confirmed the next CA")
    for member in exchange.unconfirmed:
        say(f"  {member.node_id}: {member.why}")


def _row(authority: AuthorityStanding) -> tuple[str, ...]:
    times = output.time(authority.added_at), output.time(authority.not_after)
    return authority.fingerprint, _STANDINGS[authority.standing], *times
