"""The pin table: what is pinned, what is refused, and whose connections end."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fakes.resigned import unreadable_for_tls
from tests.wire.lab import ALWAYS, NOW
from wire.certificate import fingerprint, make_authority, make_identity
from wire.limits import ListenerLimits
from wire.peer import PinState
from wire.pins import Pin, PinFault, PinRefusedError, PinTable
from wire.tls import PinnedTransport
from wire.tls_contexts import pinned_server_context


def der(name: str) -> bytes:
    return make_identity(name, ALWAYS[0], lifetime_s=ALWAYS[1]).der


ALICE, ALICE_2, ALICE_3, BOB = der("alice"), der("alice"), der("alice"), der("bob")


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def trust_pin(self, pin: Pin) -> None:
        self.seen.append(("added", pin.fingerprint))

    def distrust_pin(self, pin: Pin) -> None:
        self.seen.append(("removed", pin.fingerprint))


def refusal(table: PinTable, certificate: bytes, node_id: str) -> PinFault:
    before = list(table)
    with pytest.raises(PinRefusedError) as caught:
        table.add(certificate, node_id)
    assert list(table) == before
    return caught.value.reason


def test_a_pin_is_found_by_exactly_its_certificate() -> None:
    """rules H-000-3, threats M11: the DER's hash decides; two certificates with one subject are two pins."""
    table = PinTable()
    table.add(ALICE, "alice")
    table.add(ALICE_2, "alice")
    assert table.find(ALICE).node_id == "alice"  # type: ignore[union-attr]
    assert table.find(ALICE_2).fingerprint == fingerprint(ALICE_2)  # type: ignore[union-attr]
    assert table.find(BOB) is None
    assert table.find(ALICE + b"\0") is None
    assert table.find(b"") is None


def test_a_certificate_speaks_for_its_own_node_while_that_is_active() -> None:
    """rules K33: for no other one, and for nobody who is not pinned, revoked or removed; again once it is active."""
    table = PinTable()
    table.add(ALICE, "alice")
    table.add(BOB, "bob")
    assert table.speaks_for(fingerprint(ALICE), "alice")
    assert not table.speaks_for(fingerprint(ALICE), "bob")
    assert not table.speaks_for(fingerprint(ALICE_2), "alice")
    for state in (PinState.REVOKED, PinState.REMOVED):
        table.set_state("alice", state)
        assert not table.speaks_for(fingerprint(ALICE), "alice")
        assert table.speaks_for(fingerprint(BOB), "bob")
    table.set_state("alice", PinState.ACTIVE)
    assert table.speaks_for(fingerprint(ALICE), "alice")
    table.remove(fingerprint(ALICE))
    assert not table.speaks_for(fingerprint(ALICE), "alice")


def test_what_must_not_be_pinned() -> None:
    """threats M02, M04, D-30, D-31, rules K34: each refusal leaves the table, and a good one goes through after it."""
    table = PinTable(own=[BOB])
    table.add(ALICE, "alice")
    table.add(ALICE_2, "alice")
    assert refusal(table, make_authority("eve", NOW).der, "eve") is PinFault.AUTHORITY
    assert refusal(table, BOB, "bob") is PinFault.OWN
    assert refusal(table, ALICE, "mallory") is PinFault.OTHER_NODE
    assert refusal(table, ALICE_3, "alice") is PinFault.TOO_MANY
    assert refusal(table, b"garbage", "eve") is PinFault.UNREADABLE
    table.remove(fingerprint(ALICE))
    assert table.add(ALICE_3, "alice").state is PinState.ACTIVE


def test_a_follower_hears_of_certificates_and_not_of_states() -> None:
    """A revoked node stays known to TLS, so that it can be told (rules K22)."""
    table, recorder = PinTable(), Recorder()
    table.attach(recorder)
    table.add(ALICE, "alice")
    table.set_state("alice", PinState.REVOKED)
    table.remove(fingerprint(ALICE))
    assert recorder.seen == [("added", fingerprint(ALICE)), ("removed", fingerprint(ALICE))]


def test_connections_end_with_the_state_and_with_the_pin() -> None:
    """threats M07."""
    table, ended = PinTable(), []
    table.add(ALICE, "alice")
    table.add(BOB, "bob")
    with table.open_connection(fingerprint(ALICE), lambda: ended.append("alice")):
        with table.open_connection(fingerprint(BOB), lambda: ended.append("bob")):
            assert table.connections_of("alice") == 1
            table.set_state("alice", PinState.ACTIVE)
            assert ended == []
            table.set_state("alice", PinState.REMOVED)
            assert ended == ["alice"]
            table.remove(fingerprint(BOB))
            assert ended == ["alice", "bob"]
    assert table.connections_of("alice") == 0


CERTIFICATES = {ALICE: "alice", ALICE_2: "alice", BOB: "bob"}


@examples(60)
@given(st.lists(st.dictionaries(st.sampled_from(list(CERTIFICATES)), st.sampled_from(list(PinState))), max_size=5))
def test_the_table_is_brought_to_whatever_is_wanted(rounds: list[dict[bytes, PinState]]) -> None:
    """Level-triggered: after each round the table, its index and its follower hold exactly what was wanted."""
    table, recorder = PinTable(), Recorder()
    table.attach(recorder)
    for wanted in rounds:
        assert table.bring_to((each, CERTIFICATES[each], state) for each, state in wanted.items()) == []
        assert {pin.der: pin.state for pin in table} == wanted
        assert sum(len(table.of_node(name)) for name in ("alice", "bob")) == len(wanted)
    known: set[str] = set()
    for what, shown in recorder.seen:
        known = known | {shown} if what == "added" else known - {shown}
    assert known == {pin.fingerprint for pin in table}


def test_one_that_cannot_be_pinned_keeps_no_other_out() -> None:
    table = PinTable()
    refused = table.bring_to([(b"garbage", "eve", PinState.ACTIVE), (BOB, "bob", PinState.ACTIVE)])
    assert [error.reason for error in refused] == [PinFault.UNREADABLE]
    assert [pin.node_id for pin in table] == ["bob"]


def test_what_tls_cannot_read_is_let_in_nowhere_and_keeps_no_other_out() -> None:
    """threats M07: OpenSSL looks into names, which nobody else does, and takes no file that has one such certificate
    among those of a whole fleet.
    """
    own, eve = make_identity("own", NOW), make_identity("eve", NOW)
    key = load_pem_private_key(eve.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    bad = unreadable_for_tls(eve.der, key, "eve")
    table = PinTable([own.der])
    for der_, node_id in ((ALICE, "alice"), (bad, "eve"), (BOB, "bob")):
        table.add(der_, node_id)
    assert pinned_server_context(own, [pin.der for pin in table]).cert_store_stats()["x509"] == 2
    table.remove(fingerprint(bad))
    PinnedTransport(table, own, ListenerLimits())
    assert refusal(table, bad, "eve") is PinFault.UNREADABLE
    assert table.add(eve.der, "eve").state is PinState.ACTIVE
