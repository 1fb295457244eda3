"""What a document brings, read once: its manifest, then each section as it passes by (step 6).

What steps 11 and 12 have to say of a section is noted in `case.content`, and said when their turn comes.
"""

from collections.abc import Sequence

from snapshot import bundle as trust_bundle
from snapshot import canonical, manifest, patch, trust
from snapshot.case import Case, digest_is, reject, step_11
from snapshot.content import PEER_DIRECTORY, Order, is_part
from snapshot.envelope import INCREMENT, SNAPSHOT, Envelope
from snapshot.holder import HeldDocument
from snapshot.identifiers import HEAD
from snapshot.manifest import Head, SectionChange
from snapshot.reasons import Reason, Rejected
from snapshot.roles import most_peers
from snapshot.trust import Authority


def read_manifest(case: Case, data: bytes) -> None:
    """Against the signed hash first; then its form, before any section is read (format.md 5)."""
    document, limits = case.envelope, case.holder.limits
    case.manifest_bytes = data
    if not digest_is(data, document.content_hash.removeprefix("sha256:")):
        reject(6, Reason.CONTENT_MISMATCH, document.content_hash, "other bytes", "manifest")
    if case.kind == SNAPSHOT:
        case.carried = case.state = manifest.parse_state(data, limits)
    elif case.kind == INCREMENT:
        case.changes = manifest.parse_changes(data, limits)
        case.carried = {name: change.brought for name, change in case.changes.items() if change.brought}
    elif case.kind == HEAD:
        case.head = manifest.parse_head(data, limits)
        _generation_is(case.head, document)
    else:
        case.recovery = manifest.parse_recovery(data, limits)
    _sizes_are_signed_and_within_limits(case)


def _generation_is(head: Head, document: Envelope) -> None:
    if head.generation != document.config_version:
        raise manifest.bad_content(f"generation {document.config_version}", head.generation)


def _sizes_are_signed_and_within_limits(case: Case) -> None:
    limits = case.holder.limits
    results = [change.result for change in case.changes.values() if change.result]
    for entry in (*case.carried.values(), *results):
        if entry.size > limits.section_bytes:
            reject(0, Reason.TOO_LARGE, f"a section of at most {limits.section_bytes}", entry.size, "manifest")
    total = sum(entry.size for entry in case.carried.values())
    most = limits.trust_bundle_bytes if case.is_bundle else limits.content_bytes
    if total > most:
        reject(0, Reason.TOO_LARGE, f"at most {most} bytes of content", total, "manifest")
    if total != case.envelope.content_length:
        reject(6, Reason.CONTENT_MISMATCH, case.envelope.content_length, f"{total} bytes", "content_length")


def take_section(case: Case, name: str, data: bytes) -> None:
    change = case.changes.get(name)
    if change is not None and change.op == "patch":
        data = _patched(case, name, change, data)
        if not data:
            return
    case.content.inspect(name, data)
    if case.keep is not None:
        case.keep(name, data)


def _patched(case: Case, name: str, change: SectionChange, data: bytes) -> bytes:
    """The result of a patch; no bytes where there is none, with the fault noted (or left to step 9)."""
    operations, base = case.content.parse(name, data), case.base
    if operations is None or base is None or change.result is None:
        return b""
    if name not in base.sections:
        case.content.note(Order.PATCH, step_11(Reason.PATCH_FAILED, "a section of the base", "none", name))
        return b""
    try:
        result = canonical.dumps(patch.apply(operations.value, _held_value(base, name), case.holder.limits))
    except patch.PatchFailed as error:
        case.content.note(Order.PATCH, step_11(Reason.PATCH_FAILED, "a patch that applies", str(error), name))
        return b""
    if len(result) != change.result.size or not digest_is(result, change.result.sha256):
        case.content.note(Order.RESULT, step_11(Reason.RESULT_MISMATCH, change.result.sha256, "another result", name))
        return b""
    return result


def _held_value(base: HeldDocument, name: str) -> object:
    return canonical.loads(base.read(name))


def take_bundle(case: Case) -> None:
    """A bundle is read whole; if it holds, it must meet the threshold that it sets itself (format.md 8)."""
    if case.content.fault is not None:
        return
    try:
        case.bundle = trust_bundle.from_sections(case.envelope, case.content.values, case.holder.limits)
    except Rejected as fault:
        case.content.note(Order.STRUCTURE, fault)
        return
    authority = trust.own_authority(case.bundle, case.holder, case.now)
    threshold_is_met(authority.counted(case.envelope, case.opening), authority)


def apply_changes(case: Case) -> None:
    if case.base is None:
        raise AssertionError("step 9 lets no increment pass without its base")
    for name, change in case.changes.items():
        if change.op == "remove" and name not in case.base.sections:
            case.content.note(Order.PATCH, step_11(Reason.PATCH_FAILED, "a section of the base", "none", name))
    case.state = manifest.state_after(case.base.sections, case.changes)
    if not digest_is(manifest.state_bytes(case.state), case.envelope.state_hash.removeprefix("sha256:")):
        found = "another state"
        case.content.note(Order.RESULT, step_11(Reason.RESULT_MISMATCH, case.envelope.state_hash, found, "manifest"))


def topology_is_bounded(case: Case) -> None:
    """The bound holds for the whole new state: what an increment leaves alone is counted too."""
    most = most_peers(case.holder.roles)
    if most is None or case.envelope.scope_type != PEER_DIRECTORY:
        return
    if case.base is not None:
        for name in case.state.keys() - case.changes.keys():
            if is_part(name, "peers"):
                case.content.count_peers(name, _held_value(case.base, name))
    if len(case.content.peers) > most:
        fault = manifest.bad_content(f"at most {most} peers", len(case.content.peers), "peers")
        case.content.note(Order.TOPOLOGY, fault)


def threshold_is_met(signers: Sequence[str], authority: Authority) -> None:
    if len(signers) < max(1, authority.threshold):  # never zero, whatever a record says (threats D-13)
        reject(5, Reason.THRESHOLD_NOT_MET, f"{authority.threshold} signatures", len(signers), "signatures")
