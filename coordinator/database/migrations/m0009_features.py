"""What a node has said that it can read, as far as it decided what it is given."""

import sqlalchemy as sa
from alembic import op

revision = "m0009"
down_revision = "m0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("node_status", sa.Column("features", sa.Text()))
