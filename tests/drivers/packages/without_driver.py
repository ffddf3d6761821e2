"""Starts a server and asks it once, without a driver: for Pythons that have none."""
import asyncio
import socket
import struct

import nagi_server

HELLO = b"\x10hello\0" + struct.pack("<i", 1) + b"\x02$db\0" + struct.pack("<i", 6) + b"admin\0"


def ask(port):
    body = struct.pack("<i", len(HELLO) + 5) + HELLO + b"\0"
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body)
        return stream.recv(4096)


async def main():
    async with nagi_server.run(replset=False) as uri:
        assert b"isWritablePrimary" in ask(int(uri.split(":")[2].strip("/")))


asyncio.run(main())
with nagi_server.start() as server:
    assert b"rs0" in ask(server.port)
assert not server.is_running() and "Now exiting" in server.log()
try:
    nagi_server.start(args=["--no-such-option"])
except nagi_server.StartError as error:
    assert "no-such-option" in str(error)
else:
    raise AssertionError("started")
