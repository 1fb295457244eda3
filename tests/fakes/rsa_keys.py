"""RSA keys that belong to nobody, by their primes: to search for some takes a quarter of a second of work.

That the product finds primes of its own is claimed by tests/coordinator/test_keystore.py.
"""

from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa

_PRIMES = {
    (1024, 65537): (
        "e9b60a2f8e71025af66d870d1a5a51ed66dc94af9a0770be94e595e25f02b611c3a74aa7a587fb2292ef5a6420a947530e98f2eb75591f739cf92aae3ce32527",
        "cbd422d51eb3ea1d14056a734da60a0572060be502044b6e1548a82bcf7fada81694f22a5017c0ae2fd91d09b4dfcdc6585a6ed27395f40d1ae9fdcf6eb108ed",
    ),
    (2048, 65537): (
        (
            "f5a6fca23235cd35ae017cf0c2be2ad866afe98950d59ed4d8de95b0e3dc82af7336a90e1929bdbc0e84f809d4136eb3b24f"
            "c15dfa2afebe54cd2b0c64f50419942697845a73c66d48a01310339eb046bbf219f3857887251013fefc2e22d90e7337560b"
            "cba8ac04a2334ec82c5d7c29431371b0a8f21c9f107d8c33e54fe325"
        ),
        (
            "d2223750d09298dd1791bdd1a647bc38c832bf6c412d8d9bf398e04d0616a9d23374931c53d5fc34cf45c5e194c7690c4d30"
            "73a6ddecea0eb62e3b584463a8bfe17344bdcf36b0ed7bb755ef07589f13d18b1bb6256f57a9a3bf0f3dedb160644bf6f623"
            "9f92058056b96afdffe73b666eec4ee827f11693a00403defe0580cf"
        ),
    ),
    (3072, 65537): (
        (
            "de7252ad745c094a4d1ee4ee663da4b76ab40fbfd65b055f0b972f6bb3d869a5431d3a646f6bd4166443701d8b35b2189bfd"
            "4410f5e30ded87c0fec8c84b8bcb79eab94f0d96a06d55ffcbfa22f9bf76a51cc3bc2ba4047e33ccc45f5dcb23b03db7582d"
            "6ce38870e7e74a3b7baa2c33b967e8dec0cfc9ce698c469c42413c1223f7837c6889e44fd29ffd18efa500afeb459e284782"
            "f8c533c744ea5e52f795a7eab1ad27a7e909283b504f826c73e89e9e0738127c08ed4790bdc6f99168bf"
        ),
        (
            "c0eca1504093c9a11be335b3f06d2e2e6d2c04f4c65d22eddc1bf6ed230033570fc9c7b5d3ea0d4fbeb3920a7bf7c4eb8afe"
            "58f4563c5ca529ee860a22c470bbe3d3b99b152293f3bd72b684e8f6153c133c441350556c5d9437c8870ac42fd3bd5cf6bf"
            "7e45bda76ab7bfae34eb79f6c590e375eab1aae88c7a879766b26e740a6de21b4f43d2d3c89a459b383cdd01c75053aee08c"
            "b13ce5bcb59fda530e085030e818bd14edc7dc646d511fc58526b2840ea117fbebeb435a652c118ecf13"
        ),
    ),
    (4096, 65537): (
        (
            "f66a5f3e41e34048f9f1e660048147f2b8de4684695d4863876dd318401b0f9ebf44f08c2d14f83d3d8ec92a32fabe16ab18"
            "335b95bf1dbb039ad61c4b6fac8051216a298488d30756afe796d9d80b8864f27b31b2230bc15c588fcafd7c00aee4b244ea"
            "68c80e0b65835861a13eebff293d3b80d4bc789a2ddc85731de1b230b1cbe87c644d2a224bd4fa01b18389356e155556a440"
            "bea647e60b42fe47c963f881f323973b469987fd169e30d698bf8342c361e18c6b0f776eee1c76ffabe5b196f2a802e1e151"
            "3d352ad754bcdb0b8617efd2c87903e2f65df6f1b98b03828268f9712386379ad0150ecd97b5f9409c541c0ca8f290a7c59b"
            "bb9b2c461e07"
        ),
        (
            "ea3fd18429b8e4a9ce61931ea1c67ec7b3bf872147e44bb8e9636d07f70c107e96d845fe4916fcdb7debfb187c3cf0ca5160"
            "4bb0a6cf017b8f3f273eafc4eb07982de7ec45d075c9ca5f9eb156266b3d2a1fc3d6c2127e06c66d06afe75886964e7c06ae"
            "7463f1419aeb8020bfa86beae0915e683b5f7df93f23f0e93b4b7d496acec92a9433e560b6ef243892f0ee684ad145036432"
            "89a413f05b477794773000d2c78dd675ea162fc40611f2f12afd0277abddb27430281b8391f198a30af2093cc0d4b77341aa"
            "592851123e1deaf61b7b5463f6ab793ee4f80909b3c61944abbd74b8b88e710d075b7d04025d1de508684fb17c67ce70dd04"
            "9ad795c8242d"
        ),
    ),
    (3072, 3): (
        (
            "f74678fd6e5cc4cab8efd03ac8ce47b2ece917de0177448a7265ff5c2707bba2ea586b3c84a25bbbcc72fcb238c716877dbf"
            "d37f57aa650c4f22179df90e0c32fc6d0cdc32d482e8b21226c160bd44450be7937df1a6fcdbe077940f781a75b2b6d5fad1"
            "daec8ec83a471f71ed31e810e537716857b7fae13717bf143819497a58e7e28f6a1e3ec7510087daba16d4dabe87f75f9d5b"
            "1245fe699386a829313dfa0e4aef208084317d2e2a54ceb107a55ce8aaa5b5de0fd73885038534c45ead"
        ),
        (
            "e5f414f9b1f6502a5c93db73390b81c2c178880e418d4e0f62813f52fd28b0c574d3c6925f32d9479dd9c48d863a9a5883a1"
            "f8bb4869e6cf7f78fa69b512b69e7fe7f80081efa49bdb2d62d6ab90f3616e76a825dfbc810dad83cddc2cf1eb9d7e64ec3f"
            "1ac2ac9b65bde65dece78b80c26667540443aa72366df632ec17a7bc5aac2f697a383b59c70dadbc30096de6746d4d0e06ab"
            "3d7e16dc810b41c2ca4076d2ec65345195d6318e930a65924982e3b9b623f5c4375f1ff0c1b945ce3ab3"
        ),
    ),
}


@cache
def key(bits: int, exponent: int = 65_537) -> rsa.RSAPrivateKey:
    """The one of this size and exponent; KeyError where there is none."""
    p, q = (int(prime, 16) for prime in _PRIMES[bits, exponent])
    d = pow(exponent, -1, (p - 1) * (q - 1))
    exponents = d, rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    numbers = rsa.RSAPrivateNumbers(p, q, *exponents, rsa.RSAPublicNumbers(exponent, p * q))
    try:
        return numbers.private_key(
            unsafe_skip_rsa_key_validation=True
        )  # whether they are primes takes as long as half a search
    except TypeError:  # Debian 12's knows no such word
        return numbers.private_key()
