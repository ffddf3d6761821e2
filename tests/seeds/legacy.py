"""The wire protocol of the drivers and shells of 2012: OP_INSERT, OP_QUERY, OP_REPLY."""
import socket
import struct

import bson

INSERT, QUERY = 2002, 2004


class Legacy:
    def __init__(self, port):
        self.socket, self.number = socket.create_connection(("127.0.0.1", port), timeout=60), 0
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, opcode, body):
        self.number += 1
        self.socket.sendall(struct.pack("<iiii", 16 + len(body), self.number, 0, opcode) + body)

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def query(self, namespace, document, limit=0):
        """The documents of the reply to a query."""
        self.send(QUERY, struct.pack("<i", 0) + namespace.encode() + b"\0" + struct.pack("<ii", 0, limit) + bson.encode(document))
        length, = struct.unpack("<i", self.read(4))
        reply = self.read(length - 4)
        return bson.decode_all(reply[12 + 20:])

    def command(self, database, document):
        return self.query(database + ".$cmd", document, -1)[0]

    def insert_safe(self, database, collection, document):
        """As `insert(o, WriteConcern.SAFE)` of the Java driver 2.7: OP_INSERT, then getLastError."""
        self.send(INSERT, struct.pack("<i", 0) + ("%s.%s" % (database, collection)).encode() + b"\0" + bson.encode(document))
        return self.command(database, {"getlasterror": 1})
