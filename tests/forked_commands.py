"""`zeropoint` as a shell command without its imports: each command is a fork of a process that has them.

    python -IS forked_commands.py SOCKET opt m.mlir > text

Arguments, folder, environment and open streams are those of the command, and so is the exit status. What Python does
before `zeropoint.__main__.run` is not repeated, apart from opening the streams: its tests need a process of their own.
Functions that the command does not call import what they need, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any


def is_open(stream: int) -> bool:
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


def asked(path: str, arguments: Sequence[str]) -> int:
    """The exit status of a command that the process at the socket `path` runs."""
    streams = [stream for stream in range(3) if is_open(stream)]  # a socket takes the number of a closed one
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.connect(path)
        request = json.dumps([arguments, os.getcwd(), dict(os.environ), streams])
        socket.send_fds(server, [request.encode()], streams)
        server.shutdown(socket.SHUT_WR)
        return int(server.recv(16))


def serve(path: str, prepared: Sequence[Sequence[str]]) -> None:
    """Run the commands that are asked for. Those in `prepared` ran before, so that their modules are imported."""
    from click.testing import CliRunner

    from zeropoint.cli import main

    for command in prepared:
        assert CliRunner().invoke(main, list(command)).exit_code == 0, command
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system takes note of their ends
        while True:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while more := connection.recv(1 << 20):
        data += more
    child = os.fork()
    if not child:
        connection.close()
        _become(*json.loads(data), streams)
    for stream in streams:
        os.close(stream)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(str(status if status >= 0 else 128 - status).encode())
    os._exit(0)


def _become(
    arguments: list[str], folder: str, environment: dict[str, str], open_: list[int], streams: list[int]
) -> None:
    """Run a command and end as its process does."""
    from zeropoint.__main__ import run

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number in range(3):
        with suppress(OSError):
            os.close(number)
    for number, stream in zip(open_, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = sys.__stdin__ = _opened(0, "r", "strict")
    sys.stdout = sys.__stdout__ = _opened(1, "w", "strict")
    sys.stderr = sys.__stderr__ = _opened(2, "w", "backslashreplace")
    sys.argv = ["zeropoint", *arguments]
    run()


def _opened(number: int, mode: str, errors: str) -> Any:
    """A standard stream as Python opens it; None if it is closed."""
    if not is_open(number):
        return None
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    return open(number, mode, encoding=encoding, errors=errors, closefd=False)


@contextmanager
def served(folder: str, prepared: Sequence[Sequence[str]]) -> Iterator[str]:
    """The shell command `zeropoint`, as long as its process runs. It begins in `folder`, where `prepared` runs."""
    import shlex
    import subprocess
    import tempfile

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as place:  # the name of a socket is short
        path = os.path.join(place, "commands")
        command = [sys.executable, __file__, "--serve", path, json.dumps(prepared)]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield shlex.join([sys.executable, "-IS", __file__, path])
        finally:
            process.terminate()
            process.communicate()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], json.loads(sys.argv[3]))
    else:
        sys.exit(asked(sys.argv[1], sys.argv[2:]))
