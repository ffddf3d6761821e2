"""Builds the packages for tests in other projects, installs them without network, and tests them: packages.py NAGI WORK
SITE NODE MODULES.

SITE has the drivers and pytest, MODULES the folder node_modules with the drivers and the test runners, which are not
part of the packages. Python's and Node's part are programs of their own, which run as a project's tests would: in a
fresh environment, with a folder for temporary files in which nothing may remain.
"""
import base64
import csv
import glob
import hashlib
import io
import os
import shutil
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from checks import check, equal, finish, require, section, wait_until  # noqa: E402
import page  # noqa: E402

NAGI, WORK, SITE, NODE, MODULES = map(os.path.abspath, sys.argv[1:])
PACKAGES = os.path.join(HERE, "..", "..", "..", "packages")
OUT, TEMPORARY, PROJECT = (os.path.join(WORK, name) for name in ("out", "tmp", "project"))
VENV = os.path.join(WORK, "venv")
MIB = 1 << 20
ENVIRONMENT = dict(
    os.environ,
    HOME=os.path.join(WORK, "home"),
    # The list of the libraries' licenses comes from cargo, which looks for these in the home.
    CARGO_HOME=os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo")),
    RUSTUP_HOME=os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")),
    NAGI_PACK_LEVEL="1",
    PATH=os.pathsep.join([VENV + "/bin", os.path.dirname(NODE), os.environ["PATH"]]),
    PIP_NO_INDEX="1",
    PYTHONDONTWRITEBYTECODE="1",
    TMPDIR=TEMPORARY,
    VIRTUAL_ENV=VENV,
    npm_config_audit="false",
    npm_config_cache=os.path.join(WORK, "home", "npm"),
    npm_config_fund="false",
    npm_config_offline="true",
    npm_config_update_notifier="false",
)
ENVIRONMENT.pop("PYTHONPATH", None)


def run(*command, timeout=300, **options):
    """Runs a command and returns its output; fails with the output if the command does."""
    ended = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=timeout, **options)
    require(ended.returncode == 0, "%s: %d\n%s" % (" ".join(command), ended.returncode, ended.stdout[-4000:]))
    return ended.stdout


def built(kind):
    return run(sys.executable, os.path.join(PACKAGES, kind, "build.py"), NAGI, OUT).split()[-1]


def project():
    """Folders and environments: the project's node_modules climbs to the one of the folder above."""
    for folder in (OUT, TEMPORARY, PROJECT, ENVIRONMENT["HOME"]):
        os.makedirs(folder)
    os.symlink(MODULES, os.path.join(WORK, "node_modules"))
    run(sys.executable, "-m", "venv", "--without-pip", VENV)
    site = glob.glob(VENV + "/lib/python3*/site-packages")[0]
    with open(os.path.join(site, "drivers.pth"), "w") as f:
        f.write(SITE + "\n")
    # The drivers' environment lends its pip, which installs into this one.
    with open(VENV + "/bin/pip", "w") as f:
        f.write('#!/bin/sh\nexec "%s" -m pip --python "%s/bin/python" -q "$@"\n' % (sys.executable, VENV))
    with open(VENV + "/bin/pytest", "w") as f:
        f.write('#!/bin/sh\nexec "%s/bin/python" -m pytest -p no:cacheprovider -q "$@"\n' % VENV)
    for name in ("pip", "pytest"):
        os.chmod(os.path.join(VENV, "bin", name), 0o755)
    with open(os.path.join(PROJECT, "package.json"), "w") as f:
        f.write('{"private": true}')


def contents_of(wheel):
    """The wheel is what its own list says, and what its name promises."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        rows = {name: digest for name, digest, _ in csv.reader(io.StringIO(archive.read(record).decode()))}
        equal("files of the wheel", set(archive.namelist()), set(rows))
        for name, digest in rows.items():
            seen = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            check("digest of " + name, name == record or digest == "sha256=" + seen)
        check("a license", any(name.endswith("/LICENSE") for name in rows))
        program = archive.getinfo("nagi_server/bin/nagi")
        check("a program that may run", program.external_attr >> 16 & 0o111 == 0o111)
        check("stripped", program.file_size < os.path.getsize(NAGI), program.file_size)
    return program.file_size


def other_pythons():
    """The oldest and the newest that the package supports, as far as they are installed."""
    site = glob.glob(VENV + "/lib/python3*/site-packages")[0]
    seen = []
    for minor in range(8, 16):
        python = shutil.which("python3.%d" % minor)
        code = "import sys; sys.path.insert(0, %r); sys.argv = ['']; exec(open(%r).read())" % (
            site, os.path.join(HERE, "without_driver.py"))
        if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            run(python, "-c", code)
            seen.append("3.%d" % minor)
    print("Python without driver: %s" % ", ".join(seen))


def python_part():
    print(run(VENV + "/bin/python", os.path.join(HERE, "python_checks.py"), PROJECT), end="")
    other_pythons()


def node_part():
    for name in ("node_checks.mjs", "memory_server.cjs"):
        shutil.copy(os.path.join(HERE, name), PROJECT)
        print(run(NODE, name, cwd=PROJECT), end="")
        os.remove(os.path.join(PROJECT, name))


def servers():
    """The command lines of the packages' servers that run."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if words[0].startswith((VENV, PROJECT)) and words[0].endswith("/bin/nagi"):
            found.append(" ".join(words))
    return found


def timed(what, part, *args):
    """Runs a part of the program, and prints how long it took."""
    begin, cpu = time.monotonic(), sum(os.times()[:4])
    section(part, *args)
    print("%s: %.1f s, %.1f s of them on processors" % (what, time.monotonic() - begin, sum(os.times()[:4]) - cpu))


def main():
    timed("packages", packed)
    page_path = os.path.join(HERE, "..", "..", "..", "docs", "test-servers.md")
    timed("page", page.run, page_path, PROJECT, ENVIRONMENT)
    timed("Python", python_part)
    timed("Node.js", node_part)
    check("no server remains", wait_until(lambda: not servers()), servers())
    of_runners = ("jest_", "node-compile-cache", "pytest-of-")
    remains = [name for name in os.listdir(TEMPORARY) if not name.startswith(of_runners)]
    equal("files that remain in the folder for temporary files", remains, [])
    finish("packages")


def packed():
    project()
    with ThreadPoolExecutor() as pool:
        wheel, package = pool.map(built, ("python", "node"))
    sizes = [size / MIB for size in (os.path.getsize(wheel), os.path.getsize(package), contents_of(wheel))]
    print(os.path.basename(wheel), "%.1f MiB; npm package: %.1f MiB; program in them: %.1f MiB" % tuple(sizes))
    for path in (wheel, package):
        shutil.copy(path, PROJECT)


main()
