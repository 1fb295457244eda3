"""A planted secret is found wherever it stands, and what has none is let through."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import canonical
from snapshot.secrets import FORBIDDEN_NAMES, find_secret_in, find_shape, is_forbidden_name, shape_of
from tests.examples import examples
from tests.known_answers.hostile import TAILS, UNITS, repeated
from tests.known_answers.secret_shapes import HARMLESS, PUBLIC_JWK, SECRETS, jwt, part

PLAIN = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    st.sampled_from(sorted(HARMLESS.values())),
    st.sampled_from(["kty", "d", "@", "//", "=", ".", "g-", "x-", "a P", "PrivateKey"]),
)
NAMES = PLAIN.filter(lambda name: not is_forbidden_name(name) and name != "secret_ref")
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), PLAIN)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=10,
)


def found(value):
    return find_secret_in(canonical.parse(canonical.dumps(value)))


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def objects(value):
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)


def has_private_jwk(value):
    private = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
    return any("kty" in item and private & item.keys() for item in objects(value))


@given(VALUES)
def test_gates_let_through_what_the_detectors_would_find(value):
    """rules S52: the verdict on a section is that on its strings, one by one."""
    assert bool(found(value)) == (any(map(shape_of, strings(value))) or has_private_jwk(value))


SHAPES = st.sampled_from(sorted(SECRETS.values()))
BEFORE = st.sampled_from(["", " ", "a b ", '"', "\\", "é", "\n", "x=", "(", "\u2028", "://"])


@st.composite
def planted(draw):
    """A value that holds one secret: by name, by structure or by shape, at any depth."""
    secret = draw(
        st.one_of(
            st.tuples(BEFORE, SHAPES, PLAIN).map(lambda parts: f"{parts[0]}\n{parts[1]} {parts[2]}"),
            SHAPES.map(lambda text: {text: 1}),
            st.sampled_from(sorted(FORBIDDEN_NAMES)).map(lambda name: {name: "x"}),
            st.sampled_from(sorted(FORBIDDEN_NAMES)).map(lambda name: {f"a\u200b_{name}".title(): [[], [5]]}),
            st.just(PUBLIC_JWK | {"d": "x"}),
            st.just({"secret_ref": "vault:a", "more": 1}),
        )
    )
    for _ in range(draw(st.integers(0, 8))):
        beside = draw(VALUES)
        secret = draw(
            st.sampled_from([[secret], [beside, secret], [secret, beside], {"n": secret}, {"m": secret, "o": beside}])
        )
    return secret


@given(planted())
def test_a_planted_secret_is_found(value):
    """rules S52; threats X01, X11, D-54"""
    assert found(value)


PIECES = ["gh", "p_", "s_", "github_pat_", "glpat-", "xox", "b-", "dop", "_v1_", "dop_v1_", "ghp_", "AKIA", "_", "-"]
AROUND = ["a", "Z" * 16, "0" * 36, "0" * 64, "a1-" * 8, "\n", '"', "\\", " ", "é", "\u2028", "\U0001f600", *"ghlvx"]


@pytest.mark.parametrize("text", [*SECRETS.values(), *HARMLESS.values()], ids=[*SECRETS, *HARMLESS])
def test_gates_of_a_text_are_no_narrower_than_what_they_guard(text):
    """rules S52"""
    after = [before + text for before in ("", " ", "gh_", "_", "-", "é", "\n")]
    assert [find_shape(whole) for whole in after] == [shape_of(whole) for whole in after]


@given(st.lists(st.sampled_from([*PIECES, *AROUND]), max_size=9).map("".join), st.sampled_from(["n", "ghp_n", "x"]))
@examples(400)
def test_what_is_left_of_a_text_tells_where_a_token_may_be(text, name):
    """rules S52: tokens, halves of them, and what stands beside them; as a value, as a name, and as a file's text."""
    expected = shape_of(text)
    assert find_shape(text) == expected
    assert bool(found({name: [text]})) == (expected is not None)
    assert bool(found({text: name})) == (expected is not None or is_forbidden_name(text))


def test_a_text_of_no_encoding_is_looked_through():
    """format.md 11: a byte of a file that is not UTF-8, beside a token."""
    assert find_shape(f"\udcff {SECRETS['github-longer']} \udc80") == "provider_token"
    assert find_shape("\udcff gh_ gl- xx- _v_") is None


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-be"]
ENCODINGS += ["utf-16-le", "utf-32-le"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_header_in_another_encoding_is_judged_alike(encoding):
    """format.md 9: a string and the section that holds it get one verdict."""
    text = part('{"alg":"none"}'.encode(encoding)) + ".e30.c2ln"
    assert bool(shape_of(text)) == bool(found([text]))


@given(
    st.dictionaries(st.sampled_from(["alg", "typ", "kid", "x"]), st.sampled_from(["a", 1, None]), max_size=4), st.data()
)
def test_any_header(header, data):
    """rules S52"""
    indent, separators = data.draw(st.sampled_from([(None, (",", ":")), (None, (", ", ": ")), (1, None), (3, None)]))
    space = data.draw(st.text(" \t\r\n", max_size=4))
    token = jwt(space + json.dumps(header, indent=indent, separators=separators))
    assert bool(found({"t": token})) == ("alg" in header)


@pytest.mark.parametrize("size", [8 * 1024, 64 * 1024])
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_hostile_strings(unit, size):
    """threats E24: of the longest length that a string may have; benchmarks/secrets.py shows that it is linear."""
    for tail in TAILS:
        text = repeated(unit, size - 4) + tail
        assert (found({"a": [text]}) is None) == (shape_of(text) is None)


@pytest.mark.parametrize("size", [8 * 1024, 64 * 1024])
@pytest.mark.parametrize("unit", ["aB", "Ab", "AB", "a_", "_", "a1", "A1", "\u200b", "ﷺ", "é", "É", "a\u0301", "token"])
def test_hostile_names(unit, size):
    """threats E24, X08"""
    name = (unit * (size // len(unit.encode())))[: size // len(unit.encode())]
    assert not is_forbidden_name(name + "x")
    assert found({name + "_token": "x"} if len((name + "_token").encode()) <= 65536 else {"token": "x"})
