"""The coordinators' CA follows from the seed: each makes its own certificate (rules H0, H30)."""

from pathlib import Path

from coordinator.keys import derived_authority, server_certificate
from coordinator.keys.seed import Seed
from wire.certificate import Certificate, KeyPair, make_authority, names_as_issuer

NOW = 1_800_000_000.0
SEED = Seed(b"\x01" * 32, b"\x02" * 32)
FIRST = derived_authority.make(SEED, 1, "prod", NOW)


def test_whoever_has_the_seed_opens_it_by_its_certificate_alone(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(FIRST.certificate_pem)
    ca = derived_authority.beside(tmp_path, SEED)
    assert ca == FIRST
    made = server_certificate.issue(ca, ["c2.example"], NOW)
    assert names_as_issuer(made.der, FIRST.der)
    assert derived_authority.beside(tmp_path / "nowhere", SEED) is None


def test_another_seed_or_another_ca_opens_nothing() -> None:
    other = Seed(SEED.salt, SEED.seed)
    assert derived_authority.open_authority(other, FIRST.certificate_pem) is None
    assert derived_authority.open_authority(None, FIRST.certificate_pem) is None
    own = make_authority("own", NOW)
    assert derived_authority.open_authority(SEED, own.certificate_pem) is None
    assert derived_authority.open_authority(SEED, b"no certificate") is None


def test_the_next_one_is_of_the_generation_after_all_that_are_known() -> None:
    """Also of a cluster whose CA is a file: then it is the first"""
    own = make_authority("own", NOW)

    def after(*known: KeyPair) -> int | None:
        made = derived_authority.make_next(SEED, [Certificate.read(each.der) for each in known], "prod", NOW)
        return derived_authority.generation_of(SEED, made.der)

    assert (after(), after(own), after(own, FIRST)) == (1, 1, 2)
    assert after(derived_authority.make(SEED, 5, "prod", NOW), FIRST) == 6
