"""What a node knows and holds, and which state that puts it in. Nothing here asks the network."""
