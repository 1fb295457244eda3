"""The task that takes changes from ring to ring, and what people may ask of it."""
