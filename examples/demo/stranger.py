"""Who knocks at the coordinator's door for nodes: nobody without a certificate, nobody with one of his own making."""

import socket
import ssl
from pathlib import Path

from wire.certificate import make_identity

TIMEOUT_S = 30.0
REQUEST = b"GET /v1/head HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def knocks(port: int, ca_file: Path, identity: Path | None = None) -> str:
    """The first line of the answer, empty where TLS or the coordinator ended it before there was one.

    `identity`: a PEM file with a key and its certificate. A server that the CA does not vouch for is an error.
    """
    context = ssl.create_default_context(cafile=str(ca_file))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if identity is not None:
        context.load_cert_chain(identity)
    with socket.create_connection(("localhost", port), TIMEOUT_S) as raw:
        try:
            with context.wrap_socket(raw, server_hostname="localhost") as connection:
                connection.sendall(REQUEST)
                return connection.recv(4096).decode(errors="replace").partition("\r\n")[0]
        except ssl.SSLCertVerificationError:
            raise
        except (ssl.SSLError, ConnectionError):
            return ""


def make_certificate(path: Path, node_id: str, now: float) -> Path:
    """One that claims to be that node's, with a key of the stranger's own."""
    pair = make_identity(node_id, now)
    path.write_bytes(pair.key_pem + pair.certificate_pem)
    return path
