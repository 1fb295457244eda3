"""Who on this machine reads which scopes (protocol.md 4, `[access]`; threats D-33, U11).

A caller is known by uid and gids as the kernel says them. What somebody may not read is answered to them as what does
not exist, so that nobody learns what a node holds.
"""

import grp
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, Self

from agent.config.patterns import EVERY, matches
from snapshot.frozen import frozen
from wire.peer import OVERFLOW_UID, UnixPeer

ROOT_UID = 0


class NamedCallers(Protocol):
    """An entry of the configuration's `[access]`."""

    @property
    def users(self) -> tuple[str, ...]: ...

    @property
    def groups(self) -> tuple[str, ...]: ...

    @property
    def expired(self) -> bool: ...


@frozen
class AccessRule:
    """These users and these groups read the scopes that match; with `expired` also once they are over, if asked."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()
    scopes: tuple[str, ...] = (EVERY,)
    expired: bool = False

    @classmethod
    def from_names(
        cls, users: Iterable[str], groups: Iterable[str], scopes: Iterable[str], *, expired: bool = False
    ) -> Self:
        """From names or numbers; ValueError names what is not there, and the remedy."""
        uids = frozenset(map(user_id, users))
        gids = frozenset(map(group_id, groups))
        if not uids and not gids:
            raise ValueError("a rule of [access] names nobody: give it users or groups")
        return cls(uids, gids, tuple(scopes), expired)

    def names(self, peer: UnixPeer) -> bool:
        return peer.uid in self.uids or not self.gids.isdisjoint(peer.gids)


@frozen
class Readers:
    """Accounts, beside root and the agent's own."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()

    @classmethod
    def of(cls, rules: Iterable[AccessRule]) -> Self:
        named = list(rules)
        uids = frozenset[int]().union(*(rule.uids for rule in named))
        return cls(uids, frozenset[int]().union(*(rule.gids for rule in named)))

    def __bool__(self) -> bool:
        return bool(self.uids or self.gids)


@frozen
class Access:
    """Root and the agent's own account read everything, also what has expired. `is_default`: there is no `[access]`."""

    rules: tuple[AccessRule, ...]
    is_default: bool = False

    @classmethod
    def of_group(cls, gid: int) -> Self:
        """The default: the socket's group reads all, as it does in the files."""
        return cls((AccessRule(gids=frozenset({gid}), expired=True),), is_default=True)

    @classmethod
    def from_configuration(cls, entries: Mapping[str, NamedCallers], socket_gid: int) -> Self:
        """`[access]`, by scope pattern; the default where it is empty. ValueError as `AccessRule.named`."""
        if not entries:
            return cls.of_group(socket_gid)
        return cls(
            tuple(
                AccessRule.from_names(entry.users, entry.groups, (pattern,), expired=entry.expired)
                for pattern, entry in entries.items()
            )
        )

    @property
    def first(self) -> frozenset[int]:
        """The uids for which places at the socket are kept: no group, since subordinate ids come with their groups."""
        named = (rule.uids for rule in self.rules)
        return frozenset({ROOT_UID, os.geteuid()}).union(*named)

    def may_read(self, peer: UnixPeer, scope: str) -> bool:
        """Of a pattern: all that it stands for, by a rule that holds for as much."""
        return may_administer(peer) or any(True for _ in self._rules_for(peer, scope))

    def may_read_expired(self, peer: UnixPeer, scope: str) -> bool:
        """Whether `?expired=allow` helps this caller (protocol.md 4: where policy permits)."""
        return may_administer(peer) or any(rule.expired for rule in self._rules_for(peer, scope))

    def reads_all(self, peer: UnixPeer) -> bool:
        return any(EVERY in rule.scopes for rule in self._naming(peer))

    def readers(self, scope: str, *, expired: bool) -> "Readers":
        """Who may read this scope, as it stands: whom a file of it is for."""
        rules = [rule for rule in self.rules if matches(rule.scopes, scope) and (rule.expired or not expired)]
        return Readers.of(rules)

    @property
    def readers_of_all(self) -> "Readers":
        return Readers.of([rule for rule in self.rules if EVERY in rule.scopes])

    @property
    def readers_of_any(self) -> "Readers":
        return Readers.of(self.rules)

    def _naming(self, peer: UnixPeer) -> Iterator[AccessRule]:
        if peer.uid == OVERFLOW_UID:  # threats U06: nobody in particular
            return iter(())
        return (rule for rule in self.rules if rule.names(peer))

    def _rules_for(self, peer: UnixPeer, scope: str) -> Iterator[AccessRule]:
        return (rule for rule in self._naming(peer) if matches(rule.scopes, scope))


def may_administer(peer: UnixPeer) -> bool:
    """Whether the caller may hand in documents: root, or the agent's own account (protocol.md 4, rules K51)."""
    return peer.uid in (ROOT_UID, os.geteuid())


def user_id(name: str) -> int:
    """The number of an account; ValueError with the remedy where there is none."""
    if name.isascii() and name.isdigit():
        return _check_uid(int(name))
    try:
        return _check_uid(pwd.getpwnam(name).pw_uid)
    except KeyError:
        raise ValueError(f"there is no user {name!r}: add it (adduser), or take it out of [access]") from None


def group_id(name: str) -> int:
    """The number of a group; ValueError with the remedy where there is none."""
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ValueError(f"there is no group {name!r}: add it (addgroup), or name another one") from None


def _check_uid(uid: int) -> int:
    if uid == OVERFLOW_UID:
        raise ValueError(f"uid {OVERFLOW_UID} is any account that the kernel cannot name: nobody gets rights by it")
    return uid
