"""Raw secrets (format.md 9): each name, each shape, each structure; and what only looks like one."""

import pytest

from snapshot import canonical
from snapshot.secrets import FORBIDDEN_NAMES, find_secret, find_secret_in, is_forbidden_name, is_reference, shape_of
from tests.known_answers.secret_shapes import HARMLESS, PRIVATE_MEMBERS, PUBLIC_JWK, SECRETS

# format.md 9, word for word.
NAMES = """
password passwd passphrase pwd secret private_key secret_key api_key access_key psk pre_shared_key preshared_key
snmp_community token credentials
"""


def found(value):
    """In a section as it was signed."""
    return find_secret_in(canonical.parse(canonical.dumps(value)))


def test_the_names_are_the_formats():
    assert sorted(FORBIDDEN_NAMES) == sorted(NAMES.split())


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


FORMS = {
    "itself": lambda name: name,
    "capital": str.capitalize,
    "upper-case": str.upper,
    "dashes": lambda name: name.replace("_", "-"),
    "dots": lambda name: name.replace("_", "."),
    "spaces": lambda name: name.replace("_", " "),
    "camel": camel,
    "prefix": lambda name: f"vnc_{name}",
    "prefix-dash": lambda name: f"vnc-{name}",
    "prefix-dot": lambda name: f"vnc.{name}",
    "prefix-camel": lambda name: "vnc" + camel(f"x_{name}")[1:],
    "prefix-capitals": lambda name: "VNC" + camel(f"x_{name}")[1:],
    "prefix-digit": lambda name: "wpa2" + camel(f"x_{name}")[1:],
    "separators-around": lambda name: f"__{name}--",
    "full-width": lambda name: "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in name),
    "zero-width-inside": lambda name: name[:2] + "\u200b" + name[2:],
    "soft-hyphen-inside": lambda name: name[:2] + "\u00ad" + name[2:],
    "mark-first": lambda name: "\ufeff" + name,
    "direction-last": lambda name: name + "\u202e",
    "other-prefix": lambda name: f"клиент_{name}",
    "no-break-space": lambda name: name.replace("_", "\u00a0"),
}


@pytest.mark.parametrize("name", NAMES.split())
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forbidden_names(name, form):
    """rules S52; threats X03, X08, D-54"""
    assert is_forbidden_name(form(name))
    assert found({"a": [{form(name): "x"}]}).detector == "name"


GIVEN = [
    "vncPassword",
    "client-secret",
    "APIKey",
    "admin_password",
    "dbPassword",
    "Passwd",
    "SSHPrivateKey",
    "SNMPCommunity",
]
GIVEN += [
    "x.api.key",
    "WiFiPSK",
    "accessKey",
    "AWSSecretKey",
    "oauth2Token",
    "preSharedKey",
    "wpa2PreSharedKey",
    "TOKEN",
]


@pytest.mark.parametrize("name", GIVEN)
def test_names_that_end_with_one(name):
    """format.md 9; threats X03"""
    assert is_forbidden_name(name)


OTHER_NAMES = """
secret_name token_ttl_s tokens_per_s password_policy passwordless secrets tokens key public_key private public_keys
key_id secretary broken-psk2 mypassword tokenizer community snmp api_keys shared_key pass word pass_word access
key_access credential credentials_path PASSWORDS privatekey apikey pwd_max_age Pass-Word preShared_Keys token2 2token
"""


@pytest.mark.parametrize(
    "name", [*OTHER_NAMES.split(), "", "_", "пароль", "pass\u0301word", "tok\u0435n", "p\u0430ssword"]
)
def test_other_names(name):
    """format.md 9: compared as words, and the last ones count."""
    assert not is_forbidden_name(name)
    assert found({name: "x"}) is None


RAW = [
    "x",
    " ",
    "0",
    0,
    1,
    -1.5,
    {"a": 1},
    {"user": "a"},
    ["x"],
    [None, "x"],
    [[["x"]]],
    [{"a": None}],
    [0],
    "secret_ref",
]
NOT_RAW = [None, True, False, "", [], [None, "", False], [[], [""]]]


@pytest.mark.parametrize("value", RAW, ids=repr)
def test_what_is_raw_under_a_forbidden_name(value):
    """rules S23; threats X03"""
    assert found({"password": value}).detector == "name"
    assert found([{"deep": {"password": value}}]).detector == "name"


@pytest.mark.parametrize("value", NOT_RAW, ids=repr)
def test_what_is_not(value):
    """threats D-54"""
    assert found({"password": value}) is None


REFERENCES = ["vault:a/b", "file:/etc/x", "env:NAME", "vault:a:b c\n", "k8s-1.x:é", "https://host/path"]


