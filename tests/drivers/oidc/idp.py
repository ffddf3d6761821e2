"""An identity provider for tests: keys, signed tokens, and a server of key sets that can misbehave."""
import base64
import http.server
import json
import socket
import ssl
import threading
import time

from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

HASHES = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(n, size=None):
    return b64(n.to_bytes(size or (n.bit_length() + 7) // 8, "big"))


class Key:
    """A key of a provider; `alg` is what it signs with."""

    def __init__(self, kid, alg="RS256", bits=2048):
        self.kid, self.alg = kid, alg
        if alg[:2] == "ES":
            self.private = ec.generate_private_key(ec.SECP256R1() if alg == "ES256" else ec.SECP384R1())
        else:
            self.private = rsa.generate_private_key(65537, bits)

    def jwk(self, **more):
        public = self.private.public_key().public_numbers()
        if self.alg[:2] == "ES":
            size = (public.curve.key_size + 7) // 8
            own = {"kty": "EC", "crv": "P-%d" % public.curve.key_size, "x": number(public.x, size), "y": number(public.y, size)}
        else:
            own = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
        return {"kid": self.kid, "use": "sig", **own, **more}

    def pem(self):
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def signature(self, data, alg):
        hash_ = HASHES[alg[2:]]()
        if alg[:2] == "HS":  # with the public key as the secret
            mac = hmac.HMAC(self.pem(), hash_)
            mac.update(data)
            return mac.finalize()
        if alg[:2] == "ES":
            r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hash_)))
            size = (self.private.curve.key_size + 7) // 8
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        if alg[:2] == "PS":
            return self.private.sign(data, padding.PSS(padding.MGF1(hash_), hash_.digest_size), hash_)
        return self.private.sign(data, padding.PKCS1v15(), hash_)

    def sign(self, claims, header=None, alg=None):
        """A token. `claims`: a dict, or the bytes that stand for one."""
        alg = alg or self.alg
        header = {"typ": "JWT", "alg": alg, "kid": self.kid, **(header or {})}
        body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        head = b64(json.dumps({k: v for k, v in header.items() if v is not None}).encode())
        signed = head + "." + b64(body)
        signature = b"" if alg == "none" else self.signature(signed.encode(), alg)
        return signed + "." + b64(signature)


class KeyServer:
    """Serves key sets and discovery documents by HTTP or HTTPS. `mode`: how it answers."""

    def __init__(self, port, certificate=None):
        self.keys, self.mode, self.asked, self.times = [], "right", 0, []
        self.release = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            scheme = "https"
        self.issuer = "%s://localhost:%d" % (scheme, port)
        self.uri = self.issuer + "/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        self.asked += 1
        self.times.append(time.monotonic())
        mode = self.mode
        if mode == "hang":
            self.release.wait(60)
            return
        if mode == "slow":
            time.sleep(1.5)
        if mode == "error":
            request.send_error(500)
            return
        if mode == "redirect":
            request.send_response(302)
            request.send_header("location", "http://192.0.2.1/keys")
            request.end_headers()
            return
        if request.path == "/.well-known/openid-configuration":
            body = json.dumps({"issuer": self.issuer, "jwks_uri": self.uri}).encode()
        else:
            body = json.dumps({"keys": self.keys}).encode()
        if mode == "garbage":
            body = b"\x00<html>" + body
        if mode == "huge":
            body = b" " * (64 << 20) + body
        request.send_response(200)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        try:
            request.wfile.write(body)
        except OSError:
            pass

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
