"""`coordinators prepare`: a further coordinator's machine, whole or not at all, and a set that names it (rules H0, H24,
H49, K26, P7).
"""

import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.keys import identity, keystore
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import peer_recovery, replicas
from coordinator.setup import configuration, prepare
from coordinator.setup.prepare import PreparedCoordinator, PrepareRequest
from coordinator.trust import coordinator_set
from tests.coordinator.candidates import contents
from tests.coordinator.sets import FIRST, NOW, SECOND, Coordinators
from wire.certificate import fingerprint, issuer_of, pem_to_der

FOURTH = "coord-4"
URL = "https://c4.example:7443"


@pytest.fixture
def at(tmp_path: Path, postgresql_url: str):
    (tmp_path / "first").mkdir()
    made = Coordinators(tmp_path / "first", postgresql_url)
    yield made
    made.database.close()


@pytest.fixture
def wanted(at: Coordinators, tmp_path: Path) -> PrepareRequest:
    machine = tmp_path / "machine"
    return PrepareRequest(
        *("prod", FOURTH, URL, at.database.url.render_as_string(hide_password=False), machine / "state"),
        hosts=("10.0.0.4",),
        configuration=(machine / "etc" / "coordinator.toml", "coordinator_id = 'coord-4'\n"),
    )


def run(wanted: PrepareRequest) -> PreparedCoordinator:
    return prepare.prepare(wanted, now=NOW)


def refused(wanted: PrepareRequest) -> Refused:
    """And nothing was made."""
    with pytest.raises(Refused) as caught:
        run(wanted)
    assert not wanted.state.exists()
    return caught.value


