"""A mirror as a `storage_directory` names it: where it is, and what its server has to show (format.md 10). Pure.

    parse_mirror(entry)    of an entry of section `endpoints`; None for what is malformed, which authorises nothing
    mirror_entry(mirror)   the entry of a mirror

An entry is a `url`, or has `tls` beside it, of exactly one member. So any HTTPS file server can be one: a public CDN,
a bucket, the web server that somebody else runs. Without `tls` the server shows a chain as the coordinators do.

An agent from before `tls` knows entries of `url` alone and passes over this one: it does not ask there, and what else
the directory names it does. It could not have asked there anyhow. Nothing is less verified for what a mirror shows:
its answers are documents, believed for their signatures.

Rejected:

- A name that begins with `critical.`: an older agent would refuse the whole directory, and lose its other mirrors.
- Falling back to the coordinators' CA where `tls` is malformed: what was meant as a bound would end as none.
- The machine's own CAs for every mirror: a hundred of them could stand between a node and a mirror of one's own CA.
- The pin of a key (SPKI): peers and operators are pinned by the certificate, and two pins carry over a renewal.
"""

import base64
import binascii
from collections.abc import Callable, Mapping

from snapshot.frozen import frozen
from snapshot.identifiers import is_endpoint, is_hash

MOST_AUTHORITIES = 8
MOST_CERTIFICATES = 8
SYSTEM_ROOTS, AUTHORITIES, CERTIFICATES = "system_roots", "authorities", "certificates"


@frozen
class MirrorTls:
    """Exactly one of: the CAs that the machine itself believes; CAs, DER, of which the chain must end at one; or the
    SHA-256 of certificates, `sha256:<hex>`, of which the server must show one, whatever names and dates it bears.
    """

    system_roots: bool = False
    authorities: frozenset[bytes] = frozenset()
    certificates: frozenset[str] = frozenset()


@frozen
class Mirror:
    """`url`: `https://host:port`. `tls` None: a chain to a CA of the coordinators."""

    url: str
    tls: MirrorTls | None = None


def parse_mirror(entry: object) -> Mirror | None:
    if not isinstance(entry, Mapping) or not is_endpoint(entry.get("url")):
        return None
    url = str(entry["url"])
    if entry.keys() == {"url"}:
        return Mirror(url)
    tls = _parse_tls(entry["tls"]) if entry.keys() == {"url", "tls"} else None
    return Mirror(url, tls) if tls is not None else None


def mirror_entry(mirror: Mirror) -> dict[str, object]:
    """Texts in a fixed order, so that one state gives one hash (rules S6)."""
    tls = mirror.tls
    if tls is None:
        return {"url": mirror.url}
    if tls.system_roots:
        return {"url": mirror.url, "tls": {SYSTEM_ROOTS: True}}
    if tls.authorities:
        listed = [base64.b64encode(der).decode("ascii") for der in sorted(tls.authorities)]
        return {"url": mirror.url, "tls": {AUTHORITIES: listed}}
    return {"url": mirror.url, "tls": {CERTIFICATES: sorted(tls.certificates)}}


def _parse_tls(value: object) -> MirrorTls | None:
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    ((way, what),) = value.items()
    read = _WAYS.get(way)
    return read(what) if read is not None else None


def _system_roots(what: object) -> MirrorTls | None:
    return MirrorTls(system_roots=True) if what is True else None


def _authorities(what: object) -> MirrorTls | None:
    """That they are certificates, and CAs, is for who connects."""
    texts = _texts(what, MOST_AUTHORITIES)
    try:
        ders = frozenset(base64.b64decode(text.encode("ascii"), validate=True) for text in texts)
    except (binascii.Error, ValueError):
        return None
    return MirrorTls(authorities=ders) if ders and b"" not in ders else None


def _certificates(what: object) -> MirrorTls | None:
    texts = _texts(what, MOST_CERTIFICATES)
    return MirrorTls(certificates=frozenset(texts)) if texts and all(map(is_hash, texts)) else None


def _texts(what: object, most: int) -> list[str]:
    """None of them where one is no text."""
    if not isinstance(what, list | tuple) or len(what) > most or not all(isinstance(text, str) for text in what):
        return []
    return list(what)


_WAYS: Mapping[str, Callable[[object], MirrorTls | None]] = {
    SYSTEM_ROOTS: _system_roots,
    AUTHORITIES: _authorities,
    CERTIFICATES: _certificates,
}
