"""The names of the signature algorithms (format.md 6), for who lists them and verifies nothing.

Apart from `snapshot.signature`, so that the child which looks at a store (store/fsck/child.py) loads no cryptography.
"""

ED25519 = "ed25519"
RSA_PSS_SHA256 = "rsa-pss-sha256"
ALGORITHMS = (ED25519, RSA_PSS_SHA256)
