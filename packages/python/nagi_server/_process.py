"""Starts and stops the server's process.

- Its standard input is a pipe whose other end only this process has (and what it forks without exec): the kernel
  closes it with this process, and the server stops (`--stopAtEndOfInput`). A signal at the parent's death would
  follow the thread that started the server instead.
- Its log is a file without a name, so nothing remains, and the server never waits for somebody who reads a pipe.
- It selects its port itself, and its log says which: no other process can take it in between.
"""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import weakref
from typing import IO, List, Optional, Sequence, Union

SET_NAME = "rs0"
# Options that would take from us what we need: the log, the address, the name of the set, and the process itself.
_REFUSED = (
    "--logpath", "--syslog", "--fork", "--shutdown", "--repair", "--config", "-f", "--replSet", "--bind_ip",
    "--bind_ip_all",
)
_WAITING_FOR_CONNECTIONS = 23016
_TAIL_LINES = 20
# The log of a start has some kilobytes. What is written to a full folder is lost, and with it the server's port.
_LOG_RESERVE = 256 << 10


class StartError(RuntimeError):
    """The server did not start; the message has the last lines of its log."""


def binary_path() -> str:
    """The path of the server's program, for other tools that start it."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "nagi")


def start(
    *,
    replset: Union[bool, str] = True,
    port: int = 0,
    cache_mb: Optional[float] = None,
    args: Sequence[str] = (),
    timeout: float = 30,
    binary: Optional[str] = None,
) -> Server:
    """Starts a server on 127.0.0.1 and returns a `Server` that accepts connections.

    replset   a replica set of one, with transactions and change streams; its name if it is a text ("rs0").
              False: a standalone server.
    port      0 selects a free port.
    cache_mb  the most data in MiB; by default half of the machine's memory beyond one GiB.
    args      further options of `nagi serve`. One that is given here replaces ours.
    timeout   seconds to wait for the start.
    binary    another program than the one of this package.

    Raises StartError if the server does not start.
    """
    command = _command(binary or binary_path(), replset, port, cache_mb, list(map(str, args)))
    with _open_log() as log:
        try:
            # A session of its own, so that Ctrl-C in a terminal ends the tests first and then the server.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        except OSError as error:
            raise StartError("%s cannot be started: %s" % (command[0], error)) from error
        server = Server(process, os.dup(log.fileno()), _set_name(replset))
    try:
        server._wait_until_ready(timeout)
    except BaseException:
        server.stop()
        raise
    return server


def _open_log() -> IO[bytes]:
    """A file without a name: in the folder for temporary files, or in memory if that has no free space."""
    try:
        log = tempfile.TemporaryFile()
        try:
            if os.pwrite(log.fileno(), bytes(_LOG_RESERVE), 0) == _LOG_RESERVE:
                os.ftruncate(log.fileno(), 0)
                return log
        except OSError:
            pass
        log.close()
    except OSError:
        pass
    return os.fdopen(os.memfd_create("nagi-server.log"), "w+b")


def _set_name(replset: Union[bool, str]) -> Optional[str]:
    return SET_NAME if replset is True else replset or None


def _command(
    binary: str, replset: Union[bool, str], port: int, cache_mb: Optional[float], args: List[str]
) -> List[str]:
    given = {arg.split("=", 1)[0] for arg in args if arg.startswith("-")}
    for option in _REFUSED:
        if option in given:
            raise ValueError("%s cannot be used for a server for tests" % option)
    # With this engine the folder is only looked at; it must not have the data of another engine.
    folder = os.path.dirname(os.path.abspath(binary))
    ours = [("--port", str(port)), ("--bind_ip", "127.0.0.1"), ("--nounixsocket",), ("--stopAtEndOfInput",)]
    if "--consolePort" not in given:
        ours.append(("--noconsole",))
    if "--storageEngine" not in given:
        ours += [("--storageEngine", "inMemory"), ("--dbpath", folder)]
        if cache_mb is not None:
            ours.append(("--inMemorySizeGB", repr(cache_mb / 1024)))
    elif cache_mb is not None:
        ours.append(("--cacheSizeGB", repr(cache_mb / 1024)))
    set_name = _set_name(replset)
    if set_name:
        ours += [("--replSet", set_name), ("--initiate",), ("--oplogSize", "64")]
    return [binary, "serve"] + [word for option in ours if option[0] not in given for word in option] + args


class Server:
    """A running server. It is a context manager that stops the server.

    uri   the connection string, "mongodb://127.0.0.1:PORT/?replicaSet=rs0"
    port  the TCP port
    pid   the process id
    """

    def __init__(self, process: subprocess.Popen[bytes], log: int, set_name: Optional[str]) -> None:
        self._process, self._log, self._set_name = process, log, set_name
        weakref.finalize(self, os.close, log)
        self._owner = os.getpid()
        self.pid = process.pid
        self.port = 0

    @property
    def uri(self) -> str:
        return "mongodb://127.0.0.1:%d/%s" % (self.port, "?replicaSet=" + self._set_name if self._set_name else "")

    def log(self, lines: Optional[int] = None) -> str:
        """The server's log, also after its end; the last lines if their number is given."""
        text = self._read(0).decode("utf-8", "replace")
        return text if lines is None else "".join(text.splitlines(True)[-lines:] if lines > 0 else [])

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until the server has ended; returns its exit code."""
        return self._process.wait(timeout)

    def stop(self, timeout: float = 10) -> None:
        """Stops the server; kills it if it has not ended after `timeout` seconds. May be called again.

        In a process that was forked from the one that started the server it does nothing: the server is still used.
        """
        if self._process.stdin:
            self._process.stdin.close()
        if os.getpid() != self._owner:
            return
        # Its input has not ended if a fork of this process still has the pipe.
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read(self, offset: int) -> bytes:
        """The log from `offset` on. Positioned reads: the server shares the file's position."""
        parts: List[bytes] = []
        while True:
            part = os.pread(self._log, 1 << 20, offset)
            if not part:
                return b"".join(parts)
            parts.append(part)
            offset += len(part)

    def _wait_until_ready(self, timeout: float) -> None:
        until, seen = time.monotonic() + timeout, 0
        while True:
            ended = self._process.poll()
            new = self._read(seen)
            lines, newline, _ = new.rpartition(b"\n")
            seen += len(lines) + len(newline)
            self.port = next(filter(None, map(_port, lines.split(b"\n"))), 0)
            if self.port:
                return
            if ended is not None:
                raise StartError("the server ended with %d:\n%s" % (ended, self.log(_TAIL_LINES)))
            if time.monotonic() > until:
                raise StartError("the server did not start in %g seconds:\n%s" % (timeout, self.log(_TAIL_LINES)))
            time.sleep(0.001)


def _port(line: bytes) -> int:
    """The port in the log's line that says that the server accepts connections; 0 for other lines."""
    if b'"id":%d' % _WAITING_FOR_CONNECTIONS not in line:
        return 0
    try:
        return int(json.loads(line.decode())["attr"]["port"])
    except (ValueError, KeyError):
        return 0
