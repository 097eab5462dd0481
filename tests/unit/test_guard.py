"""What a process starts: it dies with it, holds its lock until then, and is hit with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from resolver.broker.locks import FileLock
from tests.faults.process import Victim
from tests.support.patience import wait_until

#: Takes a lock and starts a guarded command with it; says which process that is.
OWNER = """
import sys, time
from pathlib import Path
from resolver.broker.guard import Guarded
from resolver.broker.locks import FileLock
lock = FileLock(Path("lock"))
assert lock.try_acquire()
child = Guarded(["sleep", "600"], Path.cwd(), Path("out"), (lock.fileno(),))
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_holds_its_owners_lock_until_it_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        owner.kill()
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire_after(60)
    assert not psutil.pid_exists(child)


def test_what_a_process_has_started_in_another_session_is_hit_too(tmp_path: Path) -> None:
    (tmp_path / "owner.py").write_text(OWNER)
    lock = os.open(tmp_path / "victims", os.O_CREAT)
    log = tmp_path / "log"
    victim = Victim("a victim", ["owner"], tmp_path, log, dict(os.environ), lock, 10)
    wait_until(lambda: log.exists() and log.read_text().endswith("\n"))
    child = psutil.Process(int(log.read_text()))
    assert child in victim.members()
    victim.end()
    os.close(lock)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_one_whose_guard_has_not_seen_its_end_yet_is_stopped_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("import time\ntime.sleep(600)\n")
    lock = os.open(tmp_path / "victims", os.O_CREAT)
    victim = Victim("a victim", ["sleeper"], tmp_path, tmp_path / "log", dict(os.environ), lock, 10)
    [guard] = [one for one in victim.members() if one.ppid() == os.getpid()]
    wait_until(lambda: len({tuple(one.cmdline()) for one in guard.children()}) == 2)
    [watcher] = [one for one in guard.children() if one.cmdline() == guard.cmdline()]
    [command] = [one for one in guard.children() if one != watcher]
    watcher.suspend()  # for whose end the guard waits before it ends itself
    # Until it has stopped, the guard's SIGTERM would come first, and end it.
    wait_until(lambda: watcher.status() == psutil.STATUS_STOPPED)
    victim.kill()
    wait_until(lambda: not psutil.pid_exists(command.pid))
    assert not victim.ended
    assert victim.stop(0, lambda: None) is None
    os.close(lock)
    assert not psutil.pid_exists(guard.pid)
