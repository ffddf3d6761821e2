"""Logins by tokens of identity providers, MONGODB-OIDC: oidc.py NAGI FOLDER PORT [NODE MODULES].

Signs tokens itself, serves keys from this process, and starts its own servers. Prints each failure and a count.
"""
import base64
import json
import os
import random
import subprocess
import threading
import time

import bson
from pymongo.errors import ConfigurationError

from harness import (AUDIENCE, FULL, HERE, NAGI, PORT, TOOLS, WORK, Machine, Raw, Server, claims, client_of, code_of,
                     provider)
import pki
from checks import check, equal, fails, finish, section, wait_until
from idp import Key, KeyServer, b64, free_port


def drivers():
    """pymongo as a machine and as a person; Node as a machine."""
    key = Key("k1")
    keys = KeyServer(free_port())
    keys.keys = [key.jwk(alg="RS256")]
    with Server("drivers", [provider(keys.issuer)]) as server:
        callback = Machine(lambda: key.sign(claims(keys.issuer)))
        client = client_of(callback)
        equal("a machine reads", client.test.c.find_one(), {"_id": 1})
        fails("a machine has its roles only", 13, lambda: client.other.c.find_one())
        info = client.admin.command("connectionStatus")["authInfo"]
        equal("user", info["authenticatedUsers"], [{"user": "corp/ann", "db": "$external"}])
        equal("roles", info["authenticatedUserRoles"], [{"role": "corp/readers", "db": "admin"}])
        check("one token serves several connections", callback.count == 1, callback.count)
        client.close()

        person = Machine(lambda: key.sign(claims(keys.issuer)))
        client = client_of(person, "OIDC_HUMAN_CALLBACK", username="ann@corp.example.com")
        equal("a person reads", client.test.c.find_one(), {"_id": 1})
        told = person.contexts[0].idp_info
        equal("where the person logs in", (told.issuer, told.clientId, told.requestScopes),
              (keys.issuer, "app", ["openid", "email"]))
        client.close()
        client = client_of(person, "OIDC_HUMAN_CALLBACK", properties={"ALLOWED_HOSTS": ["*.example.com"]})
        try:
            client.test.c.find_one()
            check("a host that is not allowed", False)
        except ConfigurationError as e:
            check("a host that is not allowed", "not in" in str(e), e)
        client.close()
        wrong = client_of(Machine(lambda: key.sign(claims(keys.issuer, -5))))
        fails("an expired token", 18, lambda: wrong.test.c.find_one())
        wrong.close()
        lines = [line["attr"] for line in server.lines(5286306) if line["attr"]["mechanism"] == "MONGODB-OIDC"]
        equal("logged claims", lines[0]["extraInfo"], {"claims": {"sub": "ann", "aud": AUDIENCE}})
        equal("logged user", (lines[0]["user"], lines[0]["db"]), ("corp/ann", "$external"))
        if TOOLS:
            token = os.path.join(WORK, "token")
            with open(token, "w") as f:
                f.write(key.sign(claims(keys.issuer)))
            done = subprocess.run([TOOLS[0], os.path.join(HERE, "oidc.mjs"), "mongodb://127.0.0.1:%d/" % PORT, token],
                                  env={**os.environ, "NODE_MODULES_DIR": TOOLS[1]}, capture_output=True, text=True, timeout=120)
            check("the Node driver", done.returncode == 0, done.stdout + done.stderr)
    keys.close()


ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"]


