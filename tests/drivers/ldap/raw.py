"""Logins by bare messages, as no driver would send them."""
import socket
import struct

import bson


class Raw:
    def __init__(self, port, seconds=60):
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def run(self, command, db):
        body = bson.encode({**command, "$db": db})
        self.socket.sendall(struct.pack("<iiiiiB", 21 + len(body), 1, 0, 2013, 0, 0) + body)
        length = struct.unpack("<i", self.exactly(4))[0]
        return bson.decode(self.exactly(length - 4)[17:])

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data

    def plain(self, payload, db="$external"):
        return self.run({"saslStart": 1, "mechanism": "PLAIN", "payload": payload, "autoAuthorize": 1}, db)


def plain(port, user, password, db="$external"):
    """The code of a login: 0 if it succeeded."""
    payload = b"\0".join([b"", user.encode(), password.encode()])
    with Raw(port) as raw:
        reply = raw.plain(payload, db)
    return 0 if reply["ok"] == 1 and reply["done"] else reply.get("code", -1)
