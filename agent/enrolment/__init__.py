"""How a node becomes a member and stays one: join, roots, identity, renewal, start from disk."""
