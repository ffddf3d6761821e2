#!/usr/bin/env python3
"""The commands of the manual's blocks: called as nagi, mongosh, mongodump ... through links in the PATH of a block.

They fill in what a page leaves out: the port of the page's server. `nagi serve` starts the server in the background,
in place of the page's earlier one, and returns when it accepts connections; if it ends instead, its log and its exit
code are those of the command.
"""
import os
import re
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import processes

PORT = os.environ["MANUAL_PORT"]
HOME = os.environ["MANUAL_HOME"]
TOOLS = os.environ["MANUAL_TOOLS"]
NAGI = os.environ["MANUAL_NAGI"]
AT_ONCE = {"--help", "-h", "--version", "--repair", "--shutdown", "--fork"}


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def stop(port):
    path = os.path.join(HOME, "server-%d.pid" % port)
    if not os.path.exists(path):
        return
    with open(path) as f:
        pid = int(f.read())
    os.unlink(path)
    processes.stop(pid)


def port_of(args):
    """The port in the arguments or in the configuration file; without one the page's port is added."""
    for at, arg in enumerate(args):
        if arg.startswith("--port="):
            return int(arg[7:]), args
        if arg == "--port":
            return int(args[at + 1]), args
        if arg in ("-f", "--config"):
            with open(args[at + 1]) as f:
                found = re.search(r"^\s*port:\s*(\d+)", f.read(), re.M)
            if found:
                return int(found.group(1)), args
    return int(PORT), args + ["--port", PORT]


def serve(args):
    if AT_ONCE & set(args):
        if "--shutdown" not in args and "--fork" not in args:
            stop(int(PORT))
        os.execv(NAGI, [NAGI, "serve"] + args)
    port, args = port_of(args)
    stop(port)
    log = os.path.join(HOME, "server-%d.log" % port)
    with open(log, "wb") as out:
        server = subprocess.Popen([NAGI, "serve"] + args, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  start_new_session=True)
    if processes.wait(lambda: server.poll() is not None or listens(port), 60) and server.poll() is None:
        with open(os.path.join(HOME, "server-%d.pid" % port), "w") as f:
            f.write(str(server.pid))
        return 0
    with open(log) as f:
        print(f.read(), end="")
    if server.poll() is None:
        server.kill()
    return server.wait()


def main():
    name, args = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name == "nagi":
        if args[:1] == ["serve"]:
            sys.exit(serve(args[1:]))
        os.execv(NAGI, [NAGI] + args)
    if name == "nagi-bench":
        os.execv(NAGI + "-bench", [name] + args)
    if name == "mongosh":
        if not any(a.startswith("mongodb://") or a == "--port" or a == "--help" for a in args):
            args = ["--host", "127.0.0.1", "--port", PORT] + args
        node, shell = os.environ["MANUAL_MONGOSH"].split(":")
        os.execv(node, [node, shell, "--norc", "--quiet"] + args)
    if name != "bsondump" and not any(a.startswith(("--uri", "mongodb://", "--port", "--help", "--version")) for a in args):
        args = ["--port", PORT] + args
    tool = os.path.join(TOOLS, name)
    os.execv(tool, [tool] + args)


if __name__ == "__main__":
    main()
