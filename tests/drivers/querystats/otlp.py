"""A collector of OpenTelemetry for tests: OTLP over HTTP, protobuf decoded by the description of its messages."""
import http.server
import ssl
import struct
import threading

# Field numbers of opentelemetry/proto/{trace,metrics,common,resource}/v1.
VALUE = {1: ("string", "text"), 2: ("bool", "int"), 3: ("int", "int"), 4: ("double", "double")}
PAIR = {1: ("key", "text"), 2: ("value", VALUE)}
RESOURCE = {1: ("attributes", [PAIR])}
SCOPE = {1: ("name", "text"), 2: ("version", "text")}
STATUS = {2: ("message", "text"), 3: ("code", "int")}
SPAN = {1: ("trace_id", "bytes"), 2: ("span_id", "bytes"), 4: ("parent", "bytes"), 5: ("name", "text"), 6: ("kind", "int"),
        7: ("start", "fixed"), 8: ("end", "fixed"), 9: ("attributes", [PAIR]), 15: ("status", STATUS)}
TRACES = {1: ("resources", [{1: ("resource", RESOURCE), 2: ("scopes", [{1: ("scope", SCOPE), 2: ("spans", [SPAN])}])}])}
POINT = {2: ("start", "fixed"), 3: ("time", "fixed"), 4: ("double", "double"), 6: ("int", "fixed"), 7: ("attributes", [PAIR])}
BUCKETS = {2: ("start", "fixed"), 3: ("time", "fixed"), 4: ("count", "fixed"), 5: ("sum", "double"), 6: ("counts", "packed fixed"),
           7: ("bounds", "packed double"), 9: ("attributes", [PAIR])}
METRIC = {1: ("name", "text"), 2: ("description", "text"), 3: ("unit", "text"), 5: ("gauge", {1: ("points", [POINT])}),
          7: ("sum", {1: ("points", [POINT]), 2: ("temporality", "int"), 3: ("monotonic", "int")}),
          9: ("histogram", {1: ("points", [BUCKETS]), 2: ("temporality", "int")})}
METRICS = {1: ("resources", [{1: ("resource", RESOURCE), 2: ("scopes", [{1: ("scope", SCOPE), 2: ("metrics", [METRIC])}])}])}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def decode(data, fields):
    """A message as a dictionary. An unknown field, or one of another type, is an error."""
    message = {name: [] for name, kind in fields.values() if isinstance(kind, list)}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        name, kind = fields[number]
        if wire == 0:
            raw, at = varint(data, at)
            assert kind == "int", (name, kind)
            value = raw - 2**64 if raw >= 2**63 else raw
        elif wire == 1:
            raw, at = data[at:at + 8], at + 8
            assert kind in ("fixed", "double") and len(raw) == 8, (name, kind)
            value = struct.unpack("<d" if kind == "double" else "<Q", raw)[0]
        else:
            assert wire == 2, (name, wire)
            size, at = varint(data, at)
            raw, at = data[at:at + size], at + size
            assert len(raw) == size, name
            if isinstance(kind, list):
                value = decode(raw, kind[0])
            elif isinstance(kind, dict):
                value = decode(raw, kind)
            elif kind.startswith("packed"):
                value = list(struct.unpack("<%d%s" % (size // 8, "d" if kind.endswith("double") else "Q"), raw))
            else:
                assert kind in ("text", "bytes"), (name, kind)
                value = raw.decode() if kind == "text" else bytes(raw)
        if isinstance(kind, list):
            message[name].append(value)
        else:
            message[name] = value
    return message


def attributes(message):
    return {pair["key"]: next(iter(pair["value"].values()), "") for pair in message["attributes"]}


class Collector:
    """Receives messages at a port. `status` is what it answers."""

    def __init__(self, port, certificate=None, key=None):
        self.spans, self.metrics, self.resources, self.headers, self.requests = [], {}, [], [], 0
        self.status, self.lock = 200, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.take(self.path, dict(self.headers), body)
                self.send_response(outer.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        assert headers.get("content-type") == "application/x-protobuf", headers
        kind, names = {"/v1/traces": (TRACES, "spans"), "/v1/metrics": (METRICS, "metrics")}[path]
        message = decode(body, kind)
        with self.lock:
            self.requests += 1
            self.headers.append(headers)
            for resource in message["resources"]:
                self.resources.append(attributes(resource["resource"]))
                for scope in resource["scopes"]:
                    assert scope["scope"]["name"] == "nagi", scope
                    if names == "spans":
                        self.spans += scope["spans"]
                    else:
                        self.metrics = {metric["name"]: metric for metric in scope["metrics"]}

    def named(self, name):
        with self.lock:
            return [span for span in self.spans if span["name"] == name]

    def value(self, metric, **labels):
        """The newest value of a metric; None if there is none."""
        with self.lock:
            found = self.metrics.get(metric, {})
        for point in (found.get("sum") or found.get("gauge") or {}).get("points", []):
            if attributes(point) == labels:
                return point["double"]
        return None

    def close(self):
        self.server.shutdown()
        self.server.server_close()
