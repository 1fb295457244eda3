"""Join files: what is taken for one, and that nothing else is."""

import dataclasses

import pytest

from wire.invitation import FORMAT, BadInvitationError, Invitation

HASH = "sha256:" + "ab" * 32
GOOD = Invitation(
    holdfast_join_file=FORMAT,
    cluster_id="raven",
    node_id="gw-1",
    site_id="default",
    urls=("https://coordinator.example:7443",),
    join_urls=("https://coordinator.example:7444",),
    ca=b"-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n",
    root_key_ids=(HASH,),
    root_threshold=1,
    token="header.claims.signature",
    expires_at=1_800_000_000,
)


def test_what_is_written_is_read() -> None:
    for made in (GOOD, dataclasses.replace(GOOD, node_id=None)):
        assert Invitation.read(made.to_bytes()) == made
        assert Invitation.read(made.to_bytes() + b"\n") == made


@pytest.mark.parametrize(
    "wrong",
    [
        {"holdfast_join_file": 2},
        {"urls": ()},
        {"join_urls": ()},
        {"urls": ("http://coordinator.example:7443",)},
        {"ca": b"nothing"},
        {"ca": GOOD.ca + b"-----BEGIN PRIVATE KEY-----"},
        {"root_threshold": 2},
        {"root_key_ids": ()},
    ],
)
def test_what_no_node_could_join_by_is_refused(wrong: dict) -> None:
    with pytest.raises(BadInvitationError) as caught:
        Invitation.read(dataclasses.replace(GOOD, **wrong).to_bytes())
    assert GOOD.token not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"header.claims.signature",
        GOOD.to_bytes()[:-1],
        GOOD.to_bytes().replace(b'"site_id"', b'"more":1,"site_id"'),
        GOOD.to_bytes().replace(b'"cluster_id":"raven"', b'"cluster_id":"../etc"'),
        b"\x00" * 300_000,
    ],
)
def test_what_is_no_join_file_is_refused_with_the_remedy(data: bytes) -> None:
    with pytest.raises(BadInvitationError, match="holdfastctl allow add NODE --join-file"):
        Invitation.read(data)
