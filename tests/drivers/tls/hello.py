"""Handshakes by hand: a ClientHello with any content, and what the server answers to it."""
import os
import socket
import struct

ALERTS = {10: "unexpected_message", 22: "record_overflow", 40: "handshake_failure", 47: "illegal_parameter", 50: "decode_error",
          70: "protocol_version", 80: "internal_error", 86: "inappropriate_fallback", 109: "missing_extension", 110: "unsupported_extension"}
GROUPS = (0x001d, 0x0017, 0x0018)
SIGNATURES = (0x0403, 0x0503, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501)


def vector(data, size):
    return len(data).to_bytes(size, "big") + data


def words(values, size=2):
    return vector(b"".join(struct.pack(">H", value) for value in values), size)


def extension(kind, data):
    return struct.pack(">H", kind) + vector(data, 2)


def hello(version=0x0303, ciphers=(0xc02b, 0xc02f), groups=GROUPS, signatures=SIGNATURES, compressions=b"\0", more=b"", name="localhost"):
    """A record with a ClientHello. `more`: further extensions, as bytes."""
    extensions = more
    if name:
        extensions += extension(0, vector(b"\0" + vector(name.encode(), 2), 2))
    if groups:
        extensions += extension(10, words(groups)) + extension(11, b"\1\0")
    if signatures:
        extensions += extension(13, words(signatures))
    body = struct.pack(">H", version) + os.urandom(32) + b"\0" + words(ciphers) + vector(compressions, 1) + vector(extensions, 2)
    return b"\x16\3\1" + vector(b"\1" + vector(body, 3), 2)


class Answer:
    """The first record of a server: the name of an alert, or the fields of a ServerHello."""

    def __init__(self, record):
        self.alert = self.cipher = self.version = self.random = None
        self.compression, self.extensions = None, []
        if record[:1] == b"\x15":
            self.alert = ALERTS.get(record[6], record[6])
        elif record[:1] == b"\x16" and record[5] == 2:
            self.version, self.random = struct.unpack(">H", record[9:11])[0], record[11:43]
            at = 44 + record[43]
            self.cipher, self.compression = struct.unpack(">H", record[at:at + 2])[0], record[at + 2]
            at += 5
            end = min(len(record), at + struct.unpack(">H", record[at - 2:at])[0]) if at <= len(record) else at
            while at + 4 <= end:
                kind, size = struct.unpack(">HH", record[at:at + 4])
                self.extensions.append(kind)
                at += 4 + size
        else:
            self.alert = "closed" if not record else "unknown record"


def receive(s, size):
    data = b""
    while len(data) < size:
        more = s.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def record(s):
    head = receive(s, 5)
    return head + receive(s, int.from_bytes(head[3:5], "big")) if len(head) == 5 else b""


def connect(port, source=None):
    s = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0) if source else None)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def ask(port, data):
    """Sends bytes and returns the answer."""
    with connect(port) as s:
        s.sendall(data)
        try:
            return Answer(record(s))
        except ConnectionResetError:
            return Answer(b"")
