"""Files of a server with encryption at rest: nothing in the clear, recovered after a kill, exported by `nagi diagnostics`."""
import base64
import os
import shutil
import time

import decode
from server import FAST, WORK, Server, nagi  # first: it sets the path of the next one
from checks import check, equal, wait_until  # noqa: E402

INSERTS = ("serverStatus", "opcounters", "insert")
# What a file in the clear begins with or contains: names of records and facts.
CLEAR = [b"_id\0", b"type\0", b"getCmdLineOpts", b"serverStatus", b"hostInfo", b"planted-path"]


def key_file(name):
    path = os.path.join(WORK, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(base64.b64encode(os.urandom(32)).decode() + "\n")
    return path


def clear_parts(paths):
    return {part for path in paths for part in CLEAR if part in open(path, "rb").read()}


def export(server, name, *args, env=None):
    out = os.path.join(WORK, name)
    shutil.rmtree(out, ignore_errors=True)
    code, text = nagi("diagnostics", "--dbpath", server.data, "--out", out, *args, env=env)
    files = sorted(os.path.join(out, name) for name in os.listdir(out)) if os.path.isdir(out) else []
    return code, text, files


def nothing_is_in_the_clear():
    key = key_file("planted-path.key")
    keys = ["--enableEncryption", "--encryptionKeyFile", key]
    with Server("encrypted", *FAST, *keys) as server:
        server.client.test.c.insert_many([{} for _ in range(55)])
        check("an interim file", wait_until(lambda: os.path.exists(server.diagnostic + "/metrics.interim"), 10))
        time.sleep(1.2)
        check("a sample", server.sample()["serverStatus"]["encryptionAtRest"]["encryptionEnabled"])
        equal("in the clear while it runs", clear_parts(server.files(interim=True)), set())
        server.admin.command("rotateEncryptionKey", 1)
        code, text, files = export(server, "export-running", "--encryptionKeyFile", key)
        check("export of a running server", code == 0 and files, (code, text))
        check("its samples", [s for f in files for s in decode.read(f)[1]], files)
        server.kill()
    equal("in the clear after a kill", clear_parts(server.files(interim=True)), set())
    with Server("encrypted", *FAST, *keys, keep=True) as server:
        check("a second file", wait_until(lambda: len(server.files()) == 2, 10))
        check("what was left is recovered", wait_until(lambda: server.lines(8200225), 10))
        time.sleep(0.5)
    equal("in the clear after a clean end", clear_parts(server.files(interim=True)), set())
    for file in server.files():
        with open(file, "rb") as f:
            equal("the header of " + os.path.basename(file), f.read(8), b"NagiFile")
    code, text, files = export(server, "export", "--encryptionKeyFile", key)
    equal("export", code, 0)
    equal("names", [os.path.basename(f) for f in files], [os.path.basename(f) for f in server.files()])
    read = [decode.read(f) for f in files]
    equal("facts of each file", [len(facts) for facts, _ in read], [1, 1])
    samples = [s for _, found in read for s in found]
    check("the killed server's samples", any(s[INSERTS] == 55 for s in samples), len(samples))
    check("those of the next one", any(s[INSERTS] == 0 for s in samples), len(samples))
    check("facts", read[0][0][0]["getCmdLineOpts"]["parsed"]["security"]["encryptionKeyFile"] == key, read[0][0])
    equal("modes", {oct(os.stat(f).st_mode & 0o777) for f in files}, {"0o600"})
    wrong_exports(server, key)


def wrong_exports(server, key):
    for name, args, env, part in (
        ("without a key", [], None, "the data files are encrypted"),
        ("with a wrong key", ["--encryptionKeyFile", key_file("wrong.key")], None, "the given one is"),
        ("with a wrong directory", ["--encryptionKeyFile", key, "--from", WORK + "/none"], None, "does not exist"),
    ):
        code, text, files = export(server, "export-wrong", *args, env=env)
        check("export " + name, code == 1 and part in text and not files, (code, text, files))
    text = open(key).read().strip()
    code, text, files = export(server, "export-environment", env=dict(os.environ, NAGI_ENCRYPTION_KEY=text))
    check("a key of the environment", code == 0 and len(files) == 2, (code, text))
    code, text = nagi("diagnostics", "--dbpath", server.data, "--out", os.path.join(WORK, "export"), "--encryptionKeyFile", key)
    check("a directory that is not empty", code == 1 and "is not empty" in text, (code, text))
    # A flipped bit in the header of one file: the other one is still exported.
    victim = server.files()[0]
    with open(victim, "r+b") as f:
        f.seek(60)
        byte = f.read(1)
        f.seek(60)
        f.write(bytes([byte[0] ^ 1]))
    code, text, files = export(server, "export-damaged", "--encryptionKeyFile", key)
    check("a damaged file", code == 1 and victim in text and "damaged" in text, (code, text))
    check("the others", any(decode.read(f)[1] for f in files if os.path.basename(f) != os.path.basename(victim)), files)


def plain_files_are_copied():
    with Server("copied", *FAST) as server:
        server.client.test.c.insert_many([{} for _ in range(33)])
        time.sleep(2.5)
        code, text, files = export(server, "copied-running")
        check("copy of a running server", code == 0 and files, (code, text))
    code, text, files = export(server, "copied-stopped")
    equal("copy", code, 0)
    equal("the same bytes", [open(f, "rb").read() for f in files], [open(f, "rb").read() for f in server.files()])
    part = os.path.join(WORK, "part")
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    with open(server.files()[0], "rb") as f:
        content = f.read()
    name = os.path.basename(server.files()[0])
    with open(os.path.join(part, name), "wb") as f:
        f.write(content[:-1])
    with open(os.path.join(part, "metrics.2020-01-01T00-00-00Z-00000"), "wb") as f:
        f.write(b"\xff\xff\xff\x7fgarbage")
    os.mkfifo(os.path.join(part, "metrics.pipe"))
    os.symlink("/etc/passwd", os.path.join(part, "metrics.link"))
    code, text, files = export(server, "copied-part", "--from", part)
    check("garbage is named", code == 1 and "metrics.2020-01-01T00-00-00Z-00000: a record has a wrong length" in text, (code, text))
    copies = {os.path.basename(f): open(f, "rb").read() for f in files}
    check("whole records only", content.startswith(copies[name]) and 0 < len(copies[name]) < len(content) - 1, len(copies[name]))
    check("no pipe and no link", not {"metrics.pipe", "metrics.link"} & set(copies), list(copies))


PARTS = [nothing_is_in_the_clear, plain_files_are_copied]
