"""Files of declared Configs: what they hold, how they differ, which schema they fit, what a node would have. Pure."""
