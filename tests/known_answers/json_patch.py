"""RFC 6902, appendix A: base, patch, result; `REFUSED` where our subset (format.md 5) or the RFC has none."""

REFUSED = object()

EXAMPLES = {
    "A.1-adding-a-member": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
    ),
    "A.2-adding-an-element": (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "A.3-removing-a-member": ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    "A.4-removing-an-element": (
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    "A.5-replacing-a-value": (
        {"baz": "qux", "foo": "bar"},
        [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"},
    ),
    "A.6-moving-a-value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        REFUSED,
    ),
    "A.7-moving-an-element": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        REFUSED,
    ),
    "A.8-testing-success": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "A.9-testing-error": ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], REFUSED),
    "A.10-adding-a-nested-object": (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    # The RFC ignores members that it does not know; format.md 5 refuses them.
    "A.11-ignoring-unknown-members": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        REFUSED,
    ),
    "A.12-adding-to-a-target-that-is-not": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz/bat", "value": "qux"}],
        REFUSED,
    ),
    # A.13, a member `op` given twice, is no canonical JSON.
    "A.14-order-of-escapes": ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    "A.15-comparing-strings-and-numbers": (
        {"/": 9, "~1": 10},
        [{"op": "test", "path": "/~01", "value": "10"}],
        REFUSED,
    ),
    "A.16-adding-an-array-value": (
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
}
