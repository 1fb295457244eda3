"""New content on probation, and the node's own way back (rules L28, L32, L34).

    begin_or_inherit   with the swap: new content begins its probation, equal content inherits what it is
    pass_probation     its time is over: it is good
    revert             it has failed: the newest good content serves again, in this one transaction

What a revert changes is what serves, and nothing of what was accepted: mark, floors and nonces stay, so that no source
can lead the node below the mark. What went back is told apart from damage by the row of what failed
(`failed_content.last`); the accepted version counts as lost, so that it may be taken again once a person has cleared
its content from the quarantine. Floors are not written: after a crash the old rows are there or the new ones.

Example. `route_policy` 1.6 is good and 1.7 on probation; its service dies. `revert` makes 1.6 active, leaves the mark
at 1.7, puts the content of 1.7 in the quarantine and a row in the journal. The head goes on listing 1.7: it is not
asked for. A source that offers 1.5, or 1.6 once more, is refused as ever. The coordinator signs the content of 1.6 as
1.8: that is a renewal of what serves, and good at once. 1.9 of new content begins a probation of its own.

What serves again is whole (each byte is hashed), of the mark's epoch, unexpired, and vouched for by keys that are
trusted now (`serves`): a revert must not bring back what the roots have taken away. If there is no such content, what
failed stays: any configuration is better for a service than none, and a person is told.

Rejected:

- To lower the mark: every source could offer what was left behind.
- To go back to the previous document instead: it may be one whose probation was never over.
- To have what was good pass another probation when it comes back: a check that fails for another reason would lead the
  node through all that it ever had.
- Trust bundle and head: going back would take back a revocation.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from snapshot.identifiers import HEAD
from snapshot.reasons import safe_text
from store.base import blobs, failed_content, journal, meta
from store.base.documents import StoredDocument, document, put_scope, scope_record
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.journal import Happened
from store.base.probation import (
    content_of,
    end_probation,
    forget_good,
    good,
    probation,
    put_good,
    put_probation,
)
from store.base.records import FailedContent, Good, ProbationRecord, ProbationTerms, ScopeRecord
from store.base.timefloor import Boot

NEVER = frozenset({HEAD, "trust_bundle"})
Serves = Callable[[StoredDocument], bool]


def begin_or_inherit(
    transaction: LmdbTransaction,
    before: ScopeRecord,
    after: ScopeRecord,
    terms: ProbationTerms | None,
    *,
    now: float,
    boot: Boot | None,
    gave_up: bool,
) -> None:
    """With the swap from `before` to `after`. `gave_up`: by a recovery. Nothing of before serves again after that, nor
    what is of an epoch that has ended.
    """
    content = content_of(transaction, after.active)
    if after.scope in NEVER or after.active is None or content is None:
        return
    kept = good(transaction, before)
    is_good = any(entry.content == content for entry in kept)
    if content != content_of(transaction, before.active):
        failed_content.forget_last(transaction, after.scope)
    elif not is_good:
        return  # equal content stays on probation, or what it is
    is_of_the_past = gave_up or after.epoch > before.epoch
    others = [] if is_of_the_past else [entry for entry in kept if entry.content != content]
    if terms is not None and not is_good:
        put_good(transaction, after.scope, others)
        put_probation(transaction, _first_row(after, terms, now, boot))
    else:
        put_good(transaction, after.scope, [Good(after.active, content), *others])
        end_probation(transaction, after.scope)


def forget(transaction: LmdbTransaction, scope: str) -> None:
    """The scope is withdrawn. Its quarantine stays: it may be listed again."""
    forget_good(transaction, scope)
    end_probation(transaction, scope)
    failed_content.forget_last(transaction, scope)


def _first_row(after: ScopeRecord, terms: ProbationTerms, now: float, boot: Boot | None) -> ProbationRecord:
    row = ProbationRecord(after.scope, now + terms.lasts_s, terms.lasts_s, terms.way, began=after.generation)
    return row if boot is None else replace(row, boot_id=boot.boot_id, ends=boot.elapsed + terms.lasts_s)


def pass_probation(transaction: LmdbTransaction, scope: str, now: float) -> bool:
    """What is active is good now; whether it was on probation."""
    record = scope_record(transaction, scope)
    if record is None or record.active is None or probation(transaction, scope) is None:
        return False
    content = content_of(transaction, record.active)
    kept = good(transaction, record)
    end_probation(transaction, scope)
    if content is None:
        return False
    put_good(transaction, scope, [Good(record.active, content), *kept])
    journal.append(transaction, Happened.PROBATION_PASSED, now, scope, f"epoch {record.epoch} version {record.version}")
    return True


def revert(
    transaction: LmdbTransaction, scopes: Iterable[str], check: str, detail: str, now: float, serves: Serves
) -> dict[str, Happened]:
    """What became of each of them that was on probation: `reverted`, or `nothing_to_go_back_to`."""
    on = [scope for scope in dict.fromkeys(scopes) if probation(transaction, scope) is not None]
    records = [record for scope in on if (record := scope_record(transaction, scope)) is not None]
    generation = meta.read(transaction).generation + 1
    happened = {
        record.scope: _go_back(
            transaction, record, generation, _failure(transaction, record, check, detail, now), serves
        )
        for record in records
        if record.active is not None
    }
    if Happened.REVERTED in happened.values():
        meta.change(transaction, generation=generation)
    return happened


def _go_back(
    transaction: LmdbTransaction, record: ScopeRecord, generation: int, failed: FailedContent, serves: Serves
) -> Happened:
    left = list(_serviceable(transaction, record, failed.at, serves))
    happened = Happened.REVERTED if left else Happened.NOTHING_TO_GO_BACK_TO
    if left:
        now = replace(
            record,
            active=left[0].digest,
            previous=left[1].digest if len(left) > 1 else None,
            generation=generation,
            activated_at=failed.at,
            refresh_after=left[0].envelope.refresh_after,
            expires_at=left[0].envelope.expires_at,
            on_previous=False,
        )
        put_scope(transaction, now)
        put_good(transaction, record.scope, [Good(held.digest, held.record.state) for held in left])
        failed_content.put_in_quarantine(transaction, failed)
    end_probation(transaction, record.scope)
    failed_content.put_last(transaction, failed)
    to = " to {}.{}".format(*left[0].version) if left else ""
    words = f"epoch {failed.authority_epoch} version {failed.config_version}{to}: {failed.check}: {failed.detail}"
    journal.append(transaction, happened, failed.at, record.scope, words)
    return happened


def _failure(transaction: LmdbTransaction, record: ScopeRecord, check: str, detail: str, now: float) -> FailedContent:
    """Of what is active: by its own document, and by the mark where that cannot be read."""
    epoch, version, snapshot_id, content_hash = record.epoch, record.version, "", record.content_hash
    try:
        held = document(transaction, record.active or b"", partial(blobs.get, transaction))
        (epoch, version), snapshot_id, content_hash = held.version, held.envelope.snapshot_id, held.content_hash
    except StoreError:
        pass
    words = safe_text(check), safe_text(detail)
    return FailedContent(record.scope, epoch, version, content_hash, snapshot_id, *words, now)


def _serviceable(
    transaction: LmdbTransaction, record: ScopeRecord, now: float, serves: Serves
) -> Iterator[StoredDocument]:
    """Good documents of other content than is active, the newest first."""
    active = content_of(transaction, record.active)
    for entry in good(transaction, record):
        if entry.content == active:
            continue
        try:
            held = document(transaction, entry.document, partial(blobs.get, transaction))
            same_epoch = held.envelope.authority_epoch == record.epoch
            if same_epoch and now < held.envelope.expires_at and _is_whole(held) and serves(held):
                yield held
        except StoreError:
            continue


def _is_whole(held: StoredDocument) -> bool:
    """Each byte of it, hashed now; StoreError where one is not what it was."""
    held.fetch(held.record.manifest)
    for name in held.sections:
        held.read(name)
    return True
