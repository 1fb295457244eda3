"""The quick yes about canonical JSON: never another verdict than the one that is given without it."""

import json
import subprocess
import sys
import zlib
from functools import cache
from types import ModuleType

import pytest
import rfc8785
from hypothesis import assume, example, given
from hypothesis import strategies as st

from snapshot import content, quick_parse
from snapshot.canonical import NotCanonical, number, parse, reread
from snapshot.limits import DEFAULT, Limits
from snapshot.quick_parse import DEEPEST, WORTH_IT, parse_quickly, reread_quickly
from tests.examples import FACTOR, examples
from tests.fuzz import seeds, targets
from tests.fuzz.targets import PLACES, lab, verdict
from tests.snapshot.test_canonical import CANONICAL, NOT_CANONICAL, ONE_MORE, TEN_VALUES
from tests.snapshot.test_canonical_properties import DOUBLES, VALUES, bears_large_integers, depth_of

orjson_is_there = pytest.mark.skipif(quick_parse._orjson() is None, reason="orjson: pip install 'holdfast[fast]'")


@pytest.fixture
def without_orjson(monkeypatch):
    """As on a machine that has none."""
    monkeypatch.setitem(sys.modules, "orjson", None)
    quick_parse._orjson.cache_clear()
    yield
    monkeypatch.undo()
    quick_parse._orjson.cache_clear()


def says_yes(data, limits=DEFAULT):
    """And then `parse` gives the same, to the type of each number; what it refuses raises."""
    quick = parse_quickly(data, limits)
    if quick is None:
        return False
    slow = parse(data, limits)
    assert repr(quick.value) == repr(slow.value)
    assert (quick.text, quick.names) == (slow.text, slow.names)
    assert sorted(map(repr, quick.objects)) == sorted(map(repr, slow.objects))
    return True


ORDINARY = {
    "routes": '{"a":{"enabled":true,"hops":["x","y"],"weight":0.37},"b":{"enabled":false,"hops":[],"weight":-12.5}}',
    "nested": "[" * (DEEPEST - 1) + '{"a":[]}'.replace("[]", "1") + "]" * (DEEPEST - 1),
    "other-languages": '{"é":"\\u0001\\n€","ﬃ":"\U0001f600"}',
    "largest-integers": "[-9007199254740991,9007199254740991]",
    "empty": '{"a":{},"b":[]}',
}


@orjson_is_there
@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_section_is_read_quickly(text):
    assert says_yes(text.encode())


@orjson_is_there
@pytest.mark.parametrize("text", CANONICAL.values(), ids=CANONICAL)
def test_what_is_canonical(text):
    """rules S13"""
    says_yes(text.encode())


@orjson_is_there
@pytest.mark.parametrize("data", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_what_is_not_canonical(data):
    """rules S13; threats E08, E10, E14, E25"""
    assert not says_yes(data)
    says_yes(b"[" + data + b"]")
    says_yes(b'{"a":' + data + b"}")


@orjson_is_there
@given(VALUES)
@example({"\U0001f600": 1, "\ufb33": 2})
@example({"\ufb33": {"\U0001f600": 1}})
@example([1e16, 1e-6, 0.00001, 5e-324, 123456789012345680.0])
def test_any_value(value):
    """rules S13; threats E15"""
    says_yes(rfc8785.dumps(value))


@given(VALUES)
@example("\ud800")
@example([1e16, -0.0, 5e-324, 9007199254740991])
def test_what_was_judged_is_read_again_the_same(value):
    """To the type of each number, also what orjson does not read."""
    data = json.dumps([value, "x" * WORTH_IT]).encode()
    assert repr(reread_quickly(data)) == repr(reread(data))


def test_what_was_judged_and_is_no_json_any_more():
    with pytest.raises(NotCanonical):
        reread_quickly(b"[" + b"x" * WORTH_IT)


WORDS = st.text(st.characters(max_codepoint=0xD7FF), max_size=6)


@orjson_is_there
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-99, 99), WORDS),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(WORDS, inner)),
    )
)
def test_nearly_all_values_are_read_quickly(value):
    assume(isinstance(value, (dict, list)) and depth_of(value) <= DEEPEST)
    assert says_yes(rfc8785.dumps(value))


