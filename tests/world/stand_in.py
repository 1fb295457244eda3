"""Stands in a PATH for one of the product's programs, called as that is: what runs is forked (fork_server.py).

`programs.folder()` makes such a PATH. It ends as what was asked for has ended, passes signals on to it, and takes it
along when it is killed. What it imports is loaded or built in already: each module more would be half of its work.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main(server: str, program: str, passed_on: tuple[int, ...] = PASSED_ON) -> None:
    umask = os.umask(0o077)
    job = {
        "program": program,
        "arguments": sys.argv[1:],
        "folder": os.getcwd(),  # noqa: PTH109
        "environment": dict(os.environ),
        "umask": umask,
        "script": sys.argv[0],
    }
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked.connect(server)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    asked.sendmsg([marshal.dumps(job)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    pid = int(asked.recv(32))
    for number in passed_on:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    status = int(asked.recv(32))
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
