"""The table of pointers, which nothing has written or read."""

from alembic import op

revision = "m0008"
down_revision = "m0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("pointers")
