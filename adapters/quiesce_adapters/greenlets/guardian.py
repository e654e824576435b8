"""Who ends the process group of a job when its owner dies? This program, one for each job.

It is started by the owner in a session of its own, alone and with nothing but the standard library, and
starts the job in a group of its own. It ends the group when the owner says so, which it does by closing the
pipe that is our standard input; the kernel closes that when the owner dies, however it dies. Another process
that waits for the job says so by TERM.

Ending is TERM to the group, and KILL to what is left after the grace. The leader is reaped last: until then
nobody else can have its number, so that only this job's group is ever signalled. The proof that all is over
is a lock (`flock`) on the job's file: its open description is inherited by whatever the job starts, so it is
free when the last of them has gone.

Usage: guardian.py LOCK GRACE, and one line of JSON: argv, cwd, env, log. It answers with a line: the pid, or
what was wrong.

Source: spec team, "drain"; cases team 86, 91, 92.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

__all__ = ["main"]


def _start(lock: str) -> tuple[subprocess.Popen[bytes], int]:
    """The job, which holds the lock from before its first statement on, and a file to ask for it.

    Raises OSError.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    output = asked["log"] or os.devnull
    try:
        with open(output, "ab") as log:
            job = subprocess.Popen(
                asked["argv"],
                cwd=asked["cwd"],
                env=asked["env"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(held,),
            )
        return job, os.open(lock, os.O_RDWR)
    finally:
        os.close(held)


def _to_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left who could hear it


def main() -> int:
    """Run the job, and end it when that is asked for; how it ended, as a shell says it."""
    lock, grace = sys.argv[1], float(sys.argv[2])
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: over.set())
    try:
        job, proof = _start(lock)
    except OSError as error:
        print(json.dumps({"errno": error.errno, "problem": str(error)}), flush=True)
        return 127
    print(json.dumps({"pid": job.pid}), flush=True)
    gone, ended = threading.Event(), threading.Event()

    def aside(work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def listen() -> None:
        while os.read(0, 1):  # not by the buffer, whose lock a thread may not hold when the interpreter ends
            pass
        over.set()

    def watch() -> None:
        os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
        ended.set()
        fcntl.flock(proof, fcntl.LOCK_EX)
        gone.set()
        over.set()

    aside(listen)
    aside(watch)
    over.wait()
    if not gone.is_set():
        _to_group(job.pid, signal.SIGTERM)
        gone.wait(grace)
    _to_group(job.pid, signal.SIGKILL)  # also what has closed its files, and gives no proof
    gone.wait()
    code = job.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