@orjson_is_there
@given(DOUBLES)
@example(1.0)
@example(-0.0)
@example(1e-6)
@example(1e-7)
@example(1e16)
@examples(400)
def test_any_way_of_writing_a_float(value):
    """threats E10: Python's, orjson's, C's; none that RFC 8785 has not."""
    import orjson

    for token in (
        repr(value),
        orjson.dumps(value).decode(),
        number(value),
        f"{value:.17g}",
        f"{value:e}",
        f"{value:f}",
    ):
        for text in (f"[{token}]", f'{{"a":{token}}}', f"[[],{token}]"):
            says_yes(text.encode())


@orjson_is_there
@given(VALUES, st.randoms(use_true_random=False))
@examples(300)
def test_one_character_changed(value, choose):
    """rules S13"""
    text = list(rfc8785.dumps(value).decode())
    at = choose.randrange(len(text))
    text[at : at + choose.randint(0, 1)] = choose.choice(
        ['"', ",", ":", "[", "]", "{", "}", "\\", " ", "0", "-", ".", "e", "é"]
    )
    says_yes("".join(text).encode())


@orjson_is_there
@given(st.lists(st.sampled_from(['"', '":', ",", ":", "[", "]", "{", "}", "\\", " ", "a", "0", '{"a":']), max_size=14))
def test_any_sequence_of_tokens(tokens):
    """rules S13"""
    says_yes("".join(tokens).encode())


@orjson_is_there
@given(st.binary(max_size=40))
def test_any_bytes(data):
    """threats E25"""
    says_yes(data)


@orjson_is_there
@given(
    VALUES,
    st.builds(Limits, json_depth=st.integers(1, 4), json_values=st.integers(1, 90), string_bytes=st.integers(2, 99)),
)
@examples(300)
def test_within_any_limits(value, limits):
    """format.md 10; threats E13, E17"""
    assume(not bears_large_integers(value))
    says_yes(rfc8785.dumps(value), limits)


@orjson_is_there
@pytest.mark.parametrize("text", [*TEN_VALUES.values(), *ONE_MORE.values()])
def test_as_many_values_as_may_be(text):
    """threats E17"""
    says_yes(text.encode(), Limits(json_values=10, string_bytes=8))


@orjson_is_there
@pytest.mark.parametrize("size", [65_536, 65_537])
def test_as_large_as_a_string_may_be(size):
    """format.md 10; threats E17: beyond that a string may be too long, and orjson takes much memory."""
    assert says_yes(b'["%b"]' % (b"a" * (size - 4))) == (size == 65_536)
    assert not says_yes(b'["%b"]' % (b"a" * size))


@orjson_is_there
@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 1, 32, 33, 250, 254, 255, 1000, 1023, 1024, 1025, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_what_is_deep_is_not_written_by_orjson(monkeypatch, depth, opened, closed):
    """threats E13: where it closes many at once, orjson of Debian 13 writes beyond the end of its buffer."""
    import orjson

    written = []
    dumps = orjson.dumps
    monkeypatch.setattr(orjson, "dumps", lambda value, **options: written.append(value) or dumps(value, **options))
    for inner, more in ((b"0", 0), (b'""', 0), (b"[]", 1), (b"{}", 1)):
        data = opened * (depth - more) + inner + closed * (depth - more)
        assert says_yes(data) == bool(written) == (depth <= DEEPEST)
        written.clear()


@orjson_is_there
@pytest.mark.parametrize(("version", "used"), [("3.9.15", False), ("3.10.7", True), ("3.11.6rc1", True), ("4.0", True)])
def test_an_old_orjson_is_as_none(monkeypatch, version, used):
    """threats E13: it reads as deep as the text goes, until the stack ends."""
    import orjson

    monkeypatch.setattr(orjson, "__version__", version)
    quick_parse._orjson.cache_clear()
    try:
        assert (parse_quickly(b"{}") is not None) == used
    finally:
        quick_parse._orjson.cache_clear()