def test_it_has_what_is_its_own_and_no_secret_of_another(at: Coordinators, wanted: PrepareRequest) -> None:
    """rules H4, K26: and it is no coordinator by it"""
    before = contents(at.database, "coordinators", "audit", "pointers", "transitions")
    made = run(wanted)
    found = {str(path.relative_to(wanted.state)) for path in wanted.state.rglob("*") if path.is_file()}
    assert found == {"keys/identity.pem", "keys/token.pem", "tls/server.pem", "tls/server-key.pem"}
    secret = [wanted.state / name for name in ("keys/identity.pem", "keys/token.pem", "tls/server-key.pem")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert keystore.config_keys(wanted.state / "keys", {}) == ()
    own = identity.load(wanted.state / "keys", {})
    assert made.certificate_sha256 == identity.pin_of(own)
    assert identity.owner_of(own.der) == (FOURTH, URL)
    assert issuer_of(pem_to_der((wanted.state / "tls/server.pem").read_bytes())) == "no coordinator yet"
    assert contents(at.database, "coordinators", "audit", "pointers", "transitions") == before
    with at.database.read() as transaction:
        assert peer_recovery.identity_certificate(transaction, made.certificate_sha256) == own.der
    assert made.configuration.read_text() == wanted.configuration[1]


def test_what_is_at_odds_is_named_and_makes_nothing(wanted: PrepareRequest, tmp_path: Path) -> None:
    assert refused(replace(wanted, cluster_id="staging")).code is Code.WRONG_CLUSTER
    assert refused(replace(wanted, database_url=f"sqlite:///{tmp_path}/state.db")).code is Code.IN_USE
    assert refused(replace(wanted, coordinator_id="Coord 4")).code is Code.BAD_REQUEST
    assert refused(replace(wanted, url="http://c4.example")).code is Code.BAD_REQUEST
    assert refused(replace(wanted, hosts=("a b",))).code is Code.BAD_REQUEST
    run(wanted)


def test_root_keys_that_lead_nowhere_are_named_first(at: Coordinators, wanted: PrepareRequest) -> None:
    """rules H50: and not on the day on which nobody but them could say whom to believe"""
    ids = tuple(key.key_id for key in at.roots)
    stranger = SigningKey.generate().key_id
    for named in ((stranger,), (*ids[:2], stranger), (at.held_key(),)):
        found = refused(replace(wanted, roots=PinnedRootKeys(named, 1)))
        assert (found.code, "trust show" in found.remedy) == (Code.UNTRUSTED_HISTORY, True)
        assert named[-1] in found.detail
    at.commit(at.signed(at.draft(FIRST, SECOND)))  # another bundle, which they lead to as well
    run(replace(wanted, roots=PinnedRootKeys(ids, 2)))


def test_a_cluster_without_a_history_begins_one_first(at: Coordinators, wanted: PrepareRequest) -> None:
    at.database.is_tampered = True
    with at.database.engine.begin() as connection:
        connection.execute(delete(schema.pointers))
    found = refused(wanted)
    assert (found.code, "begin-history" in found.remedy) == (Code.NO_STATE, True)


def test_what_is_there_already_is_not_touched_and_what_was_begun_is_cleared_up(wanted: PrepareRequest) -> None:
    """rules P7: it can be run again after it was killed, and not over one that is whole"""
    run(wanted)
    before = (wanted.state / "keys/identity.pem").read_bytes()
    with pytest.raises(Refused) as caught:
        run(wanted)
    assert caught.value.code is Code.ALREADY_INITIALISED
    assert (wanted.state / "keys/identity.pem").read_bytes() == before
    names = ["keys/identity.pem", "keys/token.pem", "tls/server.pem", "tls/server-key.pem"]
    left = [*(str((wanted.state / name).resolve()) for name in names), str(wanted.configuration[0].resolve()), "end"]
    note = wanted.state / f"{FOURTH}.incomplete"
    note.write_text("\n".join(left))
    run(wanted)
    assert (wanted.state / "keys/identity.pem").read_bytes() != before


# ---- the set that names it


def test_a_set_that_root_keys_sign_makes_it_a_coordinator(at: Coordinators, wanted: PrepareRequest) -> None:
    """rules H0, H24, H49: with the URL that its certificate says; without a token key or a certificate for nodes yet"""
    pin = run(wanted).certificate_sha256
    made = at.draft(FIRST, SECOND, coord_4=pin)
    assert f"adds the coordinator {FOURTH} at {URL}, with the certificate {pin}" in made.changes()
    at.commit(at.signed(made))
    entry = {"url": URL, "certificate_sha256": pin, "roles": ["coordinator"]}
    assert at.manifest()[1]["coordinators"][FOURTH] == entry
    assert replicas.identity_of(at.database, FOURTH) == pin
    with at.database.read() as transaction:
        assert b"" not in cluster_state.token_keys(transaction).values()
    assert replicas.follow(at.database, FOURTH, fingerprint(b"shown"), b"its token key", actor=FOURTH, now=at.now)
    at.commit(at.signed(at.draft(FIRST, FOURTH)))
    assert set(at.manifest()[1]["coordinators"]) == {FIRST, FOURTH}


def test_who_was_not_prepared_so_is_not_drafted(at: Coordinators, wanted: PrepareRequest) -> None:
    pin = run(wanted).certificate_sha256

    def code(**pins: str) -> tuple[Code, str]:
        with pytest.raises(Refused) as caught:
            at.draft(FIRST, **pins)
        return caught.value.code, caught.value.remedy

    assert code(coord_4="")[0] is Code.NOT_FOUND
    unknown, remedy = code(coord_4="sha256:" + "ab" * 32)
    assert (unknown, "coordinators prepare coord-4" in remedy) == (Code.NOT_FOUND, True)
    assert code(coord_5=pin)[0] is Code.CONTRADICTION
    assert code(coord_2=pin, coord_4=pin)[0] is Code.BAD_REQUEST


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "https://user@c4.example", "certificate_sha256": "sha256:" + "ab" * 32, "roles": ["coordinator"]},
        {"url": URL, "certificate_sha256": "sha256:" + "ab" * 32, "roles": ["coordinator", "admin"]},
        {"url": URL, "certificate_sha256": "sha256:ab", "roles": ["coordinator"]},
        {"url": URL, "certificate_sha256": "sha256:" + "ab" * 32, "roles": ["coordinator"], "more": 1},
    ],
)
def test_a_new_entry_of_another_form_is_none(at: Coordinators, entry: dict[str, object]) -> None:
    """rules H24: the only role is `coordinator`"""
    made = at.draft(FIRST)
    before = at.manifest()[1]["coordinators"][FIRST]
    with pytest.raises(Refused, match="this is no set of coordinators"):
        coordinator_set.make(made.bundle, made.before, {FIRST: before, FOURTH: entry}, made.mesh_key)


def test_the_root_keys_that_were_named_are_read_back(at: Coordinators) -> None:
    """rules H50"""
    pins = PinnedRootKeys(tuple(key.key_id for key in at.roots), 2)
    table = tomllib.loads(configuration.trust_table(pins))["trust"]
    assert configuration.read_roots(table["root_key_ids"], table["root_threshold"]) == pins
    for key_ids, threshold in (("sha256:ab", 0), (pins.key_ids[0], 2)):
        with pytest.raises(Refused) as caught:
            configuration.read_roots(key_ids, threshold)
        assert caught.value.code is Code.INVALID_SETTINGS
