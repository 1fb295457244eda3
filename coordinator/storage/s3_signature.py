"""AWS Signature Version 4 of one request, as every S3-compatible store checks it. Pure.

Our own, of the standard library: it is one page, published with worked examples that the tests hold it against, and a
server that checks it. Rejected: botocore, which brings a description of every service of one maker (100 MB with its
data), blocks a thread for each request, and signs nothing else; and the few asynchronous packages that Debian lacks.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class S3Credentials:
    """`token`: of credentials that end."""

    key_id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True)
class SignedRequest:
    """What is signed: the path as it is sent, but for its escapes; the query's pairs; and the hash of the body."""

    method: str
    host: str
    path: str = "/"
    query: Sequence[tuple[str, str]] = ()
    payload_sha256: str = EMPTY_SHA256
    headers: Mapping[str, str] = field(default_factory=dict)  # further ones that are signed, by lower-case name

    @property
    def target(self) -> str:
        """Path and query, escaped as they are signed."""
        query = canonical_query(self.query)
        return escape_path(self.path) + (f"?{query}" if query else "")


def authorize(request: SignedRequest, credentials: S3Credentials, region: str, at: float) -> dict[str, str]:
    """All headers that the request needs; `at` in Unix seconds."""
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "host": request.host,
        "x-amz-content-sha256": request.payload_sha256,
        "x-amz-date": stamp,
        **({"x-amz-security-token": credentials.token} if credentials.token else {}),
        **request.headers,
    }
    names = ";".join(sorted(headers))
    signed = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    parts = (request.method, escape_path(request.path), canonical_query(request.query), signed, names)
    canonical = "\n".join((*parts, request.payload_sha256))
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    to_sign = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.new(_key(credentials.secret, scope), to_sign.encode(), hashlib.sha256).hexdigest()
    claim = f"Credential={credentials.key_id}/{scope},SignedHeaders={names},Signature={signature}"
    return {**headers, "authorization": f"{ALGORITHM} {claim}"}


def escape_path(path: str) -> str:
    """Each byte but those that need none, once, and no slash."""
    return quote(path, safe="/-_.~")


def canonical_query(pairs: Sequence[tuple[str, str]]) -> str:
    escaped = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in escaped)


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