@pytest.mark.parametrize(
    "said", [{}, {"__version__": None}, {"__version__": "next"}], ids=["none", "no text", "a word"]
)
def test_what_does_not_say_which_version_it_is_is_as_none(monkeypatch, said):
    """A folder that an uninstalled orjson left behind is a module of that name, too; every section came to it."""
    left = ModuleType("orjson")
    vars(left).update(said)
    monkeypatch.setitem(sys.modules, "orjson", left)
    quick_parse._orjson.cache_clear()
    try:
        assert parse_quickly(b"{}") is None
    finally:
        monkeypatch.undo()
        quick_parse._orjson.cache_clear()


def test_without_orjson_all_is_read_as_ever(without_orjson):
    assert parse_quickly(b"{}") is None


def test_nothing_loads_orjson_before_the_first_section():
    """An agent's first answer does not wait for it."""
    code = "import sys, snapshot.verify, agent.served; sys.exit('orjson' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@orjson_is_there
def test_what_is_worth_it_is_read_quickly(monkeypatch):
    """By a node that verifies a document: its larger section alone."""
    met = []
    monkeypatch.setattr(content, "parse_quickly", lambda data, limits: met.append(data) or parse_quickly(data, limits))
    cluster = lab().cluster
    large = {f"route-{number}": {"hops": ["a", "b"], "port": number} for number in range(99)}
    document = cluster.snapshot({"large": large, "small": {"a": 1}})
    verdict(document.chunks(), document.envelope.kind)
    assert [len(data) >= content.WORTH_IT for data in met] == [True]


def is_of_this_run(seed):
    return zlib.crc32(seed) % 100 < 100 * FACTOR


@cache
def signed():
    """Every seed of the fuzzer as the section or patch of a signed document, and as much of them in a trust bundle as a
    run has examples: it is read as a section is, and judged at greater length. And sections with faults of which one
    comes first.
    """
    tried = [seed for seed in sorted(set(seeds.sections())) if seed[0] < 2 or (seed[0] == 2 and is_of_this_run(seed))]
    places = [(PLACES[seed[0]], seed[1:]) for seed in tried]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "_judge", found.append)  # not there: by `verdicts`
        for place, data in [*places, *((PLACES[0], text.encode()) for text in SEVERAL)]:
            place(data)
    return found


def verdicts():
    """What a node says of each, with each word of the reason."""
    return [verdict(document.chunks(), document.envelope.kind) for document in signed()]


SEVERAL = [
    json.dumps(value, sort_keys=True, separators=(",", ":"))
    for value in (
        {"a": {"organization_id": "x1"}, "b": [{"organization_id": "x2"}], "organization_id": "x3"},
        {"a": {"b": {"password": "p1"}}, "c": [{"token": "p2"}], "password": "p3"},
        {"a": {"secret_ref": 1}, "b": {"c": {"secret_ref": 2}}, "secret_ref": 3},
        {"a": {"d": "1", "kty": "OKP"}, "b": {"a": {"d": "2", "kty": "OKP"}}},
        {"a": {"query_grants": 1}, "b": {"user_directory": 2}},
    )
]


@orjson_is_there
def test_one_verdict_and_one_reason_with_and_without_orjson(monkeypatch):
    """rules S13, S88; threats D-57: of small sections too, which do not come there otherwise."""
    met = []
    monkeypatch.setattr(content, "WORTH_IT", 0)
    monkeypatch.setattr(content, "parse_quickly", lambda *words: met.append(parse_quickly(*words)) or met[-1])
    with_it = verdicts()
    assert any(met) and not all(met)
    monkeypatch.setitem(sys.modules, "orjson", None)
    quick_parse._orjson.cache_clear()
    met.clear()
    try:
        assert verdicts() == with_it
        assert met and not any(met)
    finally:
        monkeypatch.undo()
        quick_parse._orjson.cache_clear()
    assert len(with_it) > 1_500
    reasons = {outcome[1] for outcome in with_it if len(outcome) == 3}
    assert len(reasons) >= 4
