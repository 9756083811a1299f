"""A private PostgreSQL: a cluster in a temporary folder, removed when the `with` ends.

It listens only on a Unix socket in that folder, so it takes no port and only this user reaches it.
Nothing is synced to disk. Queries run in one process each and are not compiled, so that their cost
depends less on how busy the machine is.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

import processes

SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "256MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}
READY_S = 30


class Failed(Exception):
    """PostgreSQL did not start; the message holds its output."""


class Cluster:
    """Starts PostgreSQL when entered; `connect` gives a session with it."""

    def __init__(self, programs):
        self.programs = programs
        self.child = None
        # PostgreSQL refuses to run as root, so root runs it as Debian's postgres user.
        self.identity = {}
        if os.geteuid() == 0:
            try:
                user = pwd.getpwnam("postgres")
            except KeyError as missing:
                raise Failed("root cannot run PostgreSQL, and has no user postgres") from missing
            self.identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="larder-bookstore-"))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.child:
            # The "fast" shutdown, which does not wait for sessions.
            processes.stop(self.child, signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self):
        """A session that commits each statement."""
        where = f"host={self.folder} dbname=postgres user=bookstore"
        return psycopg.connect(where, autocommit=True)

    def _start(self):
        if self.identity:
            os.chown(self.folder, self.identity["user"], self.identity["group"])
        data, log = self.folder / "data", self.folder / "log"
        done = subprocess.run(
            [self.programs / "initdb", "-D", data, "-U", "bookstore", "-A", "trust", "-N",
             "--locale=C.UTF-8", "-E", "UTF8"],
            cwd=self.folder, capture_output=True, text=True, check=False, **self.identity,
        )
        if done.returncode:
            raise Failed(f"initdb: {done.stderr.strip()}")
        settings = {**SETTINGS, "unix_socket_directories": self.folder}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with log.open("w") as out:
            self.child = processes.start(
                [self.programs / "postgres", "-D", data, *words],
                cwd=self.folder, stdout=out, stderr=out, **self.identity,
            )
        self._wait(log)

    def _wait(self, log):
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError as failure:
                if self.child.poll() is not None or time.monotonic() > deadline:
                    said = log.read_text().strip()
                    raise Failed(f"PostgreSQL did not start: {failure}\n{said}") from failure
                time.sleep(0.05)
