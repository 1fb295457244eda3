"""A scope's folder of a former generation that is over, taken for the next one instead of being removed.

Each generation has a folder of each scope, with a link for each file that has not changed. With 10,000 files that is
10,000 links for one change, and as many to remove a minute later: each 4 us in the kernel. A folder whose time is over
differs from the next one in the few files that were changed since; so it is moved there, and these alone are made.

What was changed since is known by the names of each step, and by nothing that is read: so only folders that this
process has made are taken, whose steps are all known, for the same readers. First the former generation goes out of the
row of them (Generations.take_out); then the scope's folder is moved into the one that nobody reads yet, and changed
there: who has opened the former generation finds the scope gone from it, as it does when that one is removed. Whatever
fails in between, none of those that are left lacks a scope, and the link is where it was.

A burst of updates takes one folder each, and within their minute none of those comes free. So some that are over stay
for the next burst instead of being removed (generations.py, spares): six updates a minute find one.

Rejected: to make folders ahead in idle time. It costs what it saves, and with folders that stay it is needed only after
a start. To take one whose minute is not over: who has it open would find newer files under an older generation. To
change files in the present folder, each swapped by rename. A reader of two of them gets one of each
version, which is what generations are for.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import field
from itertools import dropwhile, islice

from agent.files.former_files import FormerFile
from agent.files.generations import Permissions
from snapshot.frozen import frozen, mutable

LEAST_FILES = 256  # with fewer, links cost next to nothing
CHANGED_SHARE = 4  # one file in so many; where more has changed, all are linked
MOST_STEPS = 256  # that a folder may be behind to be worth its place
_OWN_WRITE = 0o300  # a folder that its owner may not write to cannot be brought up


@frozen
class _Step:
    """`changed`: the sections that the folder has otherwise than the one before it, or alone; None: not known.
    `made_at`: when a file came to it or went last, as the disk says. `file`: the large one beside it.
    """

    permissions: Permissions
    changed: Set[str] | None
    change_limit: int
    made_at: int
    file: FormerFile | None


@frozen
class Successor:
    """What a scope's folder is to be. `changed`: its sections that are otherwise than in the present folder, or are in
    one of both alone; None: not known.
    """

    scope: str
    sections: Set[str]
    permissions: Permissions
    changed: Set[str] | None

    @property
    def is_large(self) -> bool:
        return len(self.sections) >= LEAST_FILES

    @property
    def change_limit(self) -> int:
        return len(self.sections) // CHANGED_SHARE


@mutable
class FormerFolders:
    """By scope and label, in their order: the folders that this process has made, of scopes of many sections."""

    _steps: dict[str, dict[str, _Step]] = field(default_factory=dict)

    def note(
        self,
        label: str,
        made: Iterable[Successor],
        labels: Set[str],
        found: Mapping[str, tuple[int, FormerFile | None]],
    ) -> None:
        """The generation that is in use now; `labels`: those that are still there; `found`: `made_at` and `file`, by
        scope. A scope that it has not begins anew. Of large changes the names are not kept: they would be as many as
        all that is held.
        """
        self._steps = {
            successor.scope: {
                **_from_the_first_of(labels, self._steps.get(successor.scope, {})),
                label: _Step(
                    successor.permissions,
                    _if_few(successor.changed, successor.change_limit),
                    successor.change_limit,
                    *found[successor.scope],
                ),
            }
            for successor in made
            if successor.is_large
        }

    def facts(self, label: str, scope: str) -> tuple[int, FormerFile | None]:
        """`made_at` and `file` of a folder that is behind. One that has another time is not what it was when it was
        made: to go through its names instead takes as long as all else, where there are 10,000.
        """
        step = self._steps[scope][label]
        return step.made_at, step.file

    def useful(self) -> Set[str]:
        """The labels of folders that could be taken for the next generation, and are worth to be kept for it: few have
        changed since, each time that it did counted, so that few names are remembered for one.
        """
        found = set[str]()
        for steps in self._steps.values():
            last, behind = next(reversed(steps.values())), 0
            for label, step in islice(reversed(steps.items()), MOST_STEPS):
                if step.permissions != last.permissions or behind > last.change_limit:
                    break
                found.add(label)
                if step.changed is None:
                    break
                behind += len(step.changed)
        return found

    def behind(self, label: str | None, next_one: Successor) -> Set[str] | None:
        """The sections in which that folder is behind, few enough; None where it is not to be taken."""
        steps = self._steps.get(next_one.scope, {})
        if label not in steps or not next_one.is_large or next_one.permissions.folder_mode & _OWN_WRITE != _OWN_WRITE:
            return None
        labels = list(steps)
        since = labels[labels.index(label) :]
        if any(steps[later].permissions != next_one.permissions for later in since):
            return None
        found: set[str] = set()
        for changed in (*(steps[later].changed for later in since[1:]), next_one.changed):
            if changed is None:
                return None
            found |= changed
        return _if_few(found, next_one.change_limit)


def _from_the_first_of(labels: Set[str], steps: Mapping[str, _Step]) -> dict[str, _Step]:
    """Those before it lead from nowhere; those behind it are all needed, whether they are there or not."""
    return dict(dropwhile(lambda step: step[0] not in labels, steps.items()))


def _if_few(names: Set[str] | None, most: int) -> Set[str] | None:
    return names if names is not None and len(names) <= most else None
