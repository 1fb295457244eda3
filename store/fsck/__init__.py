"""What examines a store and mends it: pages, records, quarantine, what to fall back to."""
