"""LDAP servers that misbehave: slow, silent, out of step, and with answers that no honest server sends."""
import os
import socket
import threading
import time


def element(tag, *parts):
    body = b"".join(parts)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def number(n, tag=2):
    return element(tag, n.to_bytes(n.bit_length() // 8 + 1, "big"))


def result(tag, code, text=b""):
    return element(tag, number(code, 0x0A), element(4, b""), element(4, text))


def message(id_, body):
    return element(0x30, number(id_), body)


def found(name, *values):
    attribute = element(0x30, element(4, b"memberOf"), element(0x31, *(element(4, value) for value in values)))
    return element(0x64, element(4, name), element(0x30, attribute))


BIND, SEARCH, UNBIND = 0x60, 0x63, 0x42


class Fake:
    """Serves until it is closed. `answer(request, id, send)` answers a request; it returns False to end the connection."""

    def __init__(self, answer):
        self.answer, self.binds, self.open = answer, 0, 0
        self.lock = threading.Lock()
        self.most = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            with peer:
                while True:
                    id_, request = self.read(peer)
                    if request == UNBIND:
                        return
                    if request == BIND:
                        self.binds += 1
                    if self.answer(request, id_, peer.sendall) is False:
                        return
        except (OSError, EOFError):
            pass
        finally:
            with self.lock:
                self.open -= 1

    def read(self, peer):
        def exactly(count):
            data = b""
            while len(data) < count:
                more = peer.recv(count - len(data))
                if not more:
                    raise EOFError
                data += more
            return data

        def length():
            first = exactly(1)[0]
            return first if first < 0x80 else int.from_bytes(exactly(first & 0x7F), "big")

        def header(data):
            first = data[1]
            if first < 0x80:
                return 2, first
            count = first & 0x7F
            return 2 + count, int.from_bytes(data[2:2 + count], "big")

        exactly(1)
        body = exactly(length())
        head, size = header(body)
        return int.from_bytes(body[head:head + size], "big"), body[head + size]

    def close(self):
        self.listener.close()


def honest(request, id_, send, groups=()):
    if request == BIND:
        send(message(id_, result(0x61, 0)))
    else:
        send(message(id_, found(b"uid=x", *groups)) + message(id_, result(0x65, 0)))


def slow(seconds):
    def answer(request, id_, send):
        time.sleep(seconds)
        honest(request, id_, send)
    return answer


def silent(*_):
    time.sleep(60)


def garbage(_, __, send):
    send(os.urandom(4096))


def not_ldap(_, __, send):
    send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    return False


def huge(_, __, send):
    send(b"\x30\x84\x7f\xff\xff\xff")
    chunk = b"\x00" * 65536
    for _ in range(10_000):
        send(chunk)


def indefinite(_, __, send):
    send(b"\x30\x80" + b"\x00" * 100)


def nested(_, id_, send):
    deep = b""
    for _ in range(20_000):
        deep = element(0x30, deep)
    send(message(id_, deep))


def drip(_, id_, send):
    for byte in message(id_, result(0x61, 0, b"x" * 100)):
        send(bytes([byte]))
        time.sleep(0.3)


def closes(*_):
    return False


def other_id(_, id_, send):
    send(message(id_ + 1, result(0x61, 0)))


def other_answer(_, id_, send):
    send(message(id_, result(0x65, 0)))


def referral(request, id_, send):
    code = 0x61 if request == BIND else 0x65
    body = element(code, number(10, 0x0A), element(4, b""), element(4, b""), element(0xA3, element(4, b"ldap://127.0.0.1:1/")))
    send(message(id_, body))


def busy(request, id_, send):
    send(message(id_, result(0x61 if request == BIND else 0x65, 51, b"busy")))


def disconnects(_, __, send):
    send(message(0, result(0x78, 52, b"shutting down")))
    return False


def endless(request, id_, send):
    """Binds succeed; searches find entries without an end."""
    if request == BIND:
        return honest(request, id_, send)
    one = message(id_, found(b"uid=x", b"cn=a,dc=x" + b"a" * 900))
    while True:
        send(one * 64)


def many(request, id_, send):
    """A search finds more groups than a user may have."""
    if request == BIND:
        return honest(request, id_, send)
    for n in range(300):
        send(message(id_, found(b"uid=x", *(b"cn=%d-%d" % (n, m) for m in range(100)))))
    send(message(id_, result(0x65, 0)))


HOSTILE = {f.__name__: f for f in (
    silent, garbage, not_ldap, huge, indefinite, nested, drip, closes, other_id, other_answer, referral, busy,
    disconnects)}
HOSTILE_SEARCH = {"endless": endless, "many": many}
