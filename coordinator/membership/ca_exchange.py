"""The CA of the coordinators is exchanged while nodes go on, and no node is touched (rules K15, L15).

    begin     the next CA stands beside the present one in every node's signed `node_bootstrap`: nodes believe both
    (use)     each coordinator shows a certificate of the next one: files of its own machine, and a reload
    finish    the one before goes: nodes believe it no more, whatever their file names
    cancel    the next one goes instead

    drop      one of another's goes, which was listed beside them: a mirror's, say
    follow    a coordinator notes of which CA the certificate is that it shows
    status    where it stands: who has confirmed the next one, and who shows a certificate of which

A node has confirmed a CA when it reports as active a `node_bootstrap` that names it, and reads what stands there: an
agent from before there was such a list passes over it, believes its file for ever, and says so by the feature that it
lacks. Neither `use` nor `finish` goes on while somebody has not confirmed: such a node would reach no coordinator, and
nobody could tell it otherwise but by files. An operator may say that it is meant (`despite_unconfirmed`), and the audit
log has it.

A coordinator never works with a list that lacks the CA of the certificate that it shows. The database may have been
restored from before an exchange, also under a coordinator that runs: then the CA is listed again by the one that
starts, reloads, or looks at another state than before, and until then it publishes nothing (`missing_authority`). Nodes
believe more than they need for a while, which `status` shows, and none is cut off.

Until the first exchange nothing is listed, and nodes go by their file: it may name other CAs, of mirrors, which a list
would end in silence. `begin` asks for them (`others`).

Rejected:

- A CA as a declared resource: whoever applies a folder from before the exchange would undo it.
- Cross-signing the next CA with the present one: a stolen key of the present one would outlive the exchange.
- An end of the window by date: it ends for those who were away, too.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, cluster_state, schema
from coordinator.database.database import Database, Transaction
from coordinator.declared.model import with_authorities
from coordinator.declared.node_scopes import AUTHORITIES
from coordinator.publishing import endpoints
from coordinator.reports import features
from wire.certificate import BadCertificateError, Certificate, names_as_issuer
from wire.operators.operator_answers import AuthorityExchange, AuthorityStanding, ShownAuthority, UnconfirmedMember

CURRENT, NEXT, OTHER = "current", "next", "other"
MOST = 8  # as many as a node reads
STATUS = "holdfastctl coordinators ca status"
_TABLE = schema.node_authorities
_SHOWN = 3  # of the members that a refusal names


@dataclass(frozen=True)
class _Listed:
    der: bytes
    standing: str
    added_at: float

    @property
    def certificate(self) -> Certificate:
        return Certificate.read(self.der)


def status(database: Database) -> AuthorityExchange:
    with database.read() as transaction:
        return _status(transaction)


def listed_authorities(database: Database) -> tuple[bytes, ...]:
    """What nodes are told, the present one first; nothing before the first exchange."""
    with database.read() as transaction:
        return tuple(authority.der for authority in _read_list(transaction).values())


def begin(
    database: Database, present: Sequence[Certificate], ca: bytes, others: Sequence[bytes], *, actor: str, now: float
) -> AuthorityExchange:
    """`present`: CAs that the answering coordinator knows of the certificate that it shows. DER. `bad_key` for what is
    no CA, or not known; `conflict` where an exchange is under way; `ca_in_use` where a coordinator shows another's.
    """
    added = {certificate.fingerprint: certificate for certificate in map(_read_authority, (ca, *others))}
    following = _read_authority(ca)
    with database.change(actor=actor, now=now) as transaction:
        listed = _read_list(transaction)
        if of := _one(listed, NEXT):
            detail = f"an exchange is under way: {of.certificate.fingerprint} comes next"
            raise Refused(Code.CONFLICT, detail, remedy=f"{STATUS} says how far it is; finish or cancel it first")
        current = _one(listed, CURRENT)
        own = current.certificate if current is not None else _present(transaction, present)
        if following.fingerprint in (own.fingerprint, *listed):
            raise Refused(Code.CONFLICT, f"{following.fingerprint} is listed already", remedy="make another CA")
        _must_show(transaction, own.fingerprint, "before another exchange begins")
        if current is None:
            _put(transaction, own, CURRENT)
        _put(transaction, following, NEXT)
        for fingerprint in added.keys() - {following.fingerprint, own.fingerprint} - listed.keys():
            _put(transaction, added[fingerprint], OTHER)
        if len(_read_list(transaction)) > MOST:
            raise Refused(Code.BAD_REQUEST, f"nodes read {MOST} CAs", remedy="drop others first")
        transaction.audit("ca.begin", following.fingerprint, own.fingerprint, sorted(added))
        _tell_nodes(transaction)
        return _status(transaction)


def finish(database: Database, *, despite_unconfirmed: bool = False, actor: str, now: float) -> AuthorityExchange:
    """`conflict` where none is under way; `ca_in_use` where a coordinator or, unless `despite_unconfirmed`, a member
    needs the one that would go.
    """
    with database.change(actor=actor, now=now) as transaction:
        before, following = _under_way(transaction)
        _must_show(transaction, following, "before the one of now goes")
        unconfirmed = () if despite_unconfirmed else _status(transaction).unconfirmed
        if unconfirmed:
            raise Refused(Code.CA_IN_USE, _words(unconfirmed), remedy=_WAIT)
        transaction.run(delete(_TABLE).where(_TABLE.c.certificate_sha256 == before))
        transaction.run(update(_TABLE).where(_TABLE.c.certificate_sha256 == following).values(standing=CURRENT))
        transaction.audit("ca.finish", following, before, {"despite_unconfirmed": despite_unconfirmed})
        _tell_nodes(transaction)
        return _status(transaction)


def cancel(database: Database, *, actor: str, now: float) -> AuthorityExchange:
    """`conflict` where none is under way; `ca_in_use` where a coordinator shows a certificate of the next one."""
    with database.change(actor=actor, now=now) as transaction:
        before, following = _under_way(transaction)
        _must_show(transaction, before, "before the next one goes")
        transaction.run(delete(_TABLE).where(_TABLE.c.certificate_sha256 == following))
        transaction.audit("ca.cancel", following, following, None)
        _tell_nodes(transaction)
        return _status(transaction)


def drop(database: Database, fingerprint: str, *, actor: str, now: float) -> AuthorityExchange:
    """One of another's. `not_found`; `ca_in_use` for one of the coordinators' own."""
    with database.change(actor=actor, now=now) as transaction:
        found = _read_list(transaction).get(fingerprint)
        if found is None:
            raise Refused(Code.NOT_FOUND, f"{fingerprint} is not listed", remedy=STATUS)
        if found.standing != OTHER:
            remedy = "holdfastctl coordinators ca finish, or cancel"
            raise Refused(Code.CA_IN_USE, f"{fingerprint} is the coordinators' own", remedy=remedy)
        transaction.run(delete(_TABLE).where(_TABLE.c.certificate_sha256 == fingerprint))
        transaction.audit("ca.drop", fingerprint, fingerprint, None)
        _tell_nodes(transaction)
        return _status(transaction)


def follow(
    database: Database,
    coordinator_id: str,
    shown: bytes,
    known: Sequence[Certificate],
    *,
    is_exchanged: bool,
    now: float,
) -> str:
    """Note the CA of the certificate (DER) that this coordinator shows; its fingerprint, or nothing where it is none of
    those that are listed or `known`. `is_exchanged`: its files say that there was an exchange, whatever the database
    says. Listed, where it has to be.
    """
    with database.read() as transaction:
        listed = _read_list(transaction)
        issuer = _issuer(shown, [*(authority.certificate for authority in listed.values()), *known])
        of = "" if issuer is None else issuer.fingerprint
        is_missing = bool(_missing_authority(listed, issuer, is_exchanged=is_exchanged))
        is_noted = _shown_authorities(transaction).get(coordinator_id) == of
    if is_missing and issuer is not None:
        with database.change(actor=coordinator_id, now=now, after_move=True) as transaction:
            listed = _read_list(transaction)
            if of not in listed:
                _put(transaction, issuer, _free_standing(listed))
                transaction.audit("ca.found", of, None, coordinator_id)
                _tell_nodes(transaction)
    if not is_noted:
        own = schema.coordinators.c.coordinator_id == coordinator_id
        with database.record(now=now) as transaction:
            transaction.run(update(schema.coordinators).where(own).values(authority_sha256=of))
    return of


def is_followed(
    database: Database, coordinator_id: str, shown: bytes, known: Sequence[Certificate], *, is_exchanged: bool
) -> bool:
    """Whether `follow` would change nothing. One that has no entry any more has nothing noted of it."""
    with database.read() as transaction:
        listed = _read_list(transaction)
        noted = _shown_authorities(transaction).get(coordinator_id)
    issuer = _issuer(shown, [*(authority.certificate for authority in listed.values()), *known])
    of = "" if issuer is None else issuer.fingerprint
    return noted in (None, of) and not _missing_authority(listed, issuer, is_exchanged=is_exchanged)


def missing_authority(
    listed: Sequence[bytes], shown: bytes, known: Sequence[Certificate], *, is_exchanged: bool
) -> str:
    """Why nodes must not be told of these CAs (DER), or nothing: they would refuse whoever shows this certificate."""
    if not listed and not is_exchanged:
        return ""
    found = {read.fingerprint: read for read in map(Certificate.read, listed)}
    missing = _missing_authority(found, _issuer(shown, [*found.values(), *known]), is_exchanged=is_exchanged)
    return f"the database does not list {missing}, the CA of the certificate that is shown" if missing else ""


# ---- inside

_WAIT = (
    f"wait until `{STATUS}` names none; bring one that does not come its newest documents as files; take out who is "
    "gone for good; or finish with --despite-unconfirmed: who is left is brought back by files alone"
)


def _status(transaction: Transaction) -> AuthorityExchange:
    listed = _read_list(transaction)
    following = _one(listed, NEXT)
    return AuthorityExchange(
        authorities=tuple(_standing(authority) for authority in listed.values()),
        coordinators=tuple(ShownAuthority(name, of) for name, of in _shown_authorities(transaction).items()),
        unconfirmed=() if following is None else tuple(_find_unconfirmed(transaction, following)),
        members=len(endpoints.reports(transaction)),
    )


def _standing(listed: _Listed) -> AuthorityStanding:
    read = listed.certificate
    times = read.not_before, read.not_after, listed.added_at
    return AuthorityStanding(read.fingerprint, listed.standing, *times, read.der)


def _find_unconfirmed(transaction: Transaction, following: _Listed) -> Iterator[UnconfirmedMember]:
    """In the order of their ids, with why."""
    fingerprint = following.certificate.fingerprint
    reported = endpoints.reports(transaction)
    held = endpoints.held_sections(transaction, reported, AUTHORITIES)
    for node_id, report in sorted(reported.items()):
        if report.active is None:
            why = "has not reported"
        elif not features.reads_authorities(report.features):
            why = f"its agent reads no list of CAs; agents from {features.AUTHORITIES.since} do"
        elif fingerprint not in (held.get(node_id) or {}):
            why = "holds no node_bootstrap that names it"
        else:
            continue
        yield UnconfirmedMember(node_id, why)


def _words(unconfirmed: Sequence[UnconfirmedMember]) -> str:
    more = len(unconfirmed) - _SHOWN
    names = ", ".join(member.node_id for member in unconfirmed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{len(unconfirmed)} members have not confirmed the next CA, and would reach no coordinator: {names}"


def _must_show(transaction: Transaction, fingerprint: str, when: str) -> None:
    """Every coordinator."""
    for name, of in _shown_authorities(transaction).items():
        if of != fingerprint:
            shows = f"a certificate of {of}" if of else "a certificate of a CA that is not known here, or was not asked"
            detail = f"{name} shows {shows}, and has to show one of {fingerprint} {when}"
            remedy = "on its machine: holdfastctl coordinators ca use --ca DIRECTORY, then a reload"
            raise Refused(Code.CA_IN_USE, detail, remedy=remedy)


def _under_way(transaction: Transaction) -> tuple[str, str]:
    """The fingerprints of the present one and the next."""
    listed = _read_list(transaction)
    current, following = _one(listed, CURRENT), _one(listed, NEXT)
    if current is None or following is None:
        raise Refused(Code.CONFLICT, "no exchange is under way", remedy="holdfastctl coordinators ca begin")
    return current.certificate.fingerprint, following.certificate.fingerprint


def _present(transaction: Transaction, present: Sequence[Certificate]) -> Certificate:
    """The CA of what the coordinators show now."""
    noted = set(_shown_authorities(transaction).values())
    for certificate in present:
        if certificate.fingerprint in noted:
            return certificate
    remedy = "put it beside the certificate as ca.pem, then: systemctl reload holdfast-coordinator"
    raise Refused(Code.BAD_KEY, "the CA of the certificate that is shown is not known here", remedy=remedy)


def _read_authority(der: bytes) -> Certificate:
    try:
        certificate = Certificate.read(der)
    except BadCertificateError as error:
        raise Refused(Code.BAD_KEY, str(error), remedy="give a CA's certificate, PEM") from None
    if not certificate.is_authority:
        raise Refused(Code.BAD_KEY, f"{certificate.fingerprint} is no CA", remedy="give a CA's certificate, PEM")
    return certificate


def _missing_authority(listed: Collection[str], issuer: Certificate | None, *, is_exchanged: bool) -> str:
    """The fingerprint of the CA, where it has to be listed and is not."""
    is_list = is_exchanged or bool(listed)
    return issuer.fingerprint if issuer is not None and is_list and issuer.fingerprint not in listed else ""


def _issuer(shown: bytes, candidates: Sequence[Certificate]) -> Certificate | None:
    return next((candidate for candidate in candidates if names_as_issuer(shown, candidate.der)), None)


def _free_standing(listed: dict[str, _Listed]) -> str:
    return next((name for name in (CURRENT, NEXT) if _one(listed, name) is None), OTHER)


def _one(listed: dict[str, _Listed], standing: str) -> _Listed | None:
    return next((authority for authority in listed.values() if authority.standing == standing), None)


def _read_list(transaction: Transaction) -> dict[str, _Listed]:
    """By fingerprint, the present one first, then the next."""
    cluster_state.standing(transaction)
    rows = transaction.rows(select(_TABLE).order_by(_TABLE.c.standing, _TABLE.c.certificate_sha256))
    return {row.certificate_sha256: _Listed(bytes(row.certificate), row.standing, row.added_at) for row in rows}


def _shown_authorities(transaction: Transaction) -> dict[str, str]:
    """By coordinator the CA of what it shows, or nothing."""
    table = schema.coordinators
    rows = transaction.rows(select(table.c.coordinator_id, table.c.authority_sha256).order_by(table.c.coordinator_id))
    return {row.coordinator_id: row.authority_sha256 for row in rows}


def _put(transaction: Transaction, certificate: Certificate, standing: str) -> None:
    row = {"certificate_sha256": certificate.fingerprint, "certificate": certificate.der, "standing": standing}
    transaction.run(insert(_TABLE).values(**row, added_at=transaction.now))


def _tell_nodes(transaction: Transaction) -> None:
    """Every node gets another `node_bootstrap`."""
    after = with_authorities(catalog.load(transaction), catalog.authorities(transaction))
    catalog.remember(transaction, after)
    cluster_state.raise_generations(transaction, (), everybody=True)
