"""Strings that make a careless pattern slow: each unit, repeated, invites it to begin again and again (threats E24)."""

UNITS = {
    "authorities": "//::::",
    "authority-without-end": "//:",
    "ats": "//a:@",
    "slashes": "/",
    "base64": "eyJhbGciOi",
    "jwt-openings": "ey",
    "jwt-dots": "eyJh.",
    "jwt-alg": "ImFsZy",
    "parts": "a.",
    "dashes": "-",
    "pem-openings": "-----BEGIN AAAA",
    "pem-spaces": "-----  ",
    "wireguard": "PrivateKey",
    "wireguard-spaces": "\n  PrivateKey  ",
    "wireguard-as-text": "\\n   ",
    "github": "ghp_",
    "azure": "AccountKey=A",
    "aws": "AKIA",
    "quotes": '"',
    "backslashes": "\\",
    "spaces": " ",
    "newlines": "\n",
}
TAILS = ("", "@", ".", "=", ".a.", "\u00e9")


def repeated(unit: str, size: int) -> str:
    """At most `size` bytes of it."""
    return unit * (size // len(unit.encode()))
