"""Runs a server until Ctrl-C: python -m nagi_server [options] [-- options of nagi serve]."""
import argparse
import signal
import sys
import time

from . import StartError, binary_path, start


def main():
    parser = argparse.ArgumentParser(prog="python -m nagi_server", description="Runs a server for tests until Ctrl-C.")
    parser.add_argument("--port", type=int, default=0, help="TCP port; 0, the default, selects a free one")
    parser.add_argument("--standalone", action="store_true", help="no replica set")
    parser.add_argument("--cache-mb", type=float, help="the most data in MiB")
    parser.add_argument("--log", action="store_true", help="copy the server's log to standard error")
    parser.add_argument("--path", action="store_true", help="print the path of the server's program, and exit")
    parser.add_argument("args", nargs="*", help="options of nagi serve, after --")
    options = parser.parse_args()
    if options.path:
        print(binary_path())
        return 0
    try:
        server = start(replset=not options.standalone, port=options.port, cache_mb=options.cache_mb, args=options.args)
    except (StartError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server:
        try:
            print(server.uri, flush=True)
            copied = 0
            while server.is_running():
                if options.log:
                    new = server._read(copied)
                    copied += len(new)
                    sys.stderr.write(new.decode("utf-8", "replace"))
                    sys.stderr.flush()
                time.sleep(0.1)
        except KeyboardInterrupt:
            return 0
    print("the server has ended:\n" + server.log(20), file=sys.stderr)
    return 1


sys.exit(main())
