"""Rows of the store's table `health` that more than one module reads: what a node keeps of itself beside documents."""

AUTHORITIES_ROW = "authorities"  # CAs that node_bootstraps have listed
OUTAGE_ROW = "outage"  # how long its head has been out, for the clock of degraded mode (rules J38)
REVOKED_ROW = "revoked"  # that it was revoked, by which document, when
