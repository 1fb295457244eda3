"""Commands of the operator's: real processes, ended in time, with nothing of them left behind."""

import os
import sys
from pathlib import Path

import trio

from agent.base.commands import OUTPUT_BYTES, run_command
from tests.fakes.watched import until_ended, until_there


async def python(code: str, timeout_s: float = 20.0, **more: object):
    return await run_command([sys.executable, "-c", code], timeout_s=timeout_s, **more)


async def test_what_came_of_it():
    good = await python("print('hello\\nthere')")
    assert (good.ok, good.exit_code, str(good)) == (True, 0, "exit 0: hello there")
    bad = await python("import sys; print('no', file=sys.stderr); sys.exit(3)")
    assert (bad.ok, str(bad)) == (False, "exit 3: no")
    killed = await python("import os; os.kill(os.getpid(), 9)")
    assert (killed.ok, str(killed)) == (False, "ended by SIGKILL")


async def test_a_secret_that_it_says_is_not_passed_on():
    """threats D-55"""
    named = await python("print('cannot connect: db_password=hunter2 user=web, token: abc')")
    assert str(named) == "exit 0: cannot connect: db_password=[withheld] user=web, token: [withheld]"
    shaped = await python("print('-----BEGIN PRIVATE KEY-----\\nMIIabc'); raise SystemExit(2)")
    assert str(shaped) == "exit 2: [withheld: it holds a secret, pem_private_key]"
    plain = await python("print('nginx: unexpected \\'}\\' in /etc/nginx.conf:12, expected é')")
    assert str(plain) == r"exit 0: nginx: unexpected '}' in /etc/nginx.conf:12, expected \xe9"


async def test_what_cannot_be_run(tmp_path):
    missing = await run_command([str(tmp_path / "nothing")], timeout_s=1)
    assert not missing.ok
    assert "No such file" in str(missing)
    (tmp_path / "plain").write_text("")
    assert not (await run_command([str(tmp_path / "plain")], timeout_s=1)).ok


async def test_it_is_ended_at_its_limit_with_all_that_it_started(tmp_path, mock_clock):
    mock_clock.rate = 1.0  # as the processes' own; the limit is over once both have begun
    pid_file, outcomes = tmp_path / "pid", []
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('begun', flush=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )

    async def limited() -> None:
        outcomes.append(await python(code, 300))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(limited)
        await until_there(pid_file)
        mock_clock.jump(300)
    (outcome,) = outcomes
    assert (outcome.ok, outcome.timed_out, str(outcome)) == (False, True, "did not end in time: begun")
    await until_ended(int(pid_file.read_text()))  # it has its SIGKILL; the kernel takes its time


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_child_that_holds_the_pipe_holds_nobody_up():
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    with trio.fail_after(60):
        assert (await python(code, 120)).ok


async def test_its_output_is_bounded_and_escaped():
    outcome = await python(f"import sys; sys.stdout.write('\\x1b[31m' + 'x' * {OUTPUT_BYTES * 100})")
    assert outcome.ok
    assert len(outcome.output) <= 256
    assert outcome.output.startswith("\\x1b[31mxxx")


async def test_it_sees_a_small_environment(monkeypatch, tmp_path):
    """It is given nothing of the agent's: no credentials, no notify socket, no descriptors."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/somewhere")
    monkeypatch.setenv("NOTIFY_SOCKET", "/somewhere")
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    code = f"import os; print(*sorted(set(os.environ) - {{'LC_CTYPE'}}), os.path.exists('/proc/self/fd/{writing}'))"
    outcome = await python(code, folder=tmp_path, variables={"HOLDFAST_SERVICE": "web"})
    assert outcome.output == "HOLDFAST_SERVICE LANG PATH False"
    assert (await python("import os; print(os.getcwd())", folder=tmp_path)).output == str(tmp_path)[:4096]
    os.close(reading)
    os.close(writing)


async def test_cancelled_it_is_gone(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(python, code)
        await until_there(pid_file)
        nursery.cancel_scope.cancel()
    assert not lives(pid_file.read_text())
