"""The example's requirements besides Python: Debian's PostgreSQL, the client libraries, the server.

Anything already there is left alone. Anything missing that cannot be had ends the run with a line
that names it and the reason, and exit status 3.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from options import OUTPUT, REPOSITORY

VENV = OUTPUT / "venv"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
# Debian starts a service on installation unless this program forbids it.
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")


class Missing(Exception):
    """A requirement of the example is missing and cannot be had."""


def postgres_programs():
    """The folder of the newest PostgreSQL server that Debian installed, or None."""
    folders = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    folders = [p for p in folders if (p / "postgres").exists() and p.parent.name.isdigit()]
    return max(folders, key=lambda p: int(p.parent.name), default=None)


def everything(options):
    """Installs missing requirements; returns the server's program and the virtual Python."""
    install = not options.no_install
    debian(install)
    return larder(options.larder), python(install)


def debian(install):
    """Debian's packages, installed without starting their services."""
    missing = [] if postgres_programs() else ["postgresql"]
    if not has_venv():
        missing.append("python3-venv")
    if not missing:
        return
    if not install:
        raise Missing(f"not installed: {' '.join(missing)}")
    if not shutil.which("apt-get"):
        raise Missing(f"{' '.join(missing)}: not installed, and there is no apt-get to do it")
    print(f"installing {' '.join(missing)}", flush=True)
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    forbid = not sudo and not SERVICE_POLICY.exists()
    if forbid:
        SERVICE_POLICY.write_text("#!/bin/sh\nexit 101\n")
        SERVICE_POLICY.chmod(0o755)
    try:
        call([*sudo, "apt-get", "update", "-q"])
        apt = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing]
        call([*sudo, *environment, *apt])
    finally:
        if forbid:
            SERVICE_POLICY.unlink()
    if not postgres_programs():
        raise Missing("postgresql: apt-get installed it, yet no initdb is in /usr/lib/postgresql")


def has_venv():
    """Whether this Python can make a virtual environment."""
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def python(install):
    """The Python of a virtual environment that has the pinned libraries."""
    program, stamp = VENV / "bin" / "python", VENV / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if program.exists() and stamp.exists() and stamp.read_text() == wanted:
        return program
    if not install:
        raise Missing("the libraries of requirements.txt are not installed")
    print("installing the libraries of requirements.txt", flush=True)
    call([sys.executable, "-m", "venv", VENV])
    call([VENV / "bin" / "pip", "install", "-q", "-r", REQUIREMENTS])
    stamp.write_text(wanted)
    return program


def larder(given):
    """The server's program: the given one, or the one that cargo builds."""
    if given:
        if not os.access(given, os.X_OK):
            raise Missing(f"{given} is no program")
        return given.resolve()
    built = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release" / "larder"
    if shutil.which("cargo"):
        command = ["cargo", "build", "-q", "--release", "-p", "larder-server"]
        call(command, cwd=REPOSITORY)
    if not built.exists():
        raise Missing(f"{built} is not there, and no cargo to build it")
    return built


def call(command, **more):
    """Runs a command; its output is shown only where it failed."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=900, **more,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise Missing(f"`{' '.join(command)}`: {failure}") from failure
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise Missing(f"`{' '.join(command)}` failed:\n{last}")
