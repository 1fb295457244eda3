"""Wishes for the next trust bundle (ceremony.py), made of what `holdfastctl` sends (wire/operators/trust_messages.py).

Pure.

A wish is a verb with its arguments (`{"wish": "retire", "key_id": ...}`), not a piece of the next bundle. The command
line and the coordinator may be of different versions: an unknown verb or member is refused by its name, where a bundle
with a member too many would be signed by somebody first. Defaults that depend on the moment (how long a new key lives)
are filled in here, on the coordinator's clock, so that all who sign see the same content.

Example. `holdfastctl rotate` sends `[{"wish": "add", "purpose": "config", "algorithm": ..., "public_key": ...}]`; what
comes back is a signing request with the whole next bundle in it, which the holders of the root keys sign offline after
reading its differences.

Rejected: a patch of the bundle (RFC 6902), as documents have it. It can say anything, so that everything would have to
be judged by its result; a wish can say seven things.
"""

from coordinator.trust.bundle_content import CONFIG_SCOPES
from coordinator.trust.ceremony import Add, PublicKey, RaiseEpoch, Remove, Restore, Retire, Revoke, Threshold, Wish
from snapshot.bundle import CONFIG, ROOT
from wire.operators.trust_messages import (
    AddWish,
    BundleDraftRequest,
    EpochWish,
    RemoveWish,
    RestoreWish,
    RetireWish,
    RevokeWish,
    ThresholdWish,
    WishMessage,
)

DEFAULT_LIFETIME_S = {ROOT: 20 * 365 * 86_400, CONFIG: 365 * 86_400}


def wishes_of(asked: BundleDraftRequest, now: float) -> list[Wish]:
    return [_wish(wish, now) for wish in asked.wishes]


def _wish(said: WishMessage, now: float) -> Wish:
    match said:
        case AddWish():
            key = PublicKey(said.algorithm, said.public_key)
            not_after = int(now) + DEFAULT_LIFETIME_S[said.purpose] if said.not_after is None else said.not_after
            scopes = CONFIG_SCOPES if said.scope_types is None else said.scope_types
            return Add(key, said.purpose, not_after, scopes)
        case RetireWish():
            return Retire(said.key_id, said.early)
        case RemoveWish():
            return Remove(said.key_id)
        case RevokeWish():
            return Revoke(said.key_id)
        case ThresholdWish():
            return Threshold(said.purpose, said.number)
        case EpochWish():
            return RaiseEpoch(said.to)
        case RestoreWish():
            return Restore(said.category, said.value)
