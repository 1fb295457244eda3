"""What an operator may ask, by role. A route names the least that it needs (coordinator/runtime/route_roles.py).

    viewer     looks
    author     looks, and changes what is declared: apply, files, changes halt, resume, revert
    approver   looks, and approves what others want to change
    admin      everything

Author and approver are two roles and neither has the other in it: who may do both in one piece is no second pair of
eyes. Rights one by one were rejected: nobody looks over a table of thirty ticks for each operator.
"""

from enum import StrEnum


class OperatorRole(StrEnum):
    VIEWER = "viewer"
    AUTHOR = "author"
    APPROVER = "approver"
    ADMIN = "admin"

    def covers(self, needed: "OperatorRole") -> bool:
        """Whether who has this role may do what needs that one."""
        return self is OperatorRole.ADMIN or needed in (OperatorRole.VIEWER, self)

    @property
    def with_article(self) -> str:
        return f"{'an' if self.value.startswith('a') else 'a'} {self.value}"
