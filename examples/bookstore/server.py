"""Larder as a child on a free port of 127.0.0.1, and its counters."""

import re
import socket
import subprocess
from urllib.parse import unquote

from pymemcache.client.base import Client

import processes


class Failed(Exception):
    """The server did not start; the message holds its output."""


class Server:
    """Starts Larder when entered."""

    def __init__(self, program, policy, memory_mb):
        # With port 0 the kernel chooses a free one, so no port is already taken.
        self.command = [program, "-l", "127.0.0.1", "-p", "0", "-m", memory_mb, "-t", 2,
                        "--policy", policy]

    def __enter__(self):
        self.child = processes.start(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            self.port = self._listening()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        processes.stop(self.child)
        self.child.stdout.close()

    def connect(self):
        """A pymemcache client; only a store waits for its reply, so that none is lost."""
        return Client(("127.0.0.1", self.port), no_delay=True, default_noreply=False)

    def counters(self):
        """The answer to `stats`, by name."""
        client = self.connect()
        try:
            return {name.decode(): value for name, value in client.stats().items()}
        finally:
            client.close()

    def costs_us(self):
        """The server's estimates of its items' costs: pairs of key and microseconds."""
        # By hand: pymemcache's `raw_command` gives the end of a long reply only.
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(b"lru_crawler metadump all\r\nquit\r\n")
            lines = connection.makefile("rb").read().splitlines()
        found = (re.match(rb"key=(\S+) .*cost=(\d+)", line) for line in lines)
        return [(unquote(one[1].decode()), int(one[2])) for one in found if one]

    def _listening(self):
        """The port that the server prints when it listens."""
        line = self.child.stdout.readline()
        port = re.search(r":(\d+)$", line.strip())
        if not port:
            said = line + self.child.stdout.read()
            raise Failed(f"{' '.join(map(str, self.command))}: {said.strip()}")
        return int(port.group(1))
