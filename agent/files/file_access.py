"""For whom the projected files are: the same that the socket would answer (sight.py), or fewer. Pure.

owner   the agent's own account alone: the default as soon as there is an `[access]`
group   `projection_group`, all of them: the default without one
scope   each scope for whom `[access]` lets read it, by access lists; the index for who may read all
"""

from dataclasses import replace
from enum import StrEnum

from agent.access.access import Access, Readers
from agent.files.generations import Permissions
from snapshot.frozen import frozen


class FilesFor(StrEnum):
    OWNER = "owner"
    GROUP = "group"
    SCOPE = "scope"


@frozen
class FileAccess:
    """`given`: modes and group as configured. `access` None: the files are for one group."""

    given: Permissions
    access: Access | None = None

    @classmethod
    def from_configuration(cls, said: str | None, given: Permissions, access: Access) -> "FileAccess":
        """`said` is `projection_access`, None where it is left out."""
        wanted = FilesFor(said) if said is not None else FilesFor.GROUP if access.is_default else FilesFor.OWNER
        if wanted is FilesFor.SCOPE:
            return cls(replace(given, gid=None), access)
        if wanted is FilesFor.OWNER:
            return cls(Permissions(given.file_mode & 0o700, given.folder_mode & 0o700))
        return cls(given)

    @property
    def top(self) -> Permissions:
        """Of the folders above those of scopes: to get through, and not to look into."""
        if self.access is None:
            return self.given
        return _for(self.access.readers_of_any, replace(self.given, folder_mode=0o710))

    @property
    def index(self) -> Permissions:
        return self.given if self.access is None else _for(self.access.readers_of_all, self.given)

    @property
    def by_scope(self) -> bool:
        return self.access is not None

    def of(self, scope: str, *, expired: bool) -> Permissions:
        return self.given if self.access is None else _for(self.access.readers(scope, expired=expired), self.given)


def _for(readers: Readers, given: Permissions) -> Permissions:
    """What is for nobody is the owner's by its mode alone."""
    if readers:
        return replace(given, file_mode=given.file_mode & 0o750, folder_mode=given.folder_mode & 0o750, readers=readers)
    return replace(given, file_mode=given.file_mode & 0o700, folder_mode=given.folder_mode & 0o700)
