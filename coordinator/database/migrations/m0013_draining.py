"""Members that are on their way out: since when, and what they go on with."""

import sqlalchemy as sa
from alembic import op

revision = "m0013"
down_revision = "m0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("draining_since", sa.Double()))
    op.add_column("nodes", sa.Column("keeps", sa.Text()))
