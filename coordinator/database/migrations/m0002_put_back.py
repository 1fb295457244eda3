"""That the database was put back stays known (rules K41)."""

import sqlalchemy as sa
from alembic import op

revision = "m0002"
down_revision = "m0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("cluster", sa.Column("put_back_epoch", sa.BigInteger(), nullable=True))
