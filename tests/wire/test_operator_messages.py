"""What operators send: read as it is written, closed, and a file's text as it stands (rules X14, P23)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.messages import BadMessageError, Message
from wire.operators.operator_messages import (
    ApplyRequest,
    CertificateRequest,
    ContentSummary,
    EntryRequest,
    MissingRequest,
    PublishRequest,
    ReasonRequest,
    RevocationRequest,
    RoleRequest,
    TokenRequest,
)
from wire.operators.trust_messages import (
    BundleSubmission,
    RecoveryDraftRequest,
    RecoverySubmission,
    SetDraftRequest,
    SetSubmission,
)

HASH = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "message",
    [
        ApplyRequest({"a.yaml": "kind: Node\nid: ключ\n"}, prune=True, based_on="p"),
        EntryRequest(),
        EntryRequest("witness", "berlin", HASH),
        ReasonRequest("it was stolen"),
        TokenRequest(node_id="node-a", lifetime_s=600),
        TokenRequest(uses=3, nodes="gw-*"),
        ApplyRequest({}, {"a/b": ContentSummary(3, ("0" * 64,))}),
        MissingRequest(("0" * 64,)),
        PublishRequest("/srv/tree"),
        CertificateRequest(b"0"),
        CertificateRequest(b"0", "viewer"),
        RoleRequest("author"),
        RevocationRequest("endpoints", "https://s.example:1", "it is gone", unknown=True),
        BundleSubmission(b"a document", despite_reports=True),
        RecoverySubmission(b"another"),
        RecoveryDraftRequest("n1", "route_policy", 7),
        SetDraftRequest({"c1": "", "c2": HASH}, "ed25519", b"key"),
        SetSubmission("{\n}\n", despite_reports=True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_written_as_it_is_read(message: Message) -> None:
    assert type(message).parse(message.to_bytes()) == message


def test_what_is_not_said_is_not_sent() -> None:
    """It is as declared, or as the coordinator's settings say."""
    assert (EntryRequest().to_value(), TokenRequest().to_value()) == ({}, {"uses": 1})
    assert TokenRequest.parse(b"{}") == TokenRequest()


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (ApplyRequest, {}, "lacks files"),
        (ApplyRequest, {"files": {}, "prune": 1}, "prune must be true or false, and is an integer"),
        (ApplyRequest, {"files": {"a": None}}, "a member of files must be a text"),
        (EntryRequest, {"kind": "banana"}, "kind must be one of data, witness"),
        (EntryRequest, {"site": "x"}, "it may have certificate_sha256, kind, site_id"),
        (ReasonRequest, {"reason": ""}, "reason must be 1 to 256 printable characters"),
        (TokenRequest, {"uses": 0}, "uses must be an integer from 1"),
        (MissingRequest, {"sha256": ["0" * 64, "x"]}, r"sha256\[1\] must be 64 hex digits"),
        (PublishRequest, {"to": "here"}, "to must be an absolute path"),
        (CertificateRequest, {"certificate": "~"}, "certificate must be base64"),
        (RevocationRequest, {"category": "node_ids", "value": "n", "reason": "r"}, "category must be one of key_ids"),
        (BundleSubmission, {"document": "AAAA", "despite_reports": None}, "despite_reports must be true or false"),
        (RecoveryDraftRequest, {"node_id": "n", "scope": "A", "to_config_version": 1}, "scope must be a scope"),
        (TokenRequest, {"lifetime_s": None}, "lifetime_s must be an integer from 1 .* and is null"),
    ],
)
def test_what_is_wrong_is_named(kind: type[Message], body: object, said: str) -> None:
    with pytest.raises(BadMessageError, match=said):
        kind.parse(json.dumps(body).encode())


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_that_can_be_kept_is_a_files_text(text: str) -> None:
    """rules P23: no database keeps NUL or half a character"""
    body = json.dumps({"files": {"a.yaml": text}}).encode()
    if "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text):
        assert ApplyRequest.parse(body).files == {"a.yaml": text}
        return
    with pytest.raises(BadMessageError, match="half"):
        ApplyRequest.parse(body)
