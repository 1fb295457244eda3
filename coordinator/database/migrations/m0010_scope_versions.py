"""One counter of versions for each scope that nodes may share, from the greatest that any of them was given.

So what is published after it is new to every node, also to one that comes back.
"""

import sqlalchemy as sa
from alembic import op

revision = "m0010"
down_revision = "m0009"
branch_labels = None
depends_on = None

_ONE_EACH = ("peer_directory", "route_policy", "qos_policy", "storage_directory", "degraded_mode_policy")


def upgrade() -> None:
    op.create_table(
        "scope_versions",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("config_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope"),
    )
    op.create_index("documents_by_content", "documents", ["scope", "content_hash"])
    published = sa.table("published", sa.column("scope"), sa.column("config_version"))
    counters = sa.table("scope_versions", sa.column("scope"), sa.column("config_version"))
    scope = published.c.scope
    last = sa.select(scope, sa.func.max(published.c.config_version)).group_by(scope)
    counted = last.where(scope.in_(_ONE_EACH) | scope.startswith("config/"))
    op.execute(sa.insert(counters).from_select(["scope", "config_version"], counted))
