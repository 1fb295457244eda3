"""A JSON object as environment variables of a program. Pure.

    variables(value, environment)    what is added to the environment

Names are taken as they stand. Text stays text; other values are written as JSON; null is no variable. What the process
has already is left as it is: the unit's own `Environment=` has the last word. What would make the loader or a shell run
something else is refused: who may write settings may not choose the program.
"""

import re
from collections.abc import Mapping

from snapshot import canonical

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LOADER = re.compile(
    r"LD_.*|DYLD_.*|GCONV_PATH|GLIBC_TUNABLES|PATH|IFS|ENV|BASH_ENV|BASH_FUNC_.*|SHELLOPTS|PS4|ZDOTDIR|"
    r"PYTHON.*|PERL5.*|PERLLIB|RUBY(LIB|OPT)|GEM_(HOME|PATH)|BUNDLE_(GEMFILE|PATH)|NODE_(OPTIONS|PATH)|"
    r"JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|LUA_C?(INIT|PATH).*|PHPRC|PHP_INI_SCAN_DIR|"
    r"DOTNET_STARTUP_HOOKS|(CORECLR|COR)_PROFILER.*|ERL_(A|Z)?FLAGS|ERL_LIBS|"
    r"GIT_(SSH.*|CONFIG.*|EXEC_PATH|ASKPASS|PROXY_COMMAND)|OPENSSL_(CONF|CONF_INCLUDE|MODULES|ENGINES)|"
    r"CREDENTIALS_DIRECTORY|RUNTIME_DIRECTORY|NOTIFY_SOCKET|LISTEN_.*|HOLDFAST_(SOCKET|FILES|CONFIG_FILE)"
)


class NotVariablesError(ValueError):
    """What cannot be environment variables; the text names the member and the remedy, and no value."""


def variables(value: object, environment: Mapping[str, str]) -> dict[str, str]:
    """NotVariablesError."""
    if not isinstance(value, dict):
        raise NotVariablesError("these settings are no object of names and values: take them as a file (--file NAME)")
    found: dict[str, str] = {}
    for name, member in value.items():
        if not _NAME.fullmatch(name):
            raise NotVariablesError(f"{name!r} is no name of an environment variable: rename it, or use --file NAME")
        if _LOADER.fullmatch(name):
            raise NotVariablesError(f"{name} decides what is run, and is the unit's to set: rename it")
        if member is not None and name not in environment:
            found[name] = _text(name, member)
    return found


def _text(name: str, member: object) -> str:
    text = member if isinstance(member, str) else canonical.dumps(member).decode()
    if "\0" in text:
        raise NotVariablesError(f"{name} has a NUL character, which no environment variable can have: use --file NAME")
    return text
