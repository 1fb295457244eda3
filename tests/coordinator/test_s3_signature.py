"""Signature Version 4, held against the examples that Amazon has published for S3 and against its own library."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.storage.s3_signature import S3Credentials, SignedRequest, authorize

KEY = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
AT = 1_369_353_600  # 20130524T000000Z
HOST = "examplebucket.s3.amazonaws.com"
BODY = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()
EXAMPLES = {
    "get object": (
        SignedRequest("GET", HOST, "/test.txt", headers={"range": "bytes=0-9"}),
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "put object": (
        SignedRequest(
            "PUT",
            HOST,
            "/test$file.text",
            payload_sha256=BODY,
            headers={"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
        ),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "get lifecycle": (
        SignedRequest("GET", HOST, query=[("lifecycle", "")]),
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "list objects": (
        SignedRequest("GET", HOST, query=[("max-keys", "2"), ("prefix", "J")]),
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_published_examples(name: str) -> None:
    request, signature = EXAMPLES[name]
    assert authorize(request, KEY, "us-east-1", AT)["authorization"].endswith(f"Signature={signature}")


@given(
    path=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    query=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4),
    token=st.sampled_from(["", "a token"]),
    at=st.integers(0, 4_000_000_000),
)
def test_what_amazons_own_library_signs(path: str, query: dict[str, str], token: str, at: int) -> None:
    """For any path and query, not only those that we send."""
    auth = pytest.importorskip("botocore.auth")
    from datetime import UTC, datetime
    from unittest.mock import patch

    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = SignedRequest("GET", "s3.example:9000", f"/bucket/{path}", list(query.items()))
    ours = authorize(request, S3Credentials("id", "secret", token), "eu-central-1", at)
    theirs = AWSRequest("GET", f"https://s3.example:9000{request.target}")
    signer = auth.S3SigV4Auth(Credentials("id", "secret", token or None), "s3", "eu-central-1")
    clock = "botocore.auth.get_current_datetime"
    with patch(clock, lambda *_: datetime.fromtimestamp(at, UTC).replace(tzinfo=None)):
        signer.add_auth(theirs)
    assert ours["authorization"].replace(",", ", ") == theirs.headers["Authorization"].replace(", ", ",").replace(
        ",", ", "
    )


def test_secrets_are_not_shown() -> None:
    assert KEY.secret not in repr(KEY)
