"""Which services, and what they go out by, are revoked for whoever reads: by the head and by the trust bundle.

Said of the documents of one view, so that an answer or a file is never of one generation and what is kept from it of
another. The gate asks HoldingsReader (held_state.py), which reads the same.
"""

from snapshot import canonical
from snapshot.identifiers import is_integer
from snapshot.manifest import Revocations, parse_head, parse_revocations
from snapshot.reasons import Rejected
from store.base.documents import StoredDocument


def revoked_services(head: StoredDocument | None, bundle: StoredDocument | None) -> frozenset[str]:
    """The `service_ids` of both, as far as the head's count still."""
    of_head = head is not None and still_counts(head, _epoch_of(bundle))
    told = _of_head(head) if head is not None and of_head else Revocations()
    return told.service_ids | _of_bundle(bundle).service_ids


def still_counts(head: StoredDocument, announced_epoch: int) -> bool:
    """Whether what the head revokes still is: a bundle that announces a higher epoch carries all that is revoked, and
    ends what heads have said before. Without that a stolen config key would revoke nodes and keys for ever, or run the
    version of the revocations to its end, and no repair by the roots could take it back (format.md 5).
    """
    return head.envelope.authority_epoch >= announced_epoch


def _of_head(head: StoredDocument) -> Revocations:
    try:
        return parse_head(head.manifest_bytes).revocations
    except Rejected:  # that of plain files, which nobody signed
        return Revocations()


def _of_bundle(bundle: StoredDocument | None) -> Revocations:
    try:
        return parse_revocations(_section(bundle, "revocations"), of_head=False)
    except Rejected:  # none, or that of plain files
        return Revocations()


def _epoch_of(bundle: StoredDocument | None) -> int:
    authority = _section(bundle, "authority")
    epoch = authority.get("authority_epoch") if isinstance(authority, dict) else None
    return epoch if isinstance(epoch, int) and is_integer(epoch) else 0


def _section(document: StoredDocument | None, name: str) -> object:
    if document is None or name not in document.sections:
        return None
    return canonical.loads(document.read(name))
