"""Rows of the store's tables `health`, `peers` and `routes` that more than one module reads: what a node keeps of
itself, and of those whom it asks, beside documents.
"""

ADDRESSES_ROW = "addresses"  # of `routes`: where the names of sources have led
AUTHORITIES_ROW = "authorities"  # CAs that node_bootstraps have listed, and the last list
OUTAGE_ROW = "outage"  # how long its head has been out, for the clock of degraded mode (rules J38)
PEERS_ROW = "peers"  # of `peers`: which of them have worked
REVOKED_ROW = "revoked"  # that it was revoked, by which document, when