@pytest.mark.parametrize("text", REFERENCES)
def test_references(text):
    """rules S19; threats X03, X09"""
    reference = {"secret_ref": text}
    assert is_reference(reference)
    for value in (reference, [reference], [[reference, None]], {"inner": reference}):
        assert found({"settings": value}) is None
    assert found({"password": reference, "tokens": [reference]}) is None
    assert found({"password": [reference, ""]}) is None


NO_REFERENCES = {
    "more-members": {"secret_ref": "vault:a", "version": 1},
    "a-password-beside": {"secret_ref": "vault:a", "password": "x"},
    "number": {"secret_ref": 5},
    "null": {"secret_ref": None},
    "object": {"secret_ref": {"a": "b"}},
    "array": {"secret_ref": ["vault:a"]},
    "empty": {"secret_ref": ""},
    "no-resolver": {"secret_ref": ":path"},
    "no-path": {"secret_ref": "vault:"},
    "no-colon": {"secret_ref": "vault"},
}


@pytest.mark.parametrize("value", NO_REFERENCES.values(), ids=NO_REFERENCES)
def test_no_references(value):
    """format.md 9: such a member is itself a raw secret."""
    assert not is_reference(value)
    assert found(value) is not None
    assert found({"password": value}) is not None
    assert found([[{"any": value}]]) is not None


def test_a_reference_may_not_hold_a_shape():
    assert found({"password": {"secret_ref": "vault:" + SECRETS["aws-long-lived"]}}).detector == "provider_token"


def alone(text):
    """Values that hold this string, as a value or as a name."""
    return [text, [text], {"a": text}, {"a": {"b": ["x", {"c": [None, text]}]}}, {text: None}, [[{"a": {text: []}}]]]


def inside(text):
    """Values that hold it as a part of a longer string."""
    return [
        [f"before {text}"],
        [f"{text} after"],
        [f'"{text}"'],
        [f"é\n{text}"],
        {"a": f"({text})"},
        {f"\\ {text}": None},
    ]


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_shapes(text):
    """rules S52; threats X01, X05, X06: anywhere in a string, also a member's name."""
    detector = shape_of(text)
    # A line of WireGuard's has a beginning.
    for value in alone(text) if detector == "wireguard_key" else alone(text) + inside(text):
        assert found(value).detector == detector


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_shape(text):
    """rules S52; threats X09"""
    assert shape_of(text) is None
    assert not any(map(found, alone(text)))


def test_harmless_texts_side_by_side():
    """What stands in two strings is not one."""
    assert found(list(HARMLESS.values())) is None
    for cut in range(1, 20):
        assert found([SECRETS["aws-long-lived"][:cut], SECRETS["aws-long-lived"][cut:]]) is None


@pytest.mark.parametrize("member", PRIVATE_MEMBERS)
def test_private_jwk(member):
    """threats X02"""
    assert found(PUBLIC_JWK) is None
    assert found([{"keys": [PUBLIC_JWK, PUBLIC_JWK | {member: "x"}]}]).detector == "private_jwk"
    assert found({member: "x"}) is None, "without kty it is any name"


def test_the_pointer_leads_there():
    """threats D-55"""
    value = {"b": [{}, {"x/y": {"~": {"vncPassword": "hunter2"}}}]}
    assert found(value).pointer == "/b/1/x~1y/~0/vncPassword"
    assert found({"a": [1, {"t": SECRETS["jwt"]}]}).pointer == "/a/1/t"
    assert found({"a": {"secret_ref": "x"}}).pointer == "/a/secret_ref"
    assert found({"a": [PUBLIC_JWK | {"d": "x"}]}).pointer == "/a/0"


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_finding_never_repeats_the_secret(text):
    """threats D-55: also where it is a name on the way."""
    for value in (
        {text: 1},
        {"a": text},
        {text: {"password": "x"}},
        {text: [{"secret_ref": "x"}]},
        {"b": {text: {"c": text}}},
    ):
        finding = found(value)
        assert text.replace("~", "~0").replace("/", "~1") not in f"{finding.pointer} {finding.detector}"


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_value_that_is_about_to_be_published(text):
    assert find_secret({"a": [text]}) == found({"a": [text]})
    assert find_secret({"a": ["x"]}) is None


def test_a_jwt_behind_a_word_is_found():
    """format.md 9: by shape, anywhere in a string; rules S52"""
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"
    assert shape_of(f"session_{token}") == shape_of(f"x{token}") == "jwt"


@pytest.mark.parametrize("name", ["ÄÖPASSWORD", "密Password", "my\tpassword"])
def test_what_the_format_does_not_split_is_one_word(name):
    """format.md 9: camel case is between a lower-case letter or digit and a capital; a tab is no separator."""
    assert not is_forbidden_name(name)
