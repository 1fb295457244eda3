"""What format.md 9 calls a raw secret by its shape, and what only looks like one. No value here was ever in use."""

import base64

RUN = "Ab0Cd1Ef2Gh3Ij4Kl5Mn6Op7Qr8St9Uv0Wx1Yz2Ab0Cd1Ef2Gh3Ij4Kl5Mn6Op7Qr8St9Uv0Wx1Yz2Ab0Cd1Ef2Gh3Ij4"
HEX = "0123456789abcdef" * 4
BODY = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7"


def part(text):
    """One part of a JWT."""
    return base64.urlsafe_b64encode(text if isinstance(text, bytes) else text.encode()).decode().rstrip("=")


def jwt(header, payload='{"sub":"a"}', signature="c2ln"):
    return f"{part(header)}.{part(payload)}.{signature}"


def pem(label, end=True):
    return f"-----BEGIN {label}-----\n{BODY}\n" + (f"-----END {label}-----\n" if end else "")


SECRETS = {
    "pem-pkcs8": pem("PRIVATE KEY"),
    "pem-rsa": pem("RSA PRIVATE KEY"),
    "pem-ec": pem("EC PRIVATE KEY"),
    "pem-dsa": pem("DSA PRIVATE KEY"),
    "pem-openssh": pem("OPENSSH PRIVATE KEY"),
    "pem-encrypted": pem("ENCRYPTED PRIVATE KEY"),
    "pem-pgp": pem("PGP PRIVATE KEY BLOCK"),
    "pem-without-its-end": pem("PRIVATE KEY", end=False),
    "pem-cut-in-its-label": "-----BEGIN RSA PRIVATE KEY",
    "pem-without-its-beginning": f"{BODY}\n-----END PRIVATE KEY-----",
    "pem-on-one-line": pem("PRIVATE KEY").replace("\n", " "),
    "pem-with-escapes-as-text": pem("PRIVATE KEY").replace("\n", "\\n"),
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2,
    "age-short": "AGE-SECRET-KEY-1",
    "aws-long-lived": "AKIA" + "IOSFODNN7EXAMPL7",
    "aws-session": "ASIA" + "IOSFODNN7EXAMPL7",
    **{f"github-{letter}": f"gh{letter}_{RUN[:36]}" for letter in "pousr"},
    "github-longer": "ghp_" + RUN[:40],
    "github-fine-grained": "github_pat_" + RUN[:11] + "_" + RUN[:10],
    "gitlab": "glpat-" + RUN[:10] + "-_" + RUN[:8],
    "google": "AIza" + RUN[:30] + "-_" + RUN[:3],
    **{f"slack-{letter}": f"xox{letter}-123456789a" for letter in "abprs"},
    "digital-ocean": "dop_v1_" + HEX,
    "azure": "AccountName=a;AccountKey=" + RUN[:84] + "+/==",
    "jwt": jwt('{"alg":"HS256","typ":"JWT"}'),
    "jwt-alg-last": jwt('{"typ":"JWT","alg":"EdDSA"}'),
    "jwt-alg-at-another-place": jwt('{"x":1,"alg":"EdDSA"}'),
    "jwt-alg-at-a-third-place": jwt('{"xy":1,"alg":"EdDSA"}'),
    "jwt-with-spaces": jwt(' \n{ "alg" : "none" }'),
    "jwt-tab-first": jwt('\t{"alg":"none"}'),
    "jwt-return-first": jwt('\r\n{"alg":"none"}'),
    "jwt-newline-first": jwt('\n{"alg":"none"}'),
    "jwt-escaped-name": jwt(r'{"\u0061lg":"none"}'),
    "jwt-escaped-name-later": jwt(r'{"x":1,"a\u006cg":"none"}'),
    "jwt-escaped-name-later-still": jwt(r'{"xy":1,"al\u0067":"none"}'),
    "jwt-alg-null": jwt('{"alg":null}'),
    "jwt-after-a-host-name": "host.example." + jwt('{"alg":"HS256"}'),
    "bearer": "Bearer " + jwt('{"alg":"HS256"}'),
    "url": "https://user:pw@host.example/",
    "url-without-user": "https://:pw@host",
    "url-of-a-database": "postgresql+psycopg://user:p%40w@host:5432/db?x=1",
    "url-without-scheme": "//user:pw@host",
    "url-with-a-colon-in-the-password": "ftp://u:p:w@host",
    "url-with-two-ats": "https://u:p@w@host",
    "url-second-in-a-list": "https://one.example/,https://u:p@two.example/",
    "wireguard": "[Interface]\nPrivateKey = " + RUN[:43] + "=",
    "wireguard-tight": "PrivateKey=" + RUN[:43] + "=",
    "wireguard-preshared": "[Peer]\n  PresharedKey = " + RUN[:43] + "=\nAllowedIPs = ::/0",
    "wireguard-with-escapes-as-text": "[Interface]\\nPrivateKey = " + RUN[:43] + "=",
}

