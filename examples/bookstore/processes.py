"""Children that end with this program, however it ends."""

import signal
import subprocess
import sys

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_on_signals():
    """Turns a request to end into an exception, so that every `with` cleans up undisturbed."""
    def leave(number, _frame):
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    for one in ENDING:
        signal.signal(one, leave)


def start(command, **more):
    """Starts a child that the terminal's Ctrl-C does not reach: this program ends it, in order."""
    return subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, start_new_session=True, **more
    )


def stop(child, number=signal.SIGTERM, patience_s=20):
    """Ends a child: on request, and after a while by force."""
    if child.poll() is None:
        child.send_signal(number)
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
