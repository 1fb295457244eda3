"""What is KEPT: the durable store of one node, on LMDB, with its anti-rollback floors outside of it.

Synchronous, disk only: no trio, no HTTP, no clock (`now`, boot id and boot time are arguments). One class is the
face, `store.store.Store`; everything it refuses is a `store.base.errors.StoreError`.
"""
