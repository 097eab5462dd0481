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
from .world import World
from .world_kind import SHORTENED

_SECONDS = 1_800.0
#: The first time-out, whatever it is now: by it no check came too early.
_SHORTEST = f"--set=transaction_timeout_ms={SHORTENED['transaction_timeout_ms']}"
#: Spark's default memory, whatever the resolver was given.
_MEMORY = "--set=spark.driver.memory=2g"
#: All brokers go by the clock of one machine: only the time of a batch is left to allow for.
_ONE_CLOCK = "--set=broker_clock_skew_ms=5000"
#: The counts of what the audit judges. In a world that is at its end, all other counts must be 0.
_JUDGED = {"halves", "outcomes", "refused_halves"}
#: The count of halves to topics that are not there.
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
    output = (done.stdout + done.stderr).strip()
    if done.returncode:
        return Audit(name, done.returncode, output)
    counts: dict[str, int] = json.loads(done.stdout)["counts"]
    unjudged = not_judged(counts, world.judge.verdict.settled, world.undeliverable())
    return Audit(name, 1 if unjudged else 0, unjudged or output, counts["outcomes"])


def not_judged(counts: dict[str, int], settled: int, undeliverable: int) -> str:
    """Say what an audit has not judged; empty if it has judged all that the judge saw end."""
    unjudged = {name: count for name, count in counts.items() if count and name not in _JUDGED}
    if unjudged.get(_NOWHERE, 0) <= undeliverable:
        unjudged.pop(_NOWHERE, None)
    if unjudged or counts["outcomes"] < settled:
        return f"{settled} halves ended, {counts['outcomes']} outcomes were audited; {unjudged}"
    return ""


def run_audit(world: World) -> CompletedProcess[str]:
    """Run the audit; the resolver may run beside it."""
    arguments = ["--home", str(world.resolver_home), *world.sets, _SHORTEST, _MEMORY]
    clock = [] if world.kind.own_clock else [_ONE_CLOCK]
    return _run(world, "resolver", "audit", "--topics", "--json", *arguments, *clock)


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
