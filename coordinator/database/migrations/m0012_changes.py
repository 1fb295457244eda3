"""Changes: what each node is still kept from, and what heads announce as coming. What is there already is held by none.

Whoever may come in may do everything, as until now, until a role is given.
"""

import sqlalchemy as sa
from alembic import op

revision = "m0012"
down_revision = "m0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_changes()
    _create_change_nodes()
    op.create_table(
        "change_events",
        sa.Column("change_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("position", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("change_id", "position"),
    )
    op.create_table(
        "change_approvals",
        sa.Column("change_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("plan_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("change_id", "operator"),
    )
    op.add_column("heads", sa.Column("candidates", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("published", sa.Column("is_candidate", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("operators", sa.Column("role", sa.Text(), nullable=False, server_default="admin"))


def _create_changes() -> None:
    op.create_table(
        "changes",
        sa.Column("change_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("plan_hash", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("based_on", sa.Text(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("immediately", sa.Text(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("reverts", sa.BigInteger(), nullable=True),
        sa.Column("waits_for", sa.BigInteger(), nullable=True),
        sa.Column("follows", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.BigInteger(), nullable=True),
        sa.Column("settled_at", sa.Double(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("change_id"),
    )
    op.create_index("changes_by_end", "changes", ["settled_at", "state"])
    op.create_index("changes_by_state", "changes", ["state", "change_id"])
    for name, column in (("changes_by_reverted", "reverts"), ("changes_by_successor", "superseded_by")):
        is_set = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, "changes", [column], sqlite_where=is_set, postgresql_where=is_set)


def _create_change_nodes() -> None:
    op.create_table(
        "change_nodes",
        sa.Column("change_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("group", sa.Integer(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("ring", sa.Integer(), nullable=True),
        sa.Column("released_at", sa.Double(), nullable=True),
        sa.Column("votes", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("active_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("change_id", "node_id"),
    )
    op.create_index("change_nodes_by_node", "change_nodes", ["node_id"])
