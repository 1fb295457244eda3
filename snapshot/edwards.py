"""The curve of Ed25519, as far as a strict reader needs it: is this public key of full prime order? (threats D-9)

pyca/cryptography accepts small-order and mixed-order keys, under which one signature can fit many messages. Public
values only, so nothing here is constant-time.
"""

from functools import lru_cache

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
_ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)

# Extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z.
_Point = tuple[int, int, int, int]
_IDENTITY: _Point = (0, 1, 1, 0)


# y of the eight points whose order divides 8, sign bit clear.
_SMALL_ORDER = frozenset(
    bytes.fromhex(y)
    for y in (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
)


@lru_cache(maxsize=1024)
def is_full_order(encoded: bytes) -> bool:
    """Whether 32 bytes are the canonical encoding of a curve point other than the identity whose order is L."""
    point = _decode(encoded)
    return point is not None and not _is_identity(point) and _is_identity(_multiply(L, point))


def is_canonical(encoded: bytes) -> bool:
    """Whether the y that 32 bytes hold is reduced."""
    return int.from_bytes(encoded, "little") & (2**255 - 1) < P


def is_small_order(encoded: bytes) -> bool:
    """Whether 32 bytes with a reduced y are a point whose order divides 8, in whichever sign."""
    return encoded[:31] + bytes([encoded[31] & 0x7F]) in _SMALL_ORDER


def _decode(encoded: bytes) -> _Point | None:
    if len(encoded) != 32 or not is_canonical(encoded):
        return None
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * _ROOT_OF_MINUS_ONE % P
    if x * x % P != square or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _is_identity(point: _Point) -> bool:
    x, y, z, _ = point
    return x % P == 0 and (y - z) % P == 0


def _add(p: _Point, q: _Point) -> _Point:
    """Complete addition for a = -1 (RFC 8032, 5.1.4)."""
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * _D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _multiply(factor: int, point: _Point) -> _Point:
    product = _IDENTITY
    while factor:
        if factor & 1:
            product = _add(product, point)
        point = _add(point, point)
        factor >>= 1
    return product
