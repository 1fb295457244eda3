"""The limits of format.md 10, in one place."""

from snapshot.frozen import frozen

KIB = 1024
MIB = 1024 * KIB


@frozen
class Limits:
    """Sizes in bytes. Configuration may change `section_bytes` and `content_bytes`, and no other."""

    section_bytes: int = 1 * MIB
    content_bytes: int = 256 * MIB

    envelope_bytes: int = 64 * KIB
    envelope_depth: int = 6
    manifest_bytes: int = 4 * MIB
    sections: int = 20_000
    signatures: int = 16
    signature_bytes: int = 512
    json_depth: int = 32
    json_values: int = 200_000
    string_bytes: int = 64 * KIB
    trust_bundle_bytes: int = 1 * MIB
    trust_bundle_keys: int = 64
    patch_operations: int = 1_000
    pointer_tokens: int = 32


DEFAULT = Limits()
