"""What steps 11 and 12 ask of sections, gathered while they pass by one at a time, and said when their step comes.

Within step 11 the order is that of format.md's text, whichever section came first (rules S88).
"""

from collections.abc import Mapping
from enum import IntEnum

from snapshot import canonical, secrets
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.canonical import Parsed
from snapshot.config_files import FILES, FileEntry, parse_index
from snapshot.envelope import Envelope
from snapshot.identifiers import CONFIG, is_id
from snapshot.limits import Limits
from snapshot.manifest import bad_content
from snapshot.quick_parse import WORTH_IT, parse_quickly
from snapshot.reasons import Reason, Rejected

# No snapshot carries such authority, in any scope type (format.md 7).
FORBIDDEN_MEMBERS = frozenset({"query_grants", "audit_authority", "policy_mutations", "user_directory"})
PEER_DIRECTORY = "peer_directory"


class Order(IntEnum):
    """The order of step 11's faults."""

    CRITICAL = 0
    CANONICAL = 1
    STRUCTURE = 2
    ORGANIZATION = 3
    TOPOLOGY = 4
    PATCH = 5
    RESULT = 6
    INDEX = 7  # of a config, once its increment has been applied


class DocumentContent:
    """The evidence of one document's sections."""

    def __init__(self, envelope: Envelope, limits: Limits) -> None:
        self._envelope = envelope
        self._limits = limits
        self._faults: dict[Order, tuple[str, Rejected]] = {}
        self.secret: Rejected | None = None
        self.peers: set[str] = set()
        self.values: dict[str, object] = {}  # of a trust bundle, which is read whole
        self.files: Mapping[str, FileEntry] | None = None  # of a config: its index, where it is in form
        self.alone: frozenset[str] = frozenset()  # sections that are all of their file
        self.index_fault: Rejected | None = None

    @property
    def fault(self) -> Rejected | None:
        return self._faults[min(self._faults)][1] if self._faults else None

    def note(self, order: Order, fault: Rejected, place: str = "") -> None:
        """The first of its order stays; where places are given, the one that stands first."""
        noted = self._faults.get(order)
        if noted is None or place < noted[0]:
            self._faults[order] = (place, fault)

    def parse(self, name: str, data: bytes) -> Parsed | None:
        """The section, or None with the fault noted."""
        try:
            return canonical.parse(data, self._limits)
        except canonical.NotCanonical as error:
            self.note(Order.CANONICAL, bad_content("canonical JSON within the limits", str(error), name))
            return None

    def inspect(self, name: str, data: bytes) -> None:
        """Look at the final bytes of a section: set as they are, or a patch's result."""
        section = parse_quickly(data, self._limits) if len(data) >= WORTH_IT else None
        if section is not None and not self._faults_of(name, section):
            return
        section = self.parse(name, data)  # which fault is the first of its order depends on the way of reading
        for order, fault in self._faults_of(name, section) if section is not None else ():
            if order is None:
                self.secret = fault
            else:
                self.note(order, fault)

    def _faults_of(self, name: str, section: Parsed) -> list[tuple[Order | None, Rejected]]:
        """By their place in step 11; None for step 12, which says the first of all sections."""
        if name == FILES and self._envelope.scope_type == CONFIG:
            self._read_index(section)
            return []
        found = (
            (Order.STRUCTURE, self._fault_of_structure(name, section)),
            (Order.ORGANIZATION, self._unlisted_organization(name, section)),
            (None, self._raw_secret(name, section)),
        )
        return [(order, fault) for order, fault in found if fault is not None]

    def _read_index(self, section: Parsed) -> None:
        """Judged by its own form alone: a path may be any word."""
        try:
            self.files = parse_index(section.value)
            self.alone = frozenset(file.sections[0] for file in self.files.values() if len(file.sections) == 1)
        except Rejected as fault:
            self.index_fault = fault

    def count_peers(self, name: str, value: object) -> None:
        if is_part(name, "peers") and isinstance(value, dict):
            self.peers.update(value)

    def _fault_of_structure(self, name: str, section: Parsed) -> Rejected | None:
        if self._envelope.scope_type == TRUST_BUNDLE:
            self.values[name] = section.value
        forbidden = FORBIDDEN_MEMBERS & section.names
        if forbidden:
            return bad_content("no member that grants authority", min(forbidden), name)
        if self._envelope.scope_type == PEER_DIRECTORY and is_part(name, "peers"):
            if not isinstance(section.value, dict) or not all(map(is_id, section.value)):
                return bad_content("an object by node id", "something else", name)
            self.count_peers(name, section.value)
        return None

    def _unlisted_organization(self, name: str, section: Parsed) -> Rejected | None:
        if "organization_id" not in section.names:
            return None
        listed = self._envelope.organization_ids
        for item in section.objects:
            if "organization_id" in item and item["organization_id"] not in listed:
                found = item["organization_id"]
                return Rejected(
                    11,
                    Reason.UNRELATED_ORGANIZATION,
                    expected="an organization_id that the envelope lists",
                    found=found if is_id(found) else type(found).__name__,
                    where=name,
                )
        return None

    def _raw_secret(self, name: str, section: Parsed) -> Rejected | None:
        finding = secrets.find_secret_in(section) if self.secret is None else None
        if finding is None:
            return None
        found = f"a raw secret ({finding.detector})"
        return Rejected(12, Reason.RAW_SECRET, expected="a secret_ref", found=found, where=f"{name}{finding.pointer}")


def is_part(name: str, family: str) -> bool:
    """`peers` or `peers.<part>` (format.md 10)."""
    return name == family or name.startswith(f"{family}.")
