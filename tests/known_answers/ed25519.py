"""Ed25519: the answers of RFC 8032, and the curve in plain affine arithmetic that shares nothing with the product.

VECTORS         section 7.1: seed, public key, message, signature
torsion()       the eight points whose order divides 8
plus, times     the group, over points (x, y)
encoded         a point as 32 bytes; other forms of it with `extra` and `sign`
"""

import hashlib
from functools import cache

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ZERO = (0, 1)

VECTORS = {
    "test-1": (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246"
            "55141438e7a100b"
        ),
    ),
    "test-2": (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb"
            "00d291612bb0c00"
        ),
    ),
    "test-3": (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc"
            "027beceea1ec40a"
        ),
    ),
    "test-sha-abc": (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        (
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2"
            "a9ac94fa54ca49f"
        ),
        (
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad"
            "9bef1177331a704"
        ),
    ),
}


def inverse(value):
    return pow(value, -1, P)


def plus(p, q):
    """RFC 8032, 5.1: the addition law of the twisted Edwards curve with a = -1."""
    (x1, y1), (x2, y2) = p, q
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * inverse(1 + product) % P
    y = (y1 * y2 + x1 * x2) * inverse(1 - product) % P
    return x, y


def times(factor, point):
    product = ZERO
    for bit in bin(factor)[2:]:
        product = plus(product, product)
        if bit == "1":
            product = plus(product, point)
    return product


def with_y(y):
    """A point of that y, or None."""
    square = (y * y - 1) * inverse(D * y * y + 1) % P
    for root in (pow(square, (P + 3) // 8, P), pow(square, (P + 3) // 8, P) * pow(2, (P - 1) // 4, P) % P):
        if root * root % P == square:
            return root, y
    return None


def encoded(point, *, sign=None, extra=0):
    """32 bytes; `sign` in place of x's own lowest bit, `extra` times P above y (a form that is not canonical)."""
    x, y = point
    return (y + extra * P | (x & 1 if sign is None else sign) << 255).to_bytes(32, "little")


def decoded(data):
    number = int.from_bytes(data, "little")
    x, y = with_y(number & (2**255 - 1))
    return (x if x & 1 == number >> 255 else P - x), y


@cache
def torsion():
    """Multiples of a point of order 8, which is L times some point of the whole group."""
    for y in range(2, 1000):
        point = with_y(y)
        generator = times(L, point) if point else ZERO
        if times(4, generator) != ZERO:
            return [times(factor, generator) for factor in range(8)]
    raise AssertionError("no point of order 8")


BASE = decoded(bytes.fromhex("58" + "66" * 31))


def secret_scalar(seed):
    """RFC 8032, 5.1.5"""
    number = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    return number & (2**254 - 8) | 2**254


def challenge(r, public, message):
    return int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L
