"""Changes: what was applied, how far each node is with it, and by which policy it goes on."""
