"""Who may see which scope: one decision for every way out of the node."""