HARMLESS = {
    "empty": "",
    "prose": "The password is kept in the vault; rotate the API key. Token: see the secret_ref.",
    "pem-public": pem("PUBLIC KEY"),
    "pem-certificate": pem("CERTIFICATE"),
    "pem-request": pem("CERTIFICATE REQUEST"),
    "pem-parameters": pem("EC PARAMETERS"),
    "private-key-in-prose": "where is the PRIVATE KEY?",
    "dashes": "----- BEGIN ----- END -----",
    "age-recipient": "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kudqtpcwqz5vgz7",
    "age-mentioned": "AGE-SECRET-KEY-",
    "aws-short": "AKIA" + "IOSFODNN7EXAMPL",
    "aws-lower-case": "akiaiosfodnn7exampl7",
    "aws-inside-a-word": "xAKIAIOSFODNN7EXAMPL7",
    "aws-other-prefix": "AROA" + "IOSFODNN7EXAMPL7",
    "github-short": "ghp_" + RUN[:35],
    "github-other": "gha_" + RUN[:36],
    "github-inside-a-word": "xghp_" + RUN[:36],
    "github-fine-grained-short": "github_pat_" + RUN[:21],
    "gitlab-short": "glpat-" + RUN[:19],
    "google-short": "AIza" + RUN[:34],
    "slack-short": "xoxb-123456789",
    "slack-other": "xoxz-123456789a",
    "digital-ocean-short": "dop_v1_" + HEX[:-1],
    "digital-ocean-upper-case": "dop_v1_" + HEX.upper(),
    "azure-short": "AccountKey=" + RUN[:85] + "==",
    "azure-name": "AccountName=storage1",
    "two-parts": ".".join(jwt('{"alg":"HS256"}').split(".")[:2]),
    "three-words": "one.two.three",
    "no-alg": jwt('{"typ":"JWT"}'),
    "alg-in-an-array": jwt('["alg"]'),
    "alg-as-a-value": jwt('{"typ":"alg"}'),
    "header-is-a-number": jwt("7"),
    "no-json": jwt("{alg:1}"),
    "versions": "1.2.3 and eyJh.10.20 and e30.e30.e30",
    "fingerprint": "SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8",
    "url": "https://host.example:8443/path?a=b#c",
    "url-with-user": "https://user@host/",
    "url-with-empty-password": "https://user:@host/",
    "url-with-at-in-path": "https://host:443/@user:name",
    "url-with-at-in-query": "https://host?to=a:b@c",
    "url-with-at-in-fragment": "https://host#a:b@c",
    "mail": "mailto:a@b.example // c: d",
    "scp": "git@host.example:group/project.git",
    "ipv6": "https://[2001:db8::1]:443/",
    "comment": "// see: a@b",
    "wireguard-public": "[Peer]\nPublicKey = " + RUN[:43] + "=",
    "wireguard-empty": "PrivateKey =",
    "wireguard-in-a-sentence": "set PrivateKey = in the file",
    "hash": "sha256:" + HEX,
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "base64": RUN * 10,
    "hex": HEX * 10,
    "ssh-public": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + RUN[:43] + " user@host",
    "spki": "MCowBQYDK2VwAyEA07iy5SnoKO5Bce/jx3IP34Ya2VezWNpCBii0r+78mbk=",
}

PUBLIC_JWK = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
PRIVATE_MEMBERS = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]
