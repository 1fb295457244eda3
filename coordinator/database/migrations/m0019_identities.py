"""The identity of each coordinator, as the manifest pins it; nothing, until `holdfastctl coordinators pin`."""

import sqlalchemy as sa
from alembic import op

revision = "m0019"
down_revision = "m0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("coordinators", sa.Column("identity_sha256", sa.Text(), nullable=False, server_default=""))
