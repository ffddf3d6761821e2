#!/usr/bin/env python3
"""Builds the wheel of nagi_server with a program in it: build.py NAGI FOLDER. Prints the wheel's path.

It needs no packages and no network: a wheel is an archive with a list of its files. The same program gives the same
bytes.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import elf  # noqa: E402
import notices  # noqa: E402

MODULES = ["__init__.py", "__main__.py", "_process.py", "pytest_plugin.py", "py.typed"]
METADATA = """Metadata-Version: 2.1
Name: nagi-server
Version: {version}
Summary: A MongoDB-compatible server for tests, with the program inside
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Framework :: Pytest
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: nagi\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
ENTRY_POINTS = "[pytest11]\nnagi_server = nagi_server.pytest_plugin\n"


def text(*path):
    with open(os.path.join(HERE, *path), encoding="utf-8") as f:
        return f.read()


def stripped(program):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "nagi")
        subprocess.run(["strip", "-s", "-o", out, program], check=True)
        with open(out, "rb") as f:
            return f.read()


def main(program, folder):
    version = re.search(r'__version__ = "(.*)"', text("nagi_server", "__init__.py")).group(1)
    platform = elf.wheel_platform(program)
    info = "nagi_server-%s.dist-info" % version
    files = {"nagi_server/" + name: text("nagi_server", name).encode() for name in MODULES}
    files["nagi_server/bin/nagi"] = stripped(program)
    files[info + "/METADATA"] = METADATA.format(version=version, readme=text("README.md")).encode()
    files[info + "/WHEEL"] = WHEEL.format(platform=platform).encode()
    files[info + "/entry_points.txt"] = ENTRY_POINTS.encode()
    files.update((info + "/" + name, data) for name, data in notices.files().items())
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    files[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "nagi_server-%s-py3-none-%s.whl" % (version, platform))
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if name.endswith("/bin/nagi") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data, compresslevel=int(os.environ.get("NAGI_PACK_LEVEL", "9")))
    os.rename(path + ".part", path)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
