"""What a document brings, read once: its manifest, then each section as it passes by (step 6).

What steps 11 and 12 have to say of a section is noted in `case.content`, and said when their turn comes.
"""

from collections.abc import Mapping, Sequence

from snapshot import bundle as trust_bundle
from snapshot import canonical, manifest, patch, section_table, trust
from snapshot.config_files import FILES, check_index, parse_index
from snapshot.content import PEER_DIRECTORY, Order, is_part
from snapshot.envelope import INCREMENT, SNAPSHOT, Envelope
from snapshot.extension import refuse_critical
from snapshot.identifiers import CONFIG, HEAD
from snapshot.manifest import Head, SectionChange, SectionEntry
from snapshot.reasons import Reason, Rejected
from snapshot.roles import most_peers
from snapshot.trust import Authority
from snapshot.verification import Verification, digest_is, reject, step_11
from snapshot.verifier_state import HeldDocument

CONTENT_STEP = 11


def read_manifest(case: Verification, data: bytes) -> None:
    """Against the signed hash first; then its form, before any section is read (format.md 5)."""
    document, limits = case.envelope, case.holder.limits
    case.manifest_bytes = data
    if not digest_is(data, document.content_hash.removeprefix("sha256:")):
        reject(6, Reason.CONTENT_MISMATCH, document.content_hash, "other bytes", "manifest")
    if case.kind != INCREMENT:
        case.state_bytes = data
    if case.kind == SNAPSHOT:
        case.state = case.carried = _state(case, data)
    elif case.kind == INCREMENT:
        case.changes = manifest.parse_changes(data, limits)
        case.carried = {name: change.brought for name, change in case.changes.items() if change.brought}
    elif case.kind == HEAD:
        case.head = manifest.parse_head(data, limits)
        _generation_is(case.head, document)
    else:
        case.recovery = manifest.parse_recovery(data, limits)
    _raw_is_of_config(case)
    _sizes_are_signed_and_within_limits(case)


def _state(case: Verification, data: bytes) -> Mapping[str, SectionEntry]:
    """A critical section of a bundle is said before any fault of the manifest's form."""
    try:
        return section_table.read_state(data, case.holder.limits)
    except Rejected as fault:
        if case.is_bundle and fault.step == CONTENT_STEP:
            refuse_critical(manifest.names_in(data, case.holder.limits), "sections")
        raise


def _raw_is_of_config(case: Verification) -> None:
    raw = None if case.envelope.scope_type == CONFIG else section_table.first_raw(case.carried)
    if raw is not None:
        raise manifest.bad_content("sections of JSON", "a raw one", raw)


def _generation_is(head: Head, document: Envelope) -> None:
    if head.generation != document.config_version:
        raise manifest.bad_content(f"generation {document.config_version}", head.generation)


def _sizes_are_signed_and_within_limits(case: Verification) -> None:
    limits, sizes = case.holder.limits, section_table.sizes_of(case.carried)
    results = [change.result.size for change in case.changes.values() if change.result]
    for size in (*sizes, *results):
        if size > limits.section_bytes:
            reject(0, Reason.TOO_LARGE, f"a section of at most {limits.section_bytes}", size, "manifest")
    total = sum(sizes)
    most = limits.trust_bundle_bytes if case.is_bundle else limits.content_bytes
    if total > most:
        reject(0, Reason.TOO_LARGE, f"at most {most} bytes of content", total, "manifest")
    if total != case.envelope.content_length:
        reject(6, Reason.CONTENT_MISMATCH, case.envelope.content_length, f"{total} bytes", "content_length")


def take_section(case: Verification, name: str, entry: SectionEntry, data: bytes) -> None:
    """One section of the chunk, as it was read: judged in its order, and handed on to who keeps it."""
    if entry.is_raw:
        case.raw.take(name, data, is_alone=name in case.content.alone)
        if case.keep is not None:
            case.keep(name, data)
        return
    change = case.changes.get(name)
    if change is not None and change.op == "patch":
        data = _apply_patch(case, name, change, data)
        if not data:
            return
    case.content.inspect(name, data)
    if case.keep is not None:
        case.keep(name, data)


