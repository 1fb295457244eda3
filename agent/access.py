"""Who on this machine reads which scopes (protocol.md 4, `[access]`; threats D-33, U11).

A caller is known by uid and gids as the kernel says them. What somebody may not read is answered to them as what does
not exist, so that nobody learns what a node holds.
"""

import grp
import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from agent.patterns import EVERY, matches
from wire.peer import OVERFLOW_UID, UnixPeer

ROOT_UID = 0


class Named(Protocol):
    """An entry of the configuration's `[access]`."""

    @property
    def users(self) -> tuple[str, ...]: ...

    @property
    def groups(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class AccessRule:
    """These users and these groups read the scopes that match."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()
    scopes: tuple[str, ...] = (EVERY,)

    @classmethod
    def named(cls, users: Iterable[str], groups: Iterable[str], scopes: Iterable[str]) -> Self:
        """From names or numbers; ValueError names what is not there, and the remedy."""
        uids = frozenset(map(user_id, users))
        gids = frozenset(map(group_id, groups))
        if not uids and not gids:
            raise ValueError("a rule of [access] names nobody: give it users or groups")
        return cls(uids, gids, tuple(scopes))

    def is_about(self, peer: UnixPeer) -> bool:
        return peer.uid in self.uids or not self.gids.isdisjoint(peer.gids)


@dataclass(frozen=True)
class Access:
    """Root and the agent's own account read everything. `expired`: whether expired scopes may be asked for."""

    rules: tuple[AccessRule, ...]
    expired: bool = True

    @classmethod
    def of_group(cls, gid: int) -> Self:
        """The default: the socket's group reads all."""
        return cls((AccessRule(gids=frozenset({gid})),))

    @classmethod
    def configured(cls, entries: Mapping[str, Named], socket_gid: int) -> Self:
        """`[access]`, by scope pattern; the default where it is empty. ValueError as `AccessRule.named`."""
        if not entries:
            return cls.of_group(socket_gid)
        return cls(tuple(AccessRule.named(one.users, one.groups, (pattern,)) for pattern, one in entries.items()))

    def may_read(self, peer: UnixPeer, scope: str) -> bool:
        if peer.uid == OVERFLOW_UID:  # threats U06: nobody in particular
            return False
        if may_administer(peer):
            return True
        return any(rule.is_about(peer) and matches(rule.scopes, scope) for rule in self.rules)


def may_administer(peer: UnixPeer) -> bool:
    """Whether the caller may hand in documents: root, or the agent's own account (protocol.md 4, rules K51)."""
    return peer.uid in (ROOT_UID, os.geteuid())


def user_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return _known(int(name))
    try:
        return _known(pwd.getpwnam(name).pw_uid)
    except KeyError:
        raise ValueError(f"there is no user {name!r}: add it (adduser), or take it out of [access]") from None


def group_id(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ValueError(f"there is no group {name!r}: add it (addgroup), or name another one") from None


def _known(uid: int) -> int:
    if uid == OVERFLOW_UID:
        raise ValueError(f"uid {OVERFLOW_UID} is any account that the kernel cannot name: nobody gets rights by it")
    return uid
