"""The CA of the coordinators, whose key follows from the seed: each of them makes its own certificate (rules H0, H30).

    ca.pem      the CA's certificate: nodes were given it, and each coordinator has it beside its own
    its key     nowhere: derived from seed and salt, for one generation after the other (seed.py)

An exchange of the CA (membership/ca_exchange.py) brings the next generation. Which one a certificate is of, the
certificate says: its public key is that of a generation, or the CA is not derived. So no number is kept that could
differ from it.

Who has the seed can make certificates that nodes believe, and nothing that they take for configuration. A CA whose key
is to lie elsewhere is made by `init --ca-key-to`, and then each certificate is made where that key is.

Rejected: a certificate that is derived as well. Signatures of P-256 are random, and dates are not in the seed; so the
first coordinator makes it, and the others find it in the database, where it need not be believed.
"""

from collections.abc import Iterable
from pathlib import Path

from coordinator.keys import server_certificate
from coordinator.keys.seed import Seed
from wire.certificate import BadCertificateError, Certificate, KeyPair, is_certificate_of, make_authority, pem_to_der

MOST = 64  # generations: each is good for 20 years


def make(seed: Seed, generation: int, cluster_id: str, now: float) -> KeyPair:
    name = f"{cluster_id} coordinators" + (f" {generation}" if generation > 1 else "")
    return make_authority(name, now, key_pem=seed.authority_key(generation))


def make_next(seed: Seed, known: Iterable[Certificate], cluster_id: str, now: float) -> KeyPair:
    """Of the generation after all that are known."""
    newest = max((generation_of(seed, certificate.der) or 0 for certificate in known), default=0)
    return make(seed, newest + 1, cluster_id, now)


def generation_of(seed: Seed, der: bytes) -> int | None:
    """None where its key does not follow from this seed."""
    return next((number for number in range(1, MOST + 1) if is_certificate_of(der, seed.authority_key(number))), None)


def open_authority(seed: Seed | None, certificate_pem: bytes) -> KeyPair | None:
    """The CA of a certificate, with its key; None where that does not follow from this seed."""
    try:
        der = pem_to_der(certificate_pem)
    except BadCertificateError:
        return None
    generation = None if seed is None else generation_of(seed, der)
    if seed is None or generation is None:
        return None
    return KeyPair(certificate_pem, seed.authority_key(generation))


def beside(directory: Path, seed: Seed | None) -> KeyPair | None:
    """The CA that lies with a coordinator's certificate, if it is derived."""
    file = directory / server_certificate.AUTHORITY
    return open_authority(seed, file.read_bytes()) if file.is_file() else None
