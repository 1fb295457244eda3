"""What systemd hands over."""

from agent.config.credentials import NODE_KEY, credential, credentials_directory


def test_a_credential_may_be_missing(tmp_path):
    """rules K14, L40"""
    assert credentials_directory({}) is None
    assert credential(NODE_KEY, {}) is None
    assert credential(NODE_KEY, {"CREDENTIALS_DIRECTORY": ""}) is None
    given = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert credential(NODE_KEY, given) is None
    (tmp_path / "holdfast.node-key").touch()
    assert credential(NODE_KEY, given) == tmp_path / "holdfast.node-key"
