"""What a node DOES: one trio program that keeps verified configuration, serves it, and says what it holds.

Reading the source: `run.py` (the table of contents), `node.py` (what the tasks share), `node_state.py` (which state the
node is in, and why), `refresh.py` and `update.py` (from a head to an active scope), `joining.py`, `heartbeat.py`.
"""
