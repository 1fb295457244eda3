"""A node's head: what it says, signed, and judged as its node will judge it (rules S69, S85).

sign_head(...)     the head, and the digest of what it says (review.py)
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from coordinator.base.refusal import Refused, bound_text
from coordinator.database.documents import HeadEntry
from coordinator.keys import signer
from coordinator.keys.signer import SignedDocument
from coordinator.publishing.gates import ChangeMark
from coordinator.publishing.published_state import Situation
from coordinator.publishing.review import MeantHead, MeantLine, Reviewer
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.replicas.generations import next_generation
from snapshot import canonical
from snapshot.verifier_state import VerifierState

NO_ENTRIES: Mapping[str, HeadEntry] = {}
NO_MARKS: Mapping[str, ChangeMark] = {}
MOST_REPLACED = 16  # lines of a listing, each of which is looked for in all of its text
MOST_TEXTS = 1_024


class HeadLine(NamedTuple):
    """What a head says of one scope that it lists."""

    scope: str
    entry: HeadEntry
    mark: ChangeMark | None = None

    @property
    def members(self) -> Mapping[str, object]:
        return vars(self.entry) if self.mark is None else vars(self.entry) | self.mark.members()

    @property
    def text(self) -> str:
        return f'"{self.scope}":{self.entry.text if self.mark is None else _text_with_mark(self.entry, self.mark)}'


class AmendedLine(NamedTuple):
    """As the head before said it, and as the next one does."""

    before: HeadLine
    after: HeadLine


class Announced(NamedTuple):
    """What a head lists and what is coming, by scope, and by which change either came. `texts`: both as they are kept,
    in canonical JSON without the marks. `said`: the digest of what the head before it says, where this one says the
    same but for `lines`.
    """

    listing: Mapping[str, HeadEntry]
    texts: tuple[str, str]
    candidates: Mapping[str, HeadEntry] = NO_ENTRIES
    marks: Mapping[str, ChangeMark] = NO_MARKS
    candidate_marks: Mapping[str, ChangeMark] = NO_MARKS
    said: bytes | None = None
    lines: Sequence[AmendedLine] = ()

    @property
    def kinds_of_marks(self) -> tuple[frozenset[ChangeMark], frozenset[ChangeMark]]:
        return frozenset(self.marks.values()), frozenset(self.candidate_marks.values())

    @property
    def scopes_text(self) -> str:
        return _marked_text(self.texts[0], self.listing, self.marks) if self.marks else self.texts[0]

    @property
    def candidates_text(self) -> str:
        marks = self.candidate_marks
        return _marked_text(self.texts[1], self.candidates, marks) if marks else self.texts[1]


def sign_head(
    issue: Issue, situation: Situation, announced: Announced, holder: VerifierState, reviewer: Reviewer
) -> tuple[SignedDocument, bytes]:
    """Unpublishable where it is not signed, or its node would refuse it."""
    generation = next_generation(situation.based_on.generation, situation.based_on.published)
    poll_after_s = issue.poll_after_s(situation.node_id)
    coming = f'"candidates":{announced.candidates_text},' if announced.candidates else ""
    said = f'"revocations":{issue.revocations_text},"scopes":{announced.scopes_text}'
    content = f'{{{coming}"generation":{generation},"poll_after_s":{poll_after_s},{said}}}'.encode()
    try:
        made = issue.head_form.sign(
            content,
            snapshot_id=new_id(),
            subject_node_id=situation.node_id,
            config_version=generation,
            refresh_after=issue.refresh_after(situation.node_id, issue.settings.head_refresh_s),
        )
    except ValueError as error:  # as of `signing`, which takes longer to enter than what is written here
        raise _fault_of(error) from error

    def members() -> Mapping[str, object]:
        return signer.head_members(
            generation,
            _entries(announced.listing, announced.marks),
            _entries(announced.candidates, announced.candidate_marks),
            poll_after_s=poll_after_s,
            revocations=issue.revocation_members,
        )

    lines = [
        MeantLine(before.text.encode(), after.text.encode(), {after.scope: after.members})
        for before, after in announced.lines
    ]
    meant = MeantHead((generation, poll_after_s), members, announced.kinds_of_marks, announced.said, lines)
    return made, reviewer.review_head(made, holder, issue.now, meant)


def new_id() -> str:
    return secrets.token_hex(16)  # protocol 1: 128 random bits


@contextmanager
def signing() -> Iterator[None]:
    """What has no signed form, or is not signed by the library or device that holds the key, or is made of bytes that
    the database has lost, is one scope's fault or one head's: it is said, and tried again (rules P1).
    """
    try:
        yield
    except ValueError as error:
        raise _fault_of(error) from error
    except Refused as damage:
        raise Unpublishable(damage.code.value, bound_text(damage.detail)) from damage


def _fault_of(error: ValueError) -> Unpublishable:
    return Unpublishable("cannot_sign", bound_text(str(error)))


def amended_text(text: str, lines: Iterable[AmendedLine]) -> str | None:
    """A listing with these lines in place of those before; None where one of them is not in it. An entry is written in
    one way, and no name has a quote: a line is where its text is.
    """
    for before, after in lines:
        head, found, tail = text.partition(before.text)
        if not found:
            return None
        text = f"{head}{after.text}{tail}"
    return text


def _marked_text(text: str, entries: Mapping[str, HeadEntry], marks: Mapping[str, ChangeMark]) -> str:
    """As `_entries`, from the text without the marks: a twentieth of the time of writing the members. The review reads
    it again and compares.
    """
    marked = marks.keys() & entries.keys()
    if len(marked) <= MOST_REPLACED:
        plain = [HeadLine(scope, entries[scope]) for scope in marked]
        found = amended_text(text, [AmendedLine(line, line._replace(mark=marks[line.scope])) for line in plain])
        if found is not None:
            return found
    texts = {scope: entry.text for scope, entry in entries.items()}
    texts |= {scope: _text_with_mark(entries[scope], marks[scope]) for scope in marked}
    return canonical.join(texts)


@lru_cache(maxsize=MOST_TEXTS)
def _text_with_mark(entry: HeadEntry, mark: ChangeMark) -> str:
    """Thousands of nodes may be given the same."""
    return canonical.dumps(HeadLine("", entry, mark).members).decode()


def _entries(entries: Mapping[str, HeadEntry], marks: Mapping[str, ChangeMark]) -> dict[str, Mapping[str, object]]:
    """As a head lists them."""
    return {scope: HeadLine(scope, entry, marks.get(scope)).members for scope, entry in entries.items()}