def _apply_patch(case: Verification, name: str, change: SectionChange, data: bytes) -> bytes:
    """The result of a patch; no bytes where there is none, with the fault noted (or left to step 9)."""
    operations, base = case.content.parse(name, data), case.base
    if operations is None or base is None or change.result is None:
        return b""
    if name not in base.sections or base.sections[name].is_raw:
        found = "a raw one" if name in base.sections else "none"
        _note_applied(case, Order.PATCH, step_11(Reason.PATCH_FAILED, "a JSON section of the base", found, name), name)
        return b""
    try:
        result = canonical.dumps(patch.apply(operations.value, _held_value(base, name), case.holder.limits))
    except patch.PatchFailed as error:
        _note_applied(case, Order.PATCH, step_11(Reason.PATCH_FAILED, "a patch that applies", str(error), name), name)
        return b""
    if len(result) != change.result.size or not digest_is(result, change.result.sha256):
        fault = step_11(Reason.RESULT_MISMATCH, change.result.sha256, "another result", name)
        _note_applied(case, Order.RESULT, fault, name)
        return b""
    return result


def _held_value(base: HeldDocument, name: str) -> object:
    return canonical.loads(base.read(name))


def take_bundle(case: Verification) -> None:
    """A bundle is read whole; if it holds, it must meet the threshold that it sets itself (format.md 8)."""
    try:
        refuse_critical(case.state, "sections")
        trust_bundle.refuse_unsupported(case.content.values)
    except Rejected as fault:
        case.content.note(Order.CRITICAL, fault)
    if case.content.fault is not None:
        return
    try:
        case.bundle = trust_bundle.from_sections(case.envelope, case.content.values, case.holder.limits)
    except Rejected as fault:
        case.content.note(Order.STRUCTURE, fault)
        return
    authority = trust.own_authority(case.bundle, case.holder, case.now)
    threshold_is_met(authority.counted_signers(case.envelope, case.opening), authority)


def apply_changes(case: Verification) -> None:
    """What an increment makes of its base: what stays is the base's, and the state's hash is as promised."""
    base = _base_of(case)
    for name, change in case.changes.items():
        if change.op == "remove" and name not in base.sections:
            _note_applied(case, Order.PATCH, step_11(Reason.PATCH_FAILED, "a section of the base", "none", name), name)
    case.state = section_table.state_after(base.sections, case.changes)
    case.state_bytes = section_table.state_bytes(case.state)
    if not digest_is(case.state_bytes, case.envelope.state_hash.removeprefix("sha256:")):
        found = "another state"
        case.content.note(Order.RESULT, step_11(Reason.RESULT_MISMATCH, case.envelope.state_hash, found, "manifest"))


def _base_of(case: Verification) -> HeldDocument:
    if case.base is None:
        raise AssertionError("step 9 lets no increment pass without its base")
    return case.base


def _note_applied(case: Verification, order: Order, fault: Rejected, name: str) -> None:
    """The entries of a config's increment are applied in manifest order (format.md 11); other types go by the fault."""
    if case.envelope.scope_type == CONFIG:
        case.content.note(Order.PATCH, fault, name)
    else:
        case.content.note(order, fault)


def files_are_whole(case: Verification) -> None:
    """Of a config: the index, in form, over the sections that there are; of an increment once it is applied."""
    if case.envelope.scope_type != CONFIG or case.kind not in (SNAPSHOT, INCREMENT):
        return
    try:
        _index_holds(case)
    except Rejected as fault:
        case.content.note(Order.STRUCTURE if case.kind == SNAPSHOT else Order.INDEX, fault)


def _index_holds(case: Verification) -> None:
    if FILES not in case.carried:
        raise manifest.bad_content("a section files, set or patched", "none", FILES)
    if case.content.index_fault is not None:
        raise case.content.index_fault
    if case.content.files is None:  # raw; or a fault of its own is noted
        raise manifest.bad_content("a section files of JSON", "none", FILES)
    check_index(case.content.files, dict(case.state.items()))


def refuse_secret_in_files(case: Verification) -> None:
    """In the raw files of a config; of an increment in those whose sections it sets or names anew (format.md 11)."""
    before = _sections_before(case)
    for path, file in (case.content.files or {}).items():
        is_as_before = before.get(path) == file.sections and not case.changes.keys() & set(file.sections)
        if is_as_before or not case.state[file.sections[0]].is_raw:
            continue
        detector = case.raw.find(file.sections, lambda name: _base_of(case).read(name))
        if detector is not None:
            reject(12, Reason.RAW_SECRET, "a file without secrets", f"a raw secret ({detector})", path)


def _sections_before(case: Verification) -> dict[str, tuple[str, ...]]:
    """By path, of the base of an increment."""
    if case.base is None or FILES not in case.base.sections:
        return {}
    try:
        return {path: file.sections for path, file in parse_index(_held_value(case.base, FILES)).items()}
    except Rejected:  # held, and of another time: then all is looked at
        return {}


def topology_is_bounded(case: Verification) -> None:
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
