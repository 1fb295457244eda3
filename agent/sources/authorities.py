"""Which CAs the chain of a coordinator may end at, as the accepted `node_bootstrap` lists them (rules K15, L15).

    signed_authorities(section)    what its section `authorities` says; what is malformed there authorises nothing
    choose_authorities(...)        whose servers the node speaks to; of a node as it is: `believed_authorities`
    last_resort(...)               whom it asks for trust bundles where that is nobody
    after_list(...)                what is remembered of lists for that

The file of agent.toml is what a node is given to find its cluster at all. From the first signed list on that list is
believed, and the file is not: else a CA that was withdrawn, because its key was stolen, would be believed for ever by
every node that was installed with it. Over an exchange the list names both, so no node has to be touched. The list is
that of the document that is active. Where none is, since the node was revoked, or its identity reset, the last one that
was is kept beside the documents with who signed it, and counts as it would if it were active: else such a node would
offer its token to whoever has the key of a CA that was withdrawn. The file counts again only where no list was ever
held (a first join, or a store that was lost).

A list serves on when its document has expired: it says to whose servers the node speaks and nothing else, all that
they give is verified, and without it the node could not be told better.

Whoever has a config key could list a CA of his own alone, and so keep nodes from the coordinators that would tell them
of the bundle by which his key is revoked (threats T16). Against him nothing counts that a config key signs. So bundles,
which the roots sign, are also asked for where the chain ends at any CA that a list of this epoch has named, or at one
of the file; nothing else is believed there, and nothing is told but the number of the bundle that is held. Of lists the
first CAs are remembered, so he can add to them and push none out. And once a bundle revokes the signer of the list, all
of these are believed for everything, until the next list: his among them, for he may have signed the list before last.
So it is with a list that outlives its document. A node whose identity was reset asks for no bundles before it has
joined: where his list is its last one, the newest bundle is brought to it as a file first.

Example. The list names A; an exchange begins, and it names A and B; the coordinators show certificates of B; it names
B alone. A node that slept from the first to the last knows A alone, and refuses them all (`unknown_ca`): it is brought
its documents as files.

Rejected:

- Believing no CA of a list whose signer is revoked: after an exchange the file names nobody who answers.
- The list in the trust bundle: no thief of a config key could change it, and each exchange would take the roots twice.
- Believing the file as well, always: see above.
- A date in the list from which a CA is believed no more: it would come for nodes that nobody could reach with the next
  list, too. That a CA goes is said, by a list without it, when the coordinators know who holds the next one. When a
  certificate is over, it says itself.
- Rewriting the file: it is the operator's, and lies where the agent may not write.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from agent.state.held_state import BOOTSTRAP, are_vouched_for
from agent.state.node import RunningNode
from snapshot import canonical
from wire.certificate import BadCertificateError, Certificate, fingerprint

MOST = 8
MOST_READ = 32  # entries, whatever is wrong with them: a list is read on the event loop
MOST_SEEN = 16


@dataclass(frozen=True)
class SignedAuthorities:
    """`ders`: certificates of CAs, in the order of their fingerprints. `passed_over`: why others are not among them."""

    ders: tuple[bytes, ...] = ()
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenAuthorities:
    """CAs that lists of this epoch have named, the first of them; the last list, and which config keys have signed it,
    none where they were not trusted when it was last looked at.
    """

    epoch: int = 0
    ders: tuple[bytes, ...] = ()
    listed: tuple[bytes, ...] = ()
    signers: tuple[str, ...] = ()

    def to_row(self) -> dict[str, object]:
        rest = {"ders": list(self.ders), "listed": list(self.listed), "signers": list(self.signers)}
        return {"epoch": self.epoch, **rest}


@dataclass(frozen=True)
class BelievedAuthorities:
    """`with_file`: those of the file as well."""

    ders: tuple[bytes, ...] = ()
    with_file: bool = True


NONE_SIGNED = SignedAuthorities()


def parse_row(value: object) -> SeenAuthorities:
    """What is not in form is not known."""
    if not isinstance(value, Mapping):
        return SeenAuthorities()
    epoch, ders = value.get("epoch"), value.get("ders")
    if not isinstance(epoch, int) or not isinstance(ders, list | tuple) or len(ders) > MOST_SEEN:
        return SeenAuthorities()
    seen = SeenAuthorities(epoch, tuple(der for der in ders if isinstance(der, bytes)))
    listed, signers = value.get("listed"), value.get("signers")
    if not isinstance(listed, list | tuple) or not isinstance(signers, list | tuple) or len(listed) > MOST:
        return seen  # as an earlier release wrote it
    last = tuple(der for der in listed if isinstance(der, bytes))
    return replace(seen, listed=last, signers=tuple(key_id for key_id in signers if isinstance(key_id, str)))


def after_list(
    before: SeenAuthorities, epoch: int, listed: tuple[bytes, ...], signers: tuple[str, ...] = ()
) -> SeenAuthorities:
    """The node holds a document of this epoch with this list. A higher epoch begins anew: the roots have said so."""
    if epoch > before.epoch:
        return SeenAuthorities(epoch, listed, listed, signers)
    ders = tuple(dict.fromkeys((*before.ders, *listed)))[:MOST_SEEN]
    return SeenAuthorities(before.epoch, ders, listed, signers)


def choose_authorities(
    signed: SignedAuthorities, seen: SeenAuthorities, *, is_vouched_for: bool
) -> BelievedAuthorities:
    """`is_vouched_for`: who signed the list is trusted still."""
    if not signed.ders:
        return BelievedAuthorities()
    if is_vouched_for:
        return BelievedAuthorities(signed.ders, with_file=False)
    return last_resort(signed, seen)


def last_resort(signed: SignedAuthorities, seen: SeenAuthorities) -> BelievedAuthorities:
    return BelievedAuthorities(tuple(dict.fromkeys((*signed.ders, *seen.ders))))


def believed_authorities(node: RunningNode) -> BelievedAuthorities:
    """By this node now. A manual map follows no list: each of its sources has a file of its own (rules K3)."""
    if node.settings.coordinator is None:
        return BelievedAuthorities()
    signed, is_vouched_for = _last_list(node)
    return choose_authorities(signed, parse_row(node.authorities_row), is_vouched_for=is_vouched_for)


def last_resort_of(node: RunningNode) -> BelievedAuthorities:
    signed, _ = _last_list(node)
    return last_resort(signed, parse_row(node.authorities_row))


def _last_list(node: RunningNode) -> tuple[SignedAuthorities, bool]:
    """That of the active document, else the last one; and whether who signed it is trusted still."""
    held = node.holdings.scopes.get(BOOTSTRAP)
    if held is not None:
        return signed_authorities(node.holdings.authorities), not held.signer_revoked
    seen = parse_row(node.authorities_row)
    return SignedAuthorities(seen.listed), are_vouched_for(seen.signers, BOOTSTRAP, node.holdings.holder)


@lru_cache(maxsize=4)
def signed_authorities(section: bytes | None) -> SignedAuthorities:
    """{"sha256:<hex>": {"certificate": <base64 DER>}}; further members are open. None without the section; of
    very many entries only the first are looked at.
    """
    found: list[bytes] = []
    passed_over: list[str] = []
    for name, entry in _entries(section):
        try:
            der = _read(name, entry)
        except BadCertificateError as error:
            passed_over.append(f"{name[:80]}: {error}")
            continue
        if len(found) == MOST:
            passed_over.append(f"{name[:80]}: more than {MOST} are listed")
            continue
        found.append(der)
    return SignedAuthorities(tuple(found), tuple(passed_over[:MOST]))


def _entries(section: bytes | None) -> Iterator[tuple[str, object]]:
    try:
        value = canonical.loads(section) if section is not None else None
    except canonical.NotCanonical:
        return
    if isinstance(value, Mapping):
        yield from sorted(value.items())[:MOST_READ]


def _read(name: str, entry: object) -> bytes:
    text = entry.get("certificate") if isinstance(entry, Mapping) else None
    try:
        der = base64.b64decode(text.encode("ascii"), validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        der = b""
    if fingerprint(der) != name:
        raise BadCertificateError("it is the certificate of another name")
    if not Certificate.read(der).is_authority:
        raise BadCertificateError("it is no CA")
    return der
