"""The audit of a world, by the command that an operator would use, and whether all has landed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from subprocess import CompletedProcess
from tempfile import TemporaryFile

from resolver.demo.processes import clean_environment

from .network.bare import BareWorld
from .results import Audit
from .scenery import SHORTENED
from .world import World

_SECONDS = 1_800.0
#: Whatever the settings are now: the time-out by which no check came too early.
_SHORTEST = f"--set=transaction_timeout_ms={SHORTENED['transaction_timeout_ms']}"
#: What it has by default, whatever the resolver was given.
_MEMORY = "--set=spark.driver.memory=2g"
#: All brokers go by the clock of one machine: what is left to allow for is how long a batch takes.
_ONE_CLOCK = "--set=broker_clock_skew_ms=5000"
#: What is judged of a world that has come to its end; of all else the audit must count none.
_JUDGED = {"halves", "outcomes", "refused_halves"}
#: Of messages to a topic that is not there.
_NOWHERE = "halves_of_topics_not_read"


def audit(world: World, name: str) -> Audit:
    """Audit the tables and the real topics of a drained world; a violation is exit code 1."""
    if isinstance(world, BareWorld):
        return world.audit(name)
    servers = world.settings.bootstrap_servers
    landed = _run(world, "tests.faults.completeness", str(world.tables), servers)
    if landed.returncode:
        return Audit(name, 1, (landed.stdout + landed.stderr).strip())
    done = run_audit(world)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        return Audit(name, done.returncode, said)
    counts: dict[str, int] = json.loads(done.stdout)["counts"]
    left = not_judged(counts, world.judge.verdict.settled, world.undeliverable())
    return Audit(name, 1 if left else 0, left or said, counts["outcomes"])


def not_judged(counts: dict[str, int], settled: int, undeliverable: int) -> str:
    """Say what an audit has not judged; empty if it has judged all that the judge saw end."""
    left = {name: count for name, count in counts.items() if count and name not in _JUDGED}
    if left.get(_NOWHERE, 0) <= undeliverable:
        left.pop(_NOWHERE, None)
    if left or counts["outcomes"] < settled:
        return f"{settled} halves ended, {counts['outcomes']} outcomes were audited; {left}"
    return ""


def run_audit(world: World) -> CompletedProcess[str]:
    """Run it; it may be beside the resolver."""
    there = ["--home", str(world.resolver_home), *world.sets, _SHORTEST, _MEMORY]
    clock = [] if world.scenery.own_clock else [_ONE_CLOCK]
    return _run(world, "resolver", "audit", "--topics", "--json", *there, *clock)


def _run(world: World, *program: str) -> CompletedProcess[str]:
    """Run a program of ours, on the world's disk if it has one, while the judge reads on."""
    prefix = world.disk.prefix if world.disk is not None else []
    command = [*prefix, sys.executable, "-m", *program]
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        running = subprocess.Popen(
            command,
            stdout=output,
            stderr=errors,
            env=clean_environment(),
            start_new_session=True,  # Ctrl-C is for the campaign
        )
        try:
            world.until(lambda: running.poll() is not None, "the audit does not end", _SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            status = running.wait()
        for stream in (output, errors):
            stream.seek(0)
        return CompletedProcess(command, status, output.read(), errors.read())
