"""The certificate that a coordinator shows to nodes, made by itself of the derived CA (rules H0; derived_authority.py).

    at the first start      it shows one of a CA that nobody has (setup/prepare.py): of the CA that the others show it
                            makes its own as soon as it has the seed
    later                   a new one of the CA that lies beside it, at four fifths of its time

Its names stay. Files that come from the service manager, or of a CA whose key is elsewhere, are left alone.
"""

from collections.abc import Sequence
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.keys import derived_authority, server_certificate
from coordinator.keys.atomic_files import replace_file
from coordinator.keys.seed import Seed
from wire.certificate import (
    Certificate,
    KeyPair,
    der_to_pem,
    issuer_of,
    make_authority,
    names_as_issuer,
    pem_to_der,
)

NOBODY = "no coordinator yet"


def make_provisional(hosts: Sequence[str], now: float) -> KeyPair:
    """Its CA is forgotten at once, so that nobody believes it."""
    return server_certificate.issue(make_authority(NOBODY, now), hosts, now)


def make_where_due(
    certificate: Path, key: Path, seed: Seed | None, shown_by_others: Sequence[bytes], now: float
) -> Certificate | None:
    """What was made, in both files; None where nothing is due. `bad_key` where a first one is, and no CA that the
    others show follows from the seed. `shown_by_others`: DER.
    """
    present = Certificate.read(pem_to_der(certificate.read_bytes()))
    if issuer_of(present.der) == NOBODY:
        return _make_first(certificate, key, _open_first(seed, shown_by_others), now)
    ca = derived_authority.beside(certificate.parent, seed)
    if ca is None or not names_as_issuer(present.der, ca.der) or now < present.renew_at:
        return None
    return server_certificate.renew(certificate, key, ca, (), now)


def _make_first(certificate: Path, key: Path, ca: KeyPair, now: float) -> Certificate:
    """The certificate goes last: until then it is done again."""
    replace_file(certificate.with_name(server_certificate.AUTHORITY), ca.certificate_pem, 0o644)
    return server_certificate.renew(certificate, key, ca, (), now)


def _open_first(seed: Seed | None, authorities: Sequence[bytes]) -> KeyPair:
    for der in authorities:
        if (ca := derived_authority.open_authority(seed, der_to_pem(der))) is not None:
            return ca
    detail = "the certificate here is of no CA that nodes believe, and none that others show follows from the seed"
    remedy = (
        "make one with the CA's key, holdfastctl coordinators certificate --ca DIRECTORY, and reload; or, first, carry "
        "the cluster over to a CA that follows from the seed: holdfastctl coordinators ca begin, use, finish"
    )
    raise Refused(Code.BAD_KEY, detail, remedy=remedy)
