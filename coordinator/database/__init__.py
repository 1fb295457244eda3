"""The authoritative state: schema, transactions, catalog, documents, and who changed what."""
