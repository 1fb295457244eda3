"""Canonical JSON: the RFC's own examples, each way of not being canonical, and each limit at its edge."""

import json
import struct

import pytest

from snapshot.canonical import NotCanonical, dumps, loads, number, parse, reread
from snapshot.limits import Limits

# RFC 8785, appendix B: the bits of a double, and its text.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


def double(bits):
    return struct.unpack(">d", bytes.fromhex(bits))[0]


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_of_rfc_8785(bits, text):
    assert number(double(bits)) == text


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_no_number_of_rfc_8785(bits):
    with pytest.raises(ValueError, match="not finite"):
        dumps([double(bits)])


def test_example_of_rfc_8785_3_2_2():
    value = json.loads(
        r'{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
        r'"string": "\u20ac$\u000F\u000aA' + r"'" + r'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}'
    )
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA' + "'" + 'B\\"\\\\\\\\\\"/"}'
    )  # fmt: skip
    assert dumps(value).decode() == expected
    assert loads(expected.encode()) == value


def test_example_of_rfc_8785_3_2_3():
    names = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    data = dumps(dict.fromkeys(reversed(names), 0))
    assert list(json.loads(data)) == names
    assert list(loads(data)) == names


CANONICAL = {
    "empty-object": "{}",
    "empty-array": "[]",
    "empty-string": '""',
    "scalars": '[null,true,false,0,-1,1.5,""]',
    "largest-integers": "[-9007199254740991,9007199254740991]",
    "large-double": "[1e+21,-1.5e+300,5e-324]",
    "control": r'"\u0000\u0001\b\t\n\u000b\f\r\u001f"',
    "delete-and-nel": '"\x7f\x85\u2028\u2029"',
    "quotes-and-backslashes": r'["\"","\\","\\\"","\\\\",":\"",":","\":",": \""]',
    "punctuation-in-strings": r'{"\":":",","[":"]","a, b":" { ","}":"  "}',
    "utf-16-order": '{"\U0001f600":1,"\ufb33":2}',
    "empty-name": '{"":0,"a":1}',
    "look-alike-names": '{"e\u0301":2,"\u00e9":1}',
    "names-of-other-languages": '{"__class__":1,"__proto__":2,"constructor":3}',
}


@pytest.mark.parametrize("text", CANONICAL.values(), ids=CANONICAL)
def test_canonical(text):
    """rules S13; threats E15, E16: names are names, and never merged."""
    data = text.encode()
    parsed = parse(data)
    assert parsed.value == json.loads(text)
    assert dumps(parsed.value) == data


NOT_CANONICAL = {
    "nothing": b"",
    "space-first": b" {}",
    "space-last": b"{} ",
    "newline-last": b"{}\n",
    "space-after-colon": b'{"a": 1}',
    "space-after-comma": b"[1, 2]",
    "space-between-strings": b'["a", "b"]',
    "space-in-empty": b"[ ]",
    "tab": b"[\t1]",
    "return": b"[1,\r2]",
    "byte-order-mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"a":1}'.encode("utf-16-le"),
    "duplicate": b'{"a":1,"a":2}',
    "duplicate-same": b'{"a":1,"a":1}',
    "duplicate-deep": b'[{"a":{"b":1,"b":1}}]',
    "duplicate-of-an-object": b'{"a":{"b":1},"a":2}',
    "duplicate-with-quotes": rb'{"a":"\":","a":"\":"}',
    "duplicate-with-colons": b'{"a":":","a":":"}',
    "duplicate-by-escape": b'{"a":1,"\\u0061":1}',
    "order": b'{"b":1,"a":2}',
    "order-by-code-point": '{"\ufb33":2,"\U0001f600":1}'.encode(),
    "order-deep": b'[[{"b":1,"a":2}]]',
    "escaped-letter": rb'"\u0041"',
    "escaped-slash": rb'"\/"',
    "upper-case-escape": rb'"\u000B"',
    "long-escape-of-newline": rb'"\u000a"',
    "escaped-quote": rb'"\u0022"',
    "escaped-euro": rb'"\u20ac"',
    "escaped-pair": rb'"\ud83d\ude00"',
    "lone-surrogate": rb'"\ud800"',
    "encoded-surrogate": b'"\xed\xa0\x80"',
    "overlong": b'"\xc0\xaf"',
    "not-utf-8": b'"\xff"',
    "raw-control": b'"\x01"',
    "raw-newline": b'"\n"',
    "unknown-escape": rb'"\x41"',
    "cut-escape": b'"\\u00"',
    "cut-string": b'"abc',
    "cut-object": b'{"a":1',
    "float-one": b"[1.0]",
    "trailing-zero": b"[1.50]",
    "exponent": b"[1e2]",
    "upper-case-exponent": b"[1E+21]",
    "no-plus": b"[1e21]",
    "minus-zero": b"[-0]",
    "minus-zero-float": b"[-0.0]",
    "leading-zero": b"[01]",
    "plus": b"[+1]",
    "bare-point": b"[.5]",
    "too-many-digits": b"[0.1000000000000000055]",
    "rounds-to-zero": b"[1e-400]",
    "infinite": b"[1e+400]",
    "nan": b"[NaN]",
    "infinity": b"[-Infinity]",
    "2^53": b"[9007199254740992]",
    "-2^53": b"[-9007199254740992]",
    "2^53+1": b"[9007199254740993]",
    "1e20-as-an-integer": b"[100000000000000000000]",
    "5000-digits": b"[" + b"9" * 5000 + b"]",
    "megabyte-of-digits": b"9" * 1_000_000,
    "megabyte-of-decimals": b"0." + b"1" * 1_000_000,
    "trailing-comma": b"[1,]",
    "comment": b"[1]//",
    "two-values": b"1 2",
    "single-quotes": b"['a']",
    "closes-otherwise": b"[}",
    "word": b"nul",
}


