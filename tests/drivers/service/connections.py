"""Thousands of connections: the time to open them, and what an idle one holds in memory."""
import resource
import selectors
import socket
import time

from server import HELLO, PING, Server, check, figure, wait_until

COUNT = 5000
SECONDS_MAX = 10
IDLE_KIB_MAX = 40


def open_all(port):
    """Connections that have sent a `hello`."""
    peers = []
    for _ in range(COUNT):
        peer = socket.create_connection(("127.0.0.1", port), 10)
        peers.append(peer)
        peer.sendall(HELLO)
    return peers


def read_all(peers):
    """Reads a reply from every connection, within a minute."""
    until, waiting, bad = time.monotonic() + 60, selectors.EpollSelector(), 0
    for peer in peers:
        waiting.register(peer, selectors.EVENT_READ)
    left = len(peers)
    while left and time.monotonic() < until:
        for key, _ in waiting.select(1):
            bad += len(key.fileobj.recv(65536)) <= 16
            waiting.unregister(key.fileobj)
            left -= 1
    waiting.close()
    check("every connection has its reply", left == 0 and bad == 0, (left, bad))


def run():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server, peers = Server("connections"), []
    try:
        wait_until(lambda: server.admin.command("ping")["ok"] == 1)
        before, threads = server.resident(), server.threads()
        began = time.monotonic()
        peers = open_all(server.port)
        read_all(peers)
        seconds = time.monotonic() - began
        check("%d connections within %d s" % (COUNT, SECONDS_MAX), seconds <= SECONDS_MAX, seconds)
        fresh = (server.resident() - before) / COUNT / 1024
        current = server.admin.command("serverStatus")["connections"]["current"]
        check("serverStatus counts them", current >= COUNT, current)
        check("idle connections hold no threads", wait_until(lambda: server.threads() <= threads + 10, 60), server.threads())
        idle = (server.resident() - before) / COUNT / 1024
        check("an idle connection holds at most %d KiB" % IDLE_KIB_MAX, idle <= IDLE_KIB_MAX, idle)
        began = time.monotonic()
        for peer in peers:
            peer.sendall(PING)
        read_all(peers)
        again = time.monotonic() - began
        check("all of them continue within %d s" % SECONDS_MAX, again <= SECONDS_MAX, again)
        figure("%d connections: opened in %.2f s; %.1f KiB each at once, %.1f KiB when idle; all pinged in %.2f s", COUNT, seconds, fresh, idle, again)
    finally:
        for peer in peers:
            peer.close()
        check("closed ones are gone", wait_until(lambda: server.admin.command("serverStatus")["connections"]["current"] <= 10, 30))
        server.remove()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
