"""The signed history, of which there is none until it is begun: by `init`, or by an operator for a cluster from before.

No running digest is made here: a table that has none gets it with the next change, from all of its rows.
"""

import sqlalchemy as sa
from alembic import op

revision = "m0016"
down_revision = "m0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("link", sa.BigInteger(), nullable=True))
    op.create_index("audit_by_link", "audit", ["link"])
    op.create_table(
        "pointers",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("signer", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "transitions",
        sa.Column("number", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("transition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "running_digests",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