def forged():
    """Every algorithm is accepted, and every forged token refused with its reason in the log."""
    made = {alg: Key("k-" + alg, alg) for alg in ALGORITHMS}
    rsa, other = made["RS256"], Key("k-RS256")
    small = Key("small", bits=1024)
    keys = KeyServer(free_port())
    keys.keys = [key.jwk() for key in made.values()]
    keys.keys += [small.jwk(), Key("only", "RS256").jwk(alg="RS512"), {"kid": "oct", "kty": "oct", "k": b64(b"secret" * 8)}]
    good = lambda **more: claims(keys.issuer, **more)
    with Server("forged", [provider(keys.issuer)]) as server:
        for alg, key in made.items():
            equal(alg, code_of(key.sign(good())), 0)
        for alg in ("RS384", "RS512", "PS256"):
            equal("a key of RSA for " + alg, code_of(rsa.sign(good(), alg=alg)), 0)
        for what, token in {
            "a list of audiences": rsa.sign(good(aud=["x", AUDIENCE])), "no type": rsa.sign(good(), {"typ": None}),
            "an access token": rsa.sign(good(), {"typ": "at+jwt"}), "one role": rsa.sign(good(groups="readers")),
            "a claim of many levels": rsa.sign(good(deep={"a": [{"b": [1, None, 2.5]}]})),
        }.items():
            equal(what, code_of(token), 0)
        valid = rsa.sign(good())
        head, body, signature = valid.split(".")
        bomb = lambda depth: b'{"a":' * depth + b"1" + b"}" * depth
        twice = json.dumps(good()).encode()[:-1] + b', "sub": "root"}'
        for what, token, reason in [
            ("none", rsa.sign(good(), alg="none"), "algorithm is not one of"),
            ("none in capitals", rsa.sign(good(), {"alg": "NONE"}, alg="none"), "algorithm is not one of"),
            ("the public key as a secret", rsa.sign(good(), alg="HS256"), "algorithm is not one of"),
            ("a secret of the set", rsa.sign(good(), {"kid": "oct"}, alg="HS256"), "algorithm is not one of"),
            ("a symmetric key", rsa.sign(good(), {"kid": "oct"}), "key is not one of"),
            ("an algorithm of another family", rsa.sign(good(), {"alg": "ES256"}), "algorithm is not that of its key"),
            ("a curve of another size", made["ES256"].sign(good(), {"alg": "ES384"}), "algorithm is not that of its key"),
            ("an algorithm that its key excludes", Key("only").sign(good()), "algorithm is not that of its key"),
            ("a short key", small.sign(good()), "key is not one of"),
            ("another key", other.sign(good()), "signature is wrong"),
            ("another issuer", rsa.sign(good(iss="https://evil.example.com")), "issuer is not one of"),
            ("an issuer with a slash more", rsa.sign(good(iss=keys.issuer + "/")), "issuer is not one of"),
            ("no issuer", rsa.sign(good(iss=None)), "no issuer"),
            ("another audience", rsa.sign(good(aud="x")), "not for the audience"),
            ("no audience", rsa.sign(good(aud=None)), "no audience"),
            ("an empty list of audiences", rsa.sign(good(aud=[])), "not for the audience"),
            ("an unknown key", Key("unknown").sign(good()), "key is not one of"),
            ("no key id", rsa.sign(good(), {"kid": None}), "no key id"),
            ("expired", rsa.sign(good(seconds=-1)), "has expired"),
            ("no expiry", rsa.sign(good(exp=None)), "does not say when it expires"),
            ("an expiry as text", rsa.sign(good(exp=str(int(time.time()) + 60))), "is no number"),
            ("not yet valid", rsa.sign(good(nbf=int(time.time()) + 60)), "not yet valid"),
            ("issued at no time", rsa.sign(good(iat="now")), "is no number"),
            ("critical extensions", rsa.sign(good(), {"crit": ["exp"]}), "critical extensions"),
            ("another type", rsa.sign(good(), {"typ": "secevent+jwt"}), "type is neither"),
            ("no user", rsa.sign(good(sub=None)), "is no user name"),
            ("no roles", rsa.sign(good(groups=None)), "not a list of names of roles"),
            ("roles of numbers", rsa.sign(good(groups=[1])), "not a list of names of roles"),
            ("a megabyte", rsa.sign(good(pad="x" * (1 << 20))), "too long"),
            ("a name twice", rsa.sign(twice), "a name twice"),
            ("a bomb", rsa.sign(bomb(5000)), ""),
            ("a bomb of arrays", rsa.sign(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"), ""),
            ("a bomb in the header", b64(bomb(500)) + "." + body + "." + signature, ""),
            ("claims that are no object", rsa.sign(b"[]"), "is not JSON"),
            ("claims that are not UTF-8", rsa.sign(b'{"a":"\xff"}'), "is not UTF-8"),
            ("no signature", head + "." + body + ".", "signature is wrong"),
            ("two parts", head + "." + body, "three parts"),
            ("four parts", valid + "." + signature, "three parts"),
            ("padding", valid + "=", "not base64url"),
            ("claims of another token", head + "." + rsa.sign(good(sub="root")).split(".")[1] + "." + signature,
             "signature is wrong"),
            ("nothing", "", "three parts"),
        ]:
            equal(what, code_of(token), 18)
            last = server.lines(5286307)[-1]["attr"]
            check(what + ": the reason", reason in last["error"] and last["mechanism"] == "MONGODB-OIDC", last)
        for what, payload in [("no BSON", b"\x05"), ("BSON of another length", b"\xff\0\0\0\0"), ("nothing", b"")]:
            raw = Raw()
            equal(what, raw.run("$external", saslStart=1, mechanism="MONGODB-OIDC", payload=payload).get("code"), 18)
            raw.close()
        raw = Raw()
        equal("another database", raw.run("admin", saslStart=1, mechanism="MONGODB-OIDC",
                                          payload=bson.encode({"jwt": valid})).get("code"), 18)
        raw.close()
        equal("the server still accepts", code_of(valid), 0)
        mutated(server, rsa, good)
    keys.close()


def mutated(server, key, good):
    """10,000 changed tokens on a few connections: each is refused, and memory does not grow."""
    shown = random.Random(19)
    token = key.sign(good(seconds=600))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/\x00 \u00e9"
    raw, codes = Raw(), {}
    for n in range(100_000 if FULL else 10_000):
        text = list(token)
        for _ in range(shown.choice([1, 1, 1, 2, 5])):
            at = shown.randrange(len(text))
            what = shown.randrange(4)
            if what == 0:
                text[at] = shown.choice(alphabet)
            elif what == 1:
                del text[at]
            elif what == 2:
                text.insert(at, shown.choice(alphabet))
            else:
                del text[at:at + shown.randrange(1, 40)]
        text = "".join(text)
        if text == token:
            continue
        code = raw.show(text)
        codes[code] = codes.get(code, 0) + 1
        if n % 1000 == 999:
            equal("a login in between", code_of(token), 0)
    equal("changed tokens", list(codes), [18])
    raw.close()


def expiry():
    """Connections whose token ends get 391; drivers log in again by themselves."""
    key = Key("k1", "ES256")
    keys = KeyServer(free_port())
    keys.keys = [key.jwk()]
    with Server("expiry", [provider(keys.issuer)]) as server:
        raw = Raw()
        equal("a short token", raw.show(key.sign(claims(keys.issuer, 2))), 0)
        equal("before its end", raw.find(), 0)
        check("its end", wait_until(lambda: raw.find() != 0, 10))
        reply = raw.run("test", find="c")
        equal("after its end", (reply["code"], reply["codeName"]), (391, "ReauthenticationRequired"))
        equal("hello needs no login", raw.run("admin", hello=1)["ok"], 1)
        equal("an expired token again", raw.show(key.sign(claims(keys.issuer, -1))), 18)
        equal("another user", raw.show(key.sign(claims(keys.issuer, sub="bob"))), 5626701)
        equal("the same user", raw.show(key.sign(claims(keys.issuer))), 0)
        equal("again", raw.find(), 0)
        equal("logout", raw.run("$external", logout=1)["ok"], 1)
        equal("after a logout", raw.find(), 13)
        equal("another user after a logout", raw.show(key.sign(claims(keys.issuer, sub="bob"))), 0)
        server.root.admin.command("killAllSessions", [])
        server.root.admin.command("invalidateUserCache")
        equal("its login stays", raw.find(), 0)
        server.root.admin.command("dropRole", "corp/readers")
        equal("its role is gone", raw.find(), 13)
        any_find = [{"resource": {"db": "test", "collection": ""}, "actions": ["find", "insert"]}]
        server.root.admin.command("createRole", "corp/readers", privileges=any_find, roles=[])
        equal("its role is back", raw.find(), 0)
        raw.close()

        callback = Machine(lambda: key.sign(claims(keys.issuer, 2)))
        client = client_of(callback, maxPoolSize=8, minPoolSize=4)
        until, errors, done = time.monotonic() + 12, [], [0] * 8

        def work(n):
            while time.monotonic() < until:
                try:
                    client.test.c.find_one()
                    client.test.d.insert_one({"n": n})
                    with client.test.c.find(batch_size=1) as cursor:
                        list(cursor)
                    done[n] += 1
                except Exception as e:
                    errors.append(repr(e))
                    return

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        equal("no error while tokens end", errors, [])
        check("several tokens", 4 <= callback.count <= 60, callback.count)
        check("work was done", min(done) > 10, done)
        print("  %d rounds of work with %d tokens of two seconds" % (sum(done), callback.count))
        client.close()
    keys.close()


def key_sets():
    """Keys that rotate, and servers of keys that fail."""
    first, second = Key("k1", "ES256"), Key("k2", "ES256")
    keys = KeyServer(free_port())
    keys.keys = [first.jwk()]
    with Server("keysets", [provider(keys.issuer, JWKSUri=keys.uri)]) as server:
        raw = Raw()
        equal("a key", raw.show(first.sign(claims(keys.issuer))), 0)
        asked = keys.asked
        equal("a known key is not fetched", code_of(first.sign(claims(keys.issuer))), 0)
        equal("not fetched", keys.asked, asked)
        keys.keys = [first.jwk(), second.jwk()]
        equal("a new key", code_of(second.sign(claims(keys.issuer))), 0)
        equal("fetched once", keys.asked, asked + 1)
        equal("the other login stays", raw.find(), 0)
        for mode in ("garbage", "huge", "error", "redirect"):
            keys.mode = mode
            reply = server.root.admin
            e = fails("refresh: " + mode, 96, lambda: reply.command("oidcRefreshKeys"))
            check("which issuer: " + mode, keys.issuer in str(e), e)
            equal("keys stay: " + mode, code_of(first.sign(claims(keys.issuer))), 0)
        keys.mode = "slow"
        keys.keys = [second.jwk()]
        server.root.admin.command("oidcRefreshKeys", identityProviders=[keys.issuer])
        keys.mode = "right"
        equal("a withdrawn key ends its logins", raw.find(), 391)
        equal("a withdrawn key", raw.show(first.sign(claims(keys.issuer))), 18)
        equal("a key that stayed", raw.show(second.sign(claims(keys.issuer))), 0)
        shown = server.root.admin.command("oidcListKeys")["keySets"]
        equal("listed keys", shown, {keys.issuer: {"keys": [second.jwk()]}})
        fails("keys of nobody", 2, lambda: server.root.admin.command("oidcListKeys", identityProviders=["https://nobody"]))
        reader = client_of(Machine(lambda: second.sign(claims(keys.issuer))))
        fails("oidcListKeys needs a privilege", 13, lambda: reader.admin.command("oidcListKeys"))
        fails("oidcRefreshKeys needs a privilege", 13, lambda: reader.admin.command("oidcRefreshKeys"))
        reader.close()
        counts = server.oidc_counts()
        check("counts", counts["failedFetches"] == 4 and counts["keys"] == 1 and counts["fetches"] >= 3, counts)
        check("failures are logged", len(server.lines(8200192)) == 4)

        server.root.admin.command("setParameter", 1, JWKSMinimumQuiescePeriodSecs=3600)
        asked, stranger = keys.asked, Key("k9", "ES256")
        for _ in range(200):
            raw.show(stranger.sign(claims(keys.issuer)))
        equal("unknown keys in the quiet period", (keys.asked, server.oidc_counts()["unknownKeysWithoutFetch"] >= 200), (asked, True))
        server.root.admin.command("setParameter", 1, JWKSMinimumQuiescePeriodSecs=0)
        server.root.admin.command("setParameter", 1, oidcIdentityProviders=[provider(keys.issuer, JWKSUri=keys.uri, JWKSPollSecs=1)])
        check("a provider that is polled has its keys at once", wait_until(
            lambda: raw.show(second.sign(claims(keys.issuer))) == 0, 10))
        asked = keys.asked
        check("polled", wait_until(lambda: keys.asked >= asked + 3, 20), keys.asked - asked)
        server.root.admin.command("setParameter", 1, oidcIdentityProviders=[])
        equal("a provider that is gone", raw.find(), 391)
        equal("no provider", raw.show(second.sign(claims(keys.issuer))), 18)
        raw.close()
    keys.close()


def places():
    """Keys by HTTPS with an authority of our own, by discovery, and from a file; several providers."""
    authority = pki.Authority(os.path.join(WORK, "ca"), "/CN=Authority")
    stranger = pki.Authority(os.path.join(WORK, "stranger"), "/CN=Stranger")
    key, file_key = Key("k1"), Key("f1", "PS384")
    secure = KeyServer(free_port(), authority.sign("keys", "/CN=localhost", pki.LOCAL))
    secure.keys = [key.jwk()]
    path = os.path.join(WORK, "keys.json")
    with open(path, "w") as f:
        json.dump({"keys": [file_key.jwk()]}, f)
    by_file = "https://file.example.com"
    people = provider(secure.issuer, JWKSCAFile=authority.file, matchPattern="@corp[.]example[.]com$")
    machines = provider(by_file, JWKSUri="file://" + path, authNamePrefix="jobs", supportsHumanFlows=False, clientId=None,
                        useAuthorizationClaim=False, authorizationClaim=None)
    guests = provider("https://guests.example.com", JWKSUri="file:///nonexistent", authNamePrefix="guest", matchPattern="@guest$",
                      audience="x", clientId="guest-app")
    with Server("places", [people, machines, guests]) as server:
        equal("by discovery and HTTPS", code_of(key.sign(claims(secure.issuer))), 0)
        equal("an unreachable provider is no other's harm", server.oidc_counts()["identityProviders"], 3)
        equal("no user", code_of(file_key.sign(claims(by_file, sub="job"))), 18)
        server.root["$external"].command("createUser", "jobs/job", roles=[{"role": "read", "db": "test"}])
        raw = Raw()
        equal("a user of createUser", raw.show(file_key.sign(claims(by_file, sub="job", groups=["readers"]))), 0)
        equal("reads", raw.find(), 0)
        equal("does not write", raw.run("test", insert="c", documents=[{}]).get("code"), 13)
        server.root["$external"].command("dropUser", "jobs/job")
        equal("after dropUser", raw.find(), 13)
        raw.close()
        equal("a key of another provider", code_of(file_key.sign(claims(secure.issuer))), 18)
        for hint, expected in [("a@corp.example.com", secure.issuer), ("b@guest", "https://guests.example.com"), ("c@job", None), (None, None)]:
            raw = Raw()
            reply = raw.start({"n": hint} if hint else {})
            told = bson.decode(reply["payload"])["issuer"] if reply["ok"] else None
            equal("where %s logs in" % hint, told, expected)
            raw.close()
        shown = server.root.admin.command("getParameter", 1, oidcIdentityProviders=1)["oidcIdentityProviders"]
        equal("shown providers", [p["issuer"] for p in shown], [secure.issuer, by_file, "https://guests.example.com"])
        equal("a default", shown[1]["principalName"], "sub")
        set_ = lambda *providers: server.root.admin.command("setParameter", 1, oidcIdentityProviders=list(providers))
        for what, code, bad in [
            ("an issuer without encryption", 2, provider("http://id.example.com")),
            ("keys without encryption", 2, provider(by_file, JWKSUri="http://id.example.com/keys")),
            ("a slash in the prefix", 2, provider(by_file, authNamePrefix="a/b")),
            ("no claim with roles", 2, provider(by_file, authorizationClaim=None)),
            ("no client", 2, provider(by_file, clientId=None)),
            ("no audience", 40414, provider(by_file, audience=None)),
            ("an unknown field", 40415, provider(by_file, color="red")),
            ("a bad pattern", 51091, provider(by_file, matchPattern="(")),
            ("polling of a second ago", 51024, provider(by_file, JWKSPollSecs=-1)),
            ("a number", 14, 7),
        ]:
            fails(what, code, lambda: set_(bad))
        fails("two for people without patterns", 2, lambda: set_(provider(by_file), provider("https://b.example.com", authNamePrefix="b")))
        fails("the same twice", 2, lambda: set_(machines, machines))
        equal("nothing has changed", code_of(key.sign(claims(secure.issuer))), 0)
        set_({**people, "JWKSCAFile": stranger.file})
        equal("a server of keys with a certificate of another authority", code_of(key.sign(claims(secure.issuer))), 18)
        set_({name: value for name, value in people.items() if name != "JWKSCAFile"})
        equal("a server of keys that the system does not trust", code_of(key.sign(claims(secure.issuer))), 18)
        set_(people)
        equal("the right authority again", code_of(key.sign(claims(secure.issuer))), 0)
    for what, text in [("no array", "{}"), ("an unknown field", json.dumps([provider(by_file, color="red")])), ("no JSON", "[")]:
        done = subprocess.run([NAGI, "serve", "--dbpath", WORK + "/ca", "--port", str(PORT), "--setParameter",
                               "oidcIdentityProviders=" + text], capture_output=True, text=True, timeout=60)
        check("start with " + what, done.returncode != 0 and "oidc" in (done.stdout + done.stderr).lower(), done.stdout + done.stderr)
    secure.close()


def hang():
    """200 logins at once while the server of keys does not answer: nobody else notices."""
    key, unknown = Key("k1", "ES256"), Key("k2", "ES256")
    keys = KeyServer(free_port())
    keys.keys = [key.jwk()]
    with Server("hang", [provider(keys.issuer, JWKSUri=keys.uri)], JWKSMinimumQuiescePeriodSecs=30) as server:
        server.root.admin.command("setParameter", 1, JWKSMinimumQuiescePeriodSecs=0)
        equal("a login", code_of(key.sign(claims(keys.issuer))), 0)
        server.root.admin.command("setParameter", 1, JWKSMinimumQuiescePeriodSecs=1)
        time.sleep(1.1)
        asked, keys.mode = keys.asked, "hang"
        codes, waits, pings = [], [], []

        def log_in(token):
            raw, began = Raw(), time.monotonic()
            codes.append(raw.show(token))
            waits.append(time.monotonic() - began)
            raw.close()

        token = unknown.sign(claims(keys.issuer))
        threads = [threading.Thread(target=log_in, args=(token,)) for _ in range(200)]
        began = time.monotonic()
        [t.start() for t in threads]
        scram = 0
        while any(t.is_alive() for t in threads) and time.monotonic() < began + 30:
            before = time.monotonic()
            server.root.admin.command("ping")
            pings.append(time.monotonic() - before)
            if scram < 20:
                server.scram().close()
                scram += 1
            if len(pings) % 10 == 0:
                equal("a known key meanwhile", code_of(key.sign(claims(keys.issuer))), 0)
            time.sleep(0.02)
        [t.join(30) for t in threads]
        equal("refused logins", codes, [18] * 200)
        check("no login waits longer than a fetch", max(waits) < 12, max(waits))
        check("one fetch at a time", 1 <= keys.asked - asked <= 3, keys.asked - asked)
        check("logins by password meanwhile", scram == 20, scram)
        pings.sort()
        check("pings meanwhile", pings[len(pings) * 99 // 100] < 1, pings[-5:])
        print("  200 logins waited %.1f s at most; %d pings, p99 %.1f ms; %d fetches" % (
            max(waits), len(pings), pings[len(pings) * 99 // 100] * 1000, keys.asked - asked))
        keys.mode = "right"
        keys.release.set()
        keys.keys = [key.jwk(), unknown.jwk()]
        check("the key is found later", wait_until(lambda: code_of(unknown.sign(claims(keys.issuer))) == 0, 20))
    keys.close()


def secrets():
    """Tokens appear in no log, profile, currentOp or audit message; logins appear in the audit log; failures wait."""
    key = Key("k1")
    keys = KeyServer(free_port())
    keys.keys = [key.jwk()]
    audit = os.path.join(WORK, "audit.json")
    args = ("--auditDestination", "file", "--auditPath", audit, "--slowms", "0", "--profile", "2", "-vvvvv")
    with Server("secrets", [provider(keys.issuer)], *args, authFailedDelayMaxMs=2000) as server:
        tokens, seen, until = [], [], [True]

        def watch():
            while until[0]:
                seen.append(repr(list(server.root.admin.aggregate([{"$currentOp": {"allUsers": True, "idleConnections": True}}]))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        for n in range(20):
            tokens.append(key.sign(claims(keys.issuer, n=n)))
            equal("a login", code_of(tokens[-1]), 0)
        raw = Raw()
        spec = {"saslStart": 1, "mechanism": "MONGODB-OIDC", "payload": bson.encode({"jwt": tokens[0]}), "db": "$external"}
        equal("a login within hello", raw.run("admin", hello=1, speculativeAuthenticate=spec)["speculativeAuthenticate"]["done"], True)
        equal("reads after it", raw.find(), 0)
        raw.close()
        raw, began = Raw(), time.monotonic()
        for n in range(5):
            tokens.append(key.sign(claims(keys.issuer, -10, n=n)))
            equal("a refused login", raw.show(tokens[-1]), 18)
        check("refusals wait", time.monotonic() - began >= 0.25, time.monotonic() - began)
        raw.close()
        until[0] = False
        watcher.join()
        places = {"log": server.log(), "currentOp": "".join(seen),
                  "profile": "".join(repr(list(server.root[db]["system.profile"].find())) for db in ("test", "admin")),
                  "getLog": repr(server.root.admin.command("getLog", "global"))}
        with open(audit) as f:
            places["audit"] = f.read()
        check("the log is of some length", len(places["log"]) > 10000 and "saslStart" in places["log"])
        for where, text in places.items():
            parts = {p for token in tokens for p in token.split(".")[1:]}
            coded = {base64.b64encode(p.encode()[at:at + 90]).decode() for p in parts for at in range(3)}
            check("no token in " + where, not any(p in text for p in parts | coded), where)
        messages = [json.loads(line) for line in places["audit"].splitlines()]
        logins = [m for m in messages if m["atype"] == "authenticate" and m["param"]["mechanism"] == "MONGODB-OIDC"]
        equal("audited logins", sorted({m["result"] for m in logins}), [0, 18])
        good = next(m for m in logins if m["result"] == 0)
        equal("an audited login", good["param"], {"user": "corp/ann", "db": "$external", "mechanism": "MONGODB-OIDC",
                                                  "extraInfo": {"claims": {"sub": "ann", "aud": AUDIENCE}}})
        equal("its roles", good["roles"], [{"role": "corp/readers", "db": "admin"}])
        server.root.admin.command("createRole", "corp/far", privileges=[], roles=[],
                                  authenticationRestrictions=[{"clientSource": ["10.0.0.0/8"]}])
        equal("a role for other networks", code_of(key.sign(claims(keys.issuer, groups=["far"]))), 18)
        counts = server.root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["MONGODB-OIDC"]
        check("counted logins", counts["authenticate"]["successful"] >= 21 and counts["speculativeAuthenticate"]["successful"] >= 1, counts)
    keys.close()


for part in (drivers, forged, expiry, key_sets, places, hang, secrets):
    section(part)
finish("oidc")