def test_what_was_judged_is_read_again_alike():
    for text in ('{"a":[1,1.5,null,true,"\\u0001é"],"b":{}}', "[]", "7", '"a"', "-1e-7"):
        assert reread(text.encode()) == loads(text.encode())
    for bad in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(NotCanonical):
            reread(bad)


@pytest.mark.parametrize("data", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_not_canonical(data):
    """rules S13; threats E08, E10, E14, E25: refused, and never another exception."""
    with pytest.raises(NotCanonical) as refusal:
        parse(data)
    assert len(str(refusal.value)) < 100, "it never quotes the input"


@pytest.mark.parametrize("depth", [32, 33, 990, 10_000, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_depth(depth, opened, closed):
    """threats E13: open containers, the outermost included; an empty one counts as any other."""
    for inner, more in ((b"0", 0), (b"[]", 1), (b"{}", 1)):
        data = opened * (depth - more) + inner + closed * (depth - more)
        if depth == 32:
            assert parse(data)
        else:
            with pytest.raises(NotCanonical, match="deep"):
                parse(data)


def test_depth_counts_no_brackets_inside_strings():
    text = "[" * 31 + r'["[[[[{{{{","\"[[[\"","]]]\\"]' + "]" * 31
    assert parse(text.encode())


SMALL = Limits(json_values=10, string_bytes=8)
# 10 values each, the outermost included; member names are none.
TEN_VALUES = {
    "scalars": "[1,2,3,4,5,6,7,8,9]",
    "members": '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}',
    "commas-in-strings": '[",,,,",2,3,4,5,6,7,8,9]',
    "commas-in-names": '{",":1,",,":2,",,,":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}',
    "nested": "[[1],[2],[3],[4],5]",
    "empty-arrays": "[[],[],[],[],[],[],[],[],[]]",
    "empty-objects": "[{},{},{},{},{},{},{},{},{}]",
    "empty-in-members": '{"a":{},"b":[],"c":"","d":[[],{},{},[]],"e":null}',
}
ONE_MORE = {name: f"[{text}]" for name, text in TEN_VALUES.items()}


@pytest.mark.parametrize("text", TEN_VALUES.values(), ids=TEN_VALUES)
def test_as_many_values_as_may_be(text):
    assert parse(text.encode(), SMALL)


@pytest.mark.parametrize("text", ONE_MORE.values(), ids=ONE_MORE)
def test_one_value_too_many(text):
    """threats E17"""
    with pytest.raises(NotCanonical, match="values"):
        parse(text.encode(), SMALL)


STRINGS = ['["{}"]', '{{"{}":1}}', '{{"a":["{}"]}}']


@pytest.mark.parametrize("place", STRINGS, ids=["value", "name", "deep"])
@pytest.mark.parametrize("string", ["a" * 8, "é" * 4, "\U0001f600" * 2, r"\\" * 8, r"\"" * 8, r"\u0000" * 8], ids=repr)
def test_the_longest_string_in_bytes(place, string):
    """format.md 10: measured in UTF-8 bytes of the string itself, member names included."""
    assert parse(place.format(string).encode(), SMALL)
    with pytest.raises(NotCanonical, match="string"):
        parse(place.format(string + "a").encode(), SMALL)


def test_the_limits_as_they_are():
    """format.md 10"""
    assert parse(b'"%b"' % (b"a" * 65536))
    assert parse(b"[%b0]" % (b"0," * 199_998))
    with pytest.raises(NotCanonical, match="string"):
        parse(b'"%b"' % (b"a" * 65537))
    with pytest.raises(NotCanonical, match="values"):
        parse(b"[%b0]" % (b"0," * 199_999))


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), {1: 2}, {"a": {1}}, b"a", object, "\ud800", {"\ud800": 1}], ids=repr
)
def test_what_has_no_canonical_form(value):
    with pytest.raises(ValueError, match=r"."):
        dumps(value)
