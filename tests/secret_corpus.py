"""What secret detection is measured with: secrets of many families, made by a seeded generator as their own programs
write them, and configuration that holds none. Made up, all of it; none of them was ever anybody's.

Families that no detector finds stand here too: the rates are to say so.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

UPPER, LOWER, DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
WORD, HEX, B64 = UPPER + LOWER + DIGITS, "0123456789abcdef", UPPER + LOWER + DIGITS + "+/"
URL, CRYPT = WORD + "-_", "./" + WORD
Maker = Callable[[random.Random], str]


def some(rng, letters, count):
    return "".join(rng.choices(letters, k=count))


def of(template, *parts) -> Maker:
    """The template, its places filled from (letters, count)."""
    return lambda rng: template.format(*(some(rng, letters, count) for letters, count in parts))


def _seed(rng):
    return Ed25519PrivateKey.from_private_bytes(rng.randbytes(32))


def _pem(kind):
    return lambda rng: _seed(rng).private_bytes(Encoding.PEM, kind, NoEncryption()).decode()


def _der_in_hex(rng):
    return _seed(rng).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()).hex()


def _sec1_in_hex(rng):
    key = derive_private_key(rng.getrandbits(250), SECP256R1())
    return key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption()).hex()


def _openssh_body(rng):
    return "".join(_pem(PrivateFormat.OpenSSH)(rng).split("\n")[1:-2])


def _jwt(rng):
    parts = ({"alg": "RS256", "typ": "JWT", "kid": some(rng, HEX, 8)}, {"sub": some(rng, WORD, 12), "exp": 1900000000})
    head = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]
    return ".".join([*head, some(rng, URL, 86)])


def _basic(rng):
    return "Authorization: Basic " + base64.b64encode(f"admin:{some(rng, WORD, 14)}".encode()).decode()


def _lines(rng, count, letters, length):
    return "\n".join(some(rng, letters, length) for _ in range(count))


def _openvpn(rng):
    return f"-----BEGIN OpenVPN Static key V1-----\n{_lines(rng, 16, HEX, 32)}\n-----END OpenVPN Static key V1-----"


def _openvpn_inline(rng):
    return f"<tls-auth>\n#\n# 2048 bit OpenVPN static key\n#\n{_lines(rng, 16, HEX, 32)}\n</tls-auth>"


def _putty(rng):
    return f"PuTTY-User-Key-File-3: ssh-ed25519\nPublic-Lines: 2\n{_lines(rng, 2, B64, 64)}\nPrivate-Lines: 1\n" + some(
        rng, B64, 48
    )


SECRETS: dict[str, Maker] = {
    "AWS access key id": of("AKIA{}", (UPPER + "234567", 16)),
    "AWS secret access key, beside its name": of("aws_secret_access_key = {}", (B64, 40)),
    "GitHub, classic token": of("ghp_{}", (WORD, 36)),
    "GitHub, fine-grained token": of("github_pat_{}_{}", (WORD, 22), (WORD, 59)),
    "GitLab, personal and deploy tokens": lambda rng: f"{rng.choice(['glpat-', 'gldt-'])}{some(rng, WORD, 20)}",
    "Slack, bot token": of("xoxb-{}-{}-{}", (DIGITS, 12), (DIGITS, 12), (WORD, 24)),
    "Slack, incoming webhook": of("https://hooks.slack.com/services/T{}/B{}/{}", (UPPER, 9), (UPPER, 9), (WORD, 24)),
    "Stripe, secret key": of("sk_live_{}", (WORD, 24)),
    "Google, API key": of("AIza{}", (URL, 35)),
    "Google, OAuth client secret": of("GOCSPX-{}", (URL, 28)),
    "Azure, storage account": of("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==", (B64, 86)),
    "Azure, shared access signature": of("https://a.blob.core.windows.net/c?sv=2022-11-02&sig={}%3D", (WORD, 43)),
    "OpenAI, Anthropic": lambda rng: rng.choice(["sk-proj-", "sk-ant-"]) + some(rng, WORD, 48),
    "npm, PyPI": lambda rng: (
        f"npm_{some(rng, WORD, 36)}" if rng.random() < 0.5 else f"pypi-AgEIcHlwaS5vcmc{some(rng, URL, 120)}"
    ),
    "SendGrid, Telegram, Vault": lambda rng: rng.choice(
        [
            f"SG.{some(rng, URL, 22)}.{some(rng, URL, 43)}",
            f"{some(rng, '123456789', 10)}:AA{some(rng, URL, 33)}",
            f"hvs.{some(rng, URL, 24)}",
        ]
    ),
    "DigitalOcean": of("dop_v1_{}", (HEX, 64)),
    "htpasswd (apr1, SHA-1)": lambda rng: (
        f"alice:$apr1${some(rng, CRYPT, 8)}${some(rng, CRYPT, 22)}"
        if rng.random() < 0.5
        else f"alice:{{SHA}}{base64.b64encode(rng.randbytes(20)).decode()}"
    ),
    "crypt: bcrypt": of("$2b$12${}", (CRYPT, 53)),
    "crypt: SHA-512, SHA-256": lambda rng: rng.choice(
        [
            f"$6${some(rng, CRYPT, 16)}${some(rng, CRYPT, 86)}",
            f"$5$rounds=5000${some(rng, CRYPT, 16)}${some(rng, CRYPT, 43)}",
        ]
    ),
    "crypt: yescrypt": of("$y$j9T${}${}", (CRYPT, 22), (CRYPT, 43)),
    "crypt: Argon2": of("$argon2id$v=19$m=65536,t=3,p=4${}${}", (B64, 22), (B64, 43)),
    "DSN with a password": of("postgresql+psycopg://app:{}@db.internal:5432/app", (WORD, 14)),
    "Connection string (ADO)": of("Server=db.internal;Database=app;User Id=app;Password={};", (WORD, 14)),
    "Header: Basic": _basic,
    "Header: Bearer, opaque": of("Authorization: Bearer {}", (WORD, 40)),
    "JSON Web Token": _jwt,
    "OpenVPN, static key": _openvpn,
    "OpenVPN, key in its configuration": _openvpn_inline,
    "IPsec, ipsec.secrets": of('203.0.113.7 : PSK "{}"', (WORD, 24)),
    "IPsec, swanctl": of("secret = 0s{}", (B64, 32)),
    "WireGuard, wg-quick": of("PrivateKey = {}A=", (B64, 42)),
    "PuTTY": _putty,
    "OpenSSH, body alone": _openssh_body,
    "PEM, PKCS#8": _pem(PrivateFormat.PKCS8),
    "PEM, OpenSSH": _pem(PrivateFormat.OpenSSH),
    "PKCS#8 in hexadecimal": _der_in_hex,
    "SEC 1 in hexadecimal": _sec1_in_hex,
    "age": of("AGE-SECRET-KEY-1{}", (UPPER + DIGITS, 58)),
    "A password in prose": of("the password of the router is {}", (WORD, 12)),
    "SNMP community in snmpd.conf": of("rocommunity {} 10.0.0.0/8", (WORD, 12)),
    "RADIUS secret in clients.conf": of("client ap1 {{ ipaddr = 10.0.0.9 ; secret = {} }}", (WORD, 16)),
    "TOTP seed (otpauth)": of("otpauth://totp/a?secret={}&issuer=a", (UPPER + "234567", 32)),
    "Kubernetes Secret, base64": lambda rng: (
        "kind: Secret\ndata:\n  pin: " + base64.b64encode(some(rng, WORD, 18).encode()).decode()
    ),
    "Random bytes without a mark": of("{}", (HEX, 64)),
}

AROUND = "\n".join(f"location /part{number} {{ proxy_pass http://10.0.0.{number}:8080; }}" for number in range(24))
CONTEXTS: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "in a line": lambda text: f"export VALUE='{text}'",
    "in JSON": lambda text: json.dumps({"value": text}),
    "in a file": lambda text: f"{AROUND}\n{text}\n{AROUND}",
}


def samples(family: str, count: int = 10) -> Iterator[str]:
    rng = random.Random(f"{family} 1")
    return (SECRETS[family](rng) for _ in range(count))


def _public(form):
    return Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes(*form).decode()


_HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
HARMLESS: tuple[str, ...] = (
    _HASH,
    f"sha256:{_HASH}",
    f"registry.example/app@sha256:{_HASH}",
    _HASH[:40],
    "d41d8cd98f00b204e9800998ecf8427e",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "00:1b:44:11:3a:b7",
    "AKIA is how such ids begin",
    "ghp_ is their prefix",
    _public((Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
    _public((Encoding.OpenSSH, PublicFormat.OpenSSH)),
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUfKx\n-----END CERTIFICATE-----",
    "SHA256:uNiVztksCsDhcc0u9e8BrrJXVGDOHeKCB6bpGJ0bs8c",
    "PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=",
    "[Peer]\nPublicKey = HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=\nAllowedIPs = 10.192.122.3/32",
    '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k1"}',
    '{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue65"}]}',
    "server { listen 443 ssl; ssl_certificate /etc/ssl/a.pem; ssl_certificate_key /etc/ssl/a.key; }",
    'auth_basic "staff only"; auth_basic_user_file /etc/nginx/htpasswd;',
    'proxy_set_header Authorization "Bearer $token";',
    'WWW-Authenticate: Basic realm="staff"',
    "bearer_token_file: /run/secrets/prometheus",
    "basic authentication is off",
    "authorization: {type: Bearer, credentials_file: /run/secrets/metrics}",
    "Bearer tokens of this form are accepted",
    "postgresql://app@db.internal/app",
    "postgresql://app:${DB_PASSWORD}@db.internal/app",
    "redis://cache.internal:6379/0",
    "postgresql://app:{{ db_password }}@db.internal/app",
    "amqp://user:$(PASSWORD)@mq.internal/",
    "ssh://git@host/a.git",
    "Server=db.internal;Database=app;Integrated Security=true;Password=${DB_PASSWORD};",
    "mailto:ops@example.org",
    "https://example.org/a?next=/b&sig=off",
    "http://[fd00::1]:8080/@user",
    "https://example.org/@alice:home",
    "scrape_configs:\n- job_name: node\n  static_configs:\n  - targets: ['10.0.0.1:9100', '10.0.0.2:9100']",
    "left=%defaultroute\nleftauth=psk\nright=203.0.113.7\nrightauth=psk\nike=aes256-sha2_256-modp2048",
    "PSK is what both sides are set up with",
    "remote vpn.example.org 1194\nca ca.crt\ncert a.crt\nkey a.key\ntls-auth ta.key 1",
    "# -----BEGIN and -----END lines are kept",
    "the private key lies in /etc/ssl/private",
    "max_password_age: 90",
    "echo $1$2$3",
    "s/$6$/x/",
    "awk '{print $1, $5, $6}'",
    "cost is $5 to $60",
    "$2a and $2b name bcrypt",
    "feature_flags:\n  new_login: true\n  sk_live_mode: false",
    "x-amz-content-sha256: UNSIGNED-PAYLOAD",
    "eyJ begins a JWT",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk==",
    base64.b64encode(bytes(range(96))).decode(),
    bytes(range(64)).hex(),
    "2026-11-22T13:40:56Z",
    "v1.2.3-rc.4+build.5",
    "T0BEDABCD/B0ABCDEFG",
    "arn:aws:iam::123456789012:role/reader",
    "projects/a/locations/b/keyRings/c/cryptoKeys/d",
    "ldap://ldap.internal:389/dc=example,dc=org?uid?sub?(objectClass=person)",
    "password_policy: {least: 12, history: 5}",
    "vault:secret/data/web#api",
    "credential:db-password",
    "PasswordAuthentication no\nPermitRootLogin prohibit-password",
    "rate 10r/s burst=20; zone=login:10m",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "SK key of Singapore: SKU-4711",
    "key-value store at 10.0.0.3",
    "task-1234567890abcdef1234567890abcdef",
    "risk-assessment-of-the-third-quarter-of-the-year",
    "disk-by-id-scsi-36003048012345678abcdef0123456789",
    "sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC",
)
"""Texts of configuration that hold no secret, each as one value of a service's settings."""
