"""Where each resource was declared. Of what is there already nobody knows: the next apply says it."""

import sqlalchemy as sa
from alembic import op

revision = "m0011"
down_revision = "m0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "declared_places",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id"),
    )
