"""Several faults at once: of the resolver and Kafka, or of two or more of all four processes."""

from __future__ import annotations

import random
import signal
from dataclasses import replace

from resolver.spark.points import Point

from .doomed import Doom
from .fault import Done, Fault
from .killed import see_alive, see_cut_short, see_dead, see_killed
from .points import RESOLVE_POINTS
from .process import Victim
from .stops import halted
from .world import World

#: Most ms after the line until both are killed: a commit is under way, or just done.
_AFTER_MS = 20.0
#: Most seconds that the resolver is without Kafka before it is killed; its successor twice as long.
_SECONDS = 3.0


def kill_several(world: World, chance: random.Random) -> Done:
    """Kill two or more of all four at once."""
    names = ["resolver", "agent", "load", "broker"]
    chosen = chance.sample(names, chance.randrange(2, 5))
    world.pause(chance.uniform(0, 2))
    victims = [world.take_down(name) for name in chosen]
    for victim in victims:
        victim.end()
    world.mark()
    proofs = [f"{victim.name}: {see_killed(victim)}" for victim in victims]
    if "broker" in chosen:
        proofs.append(see_cut_short(world))
    # Kafka first: nothing else comes up without it.
    for name in sorted(chosen, key=["broker", "resolver", "agent", "load"].index):
        if name == "resolver":
            world.see_whole()
        getattr(world, f"start_{name}")()
    return Done(f"kill -9 of {', '.join(sorted(chosen))}", "; ".join(proofs))


def kill_both_at(point: Point) -> Fault:
    """Return the fault of a resolver that is killed together with Kafka at a line of its log."""

    def kill(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 1))
        after_ms = chance.choice([0.0, chance.uniform(0, _AFTER_MS)])
        resolver, broker = _hit_broker(world, Doom(point, after_ms=after_ms))
        see_dead(world, resolver, "all")
        how = see_killed(resolver)
        proof = f"{resolver.hit_at}; {how}; {_see_whole_after(world, broker)}"
        world.start_resolver()
        return Done(f"kill -9 of both, {after_ms:.0f} ms after", proof)

    return kill


def kill_while_halted(world: World, chance: random.Random) -> Done:
    """Halt Kafka in a Kafka transaction, kill the resolver, and let Kafka go on.

    Kafka then finds the requests of the dead resolver, such as a commit, and those of its
    successor. The successor starts before Kafka goes on, or after.
    """
    doom = Doom(Point.WRITTEN, "none", signal.SIGSTOP)
    resolver, broker = _hit_broker(world, doom)
    world.until(lambda: halted(broker), "Kafka can't be halted")
    proof = f"{resolver.hit_at}; halted: {', '.join(sorted(halted(broker)))}"
    world.pause(chance.uniform(0, _SECONDS))
    see_alive(resolver)
    resolver.hit("all")
    see_dead(world, resolver, "all")
    proof += f"; {see_killed(resolver)}"
    is_succeeded = chance.random() < 0.5
    if is_succeeded:
        world.start_resolver()
        world.pause(chance.uniform(0, 2 * _SECONDS))
    broker.hit("all", signal.SIGCONT)
    world.broker = broker
    world.mark()
    if not is_succeeded:
        world.see_whole()
        world.start_resolver()
    when = "after" if is_succeeded else "before"
    return Done(f"kill -9, Kafka halted until {when} the next start", proof)


def kill_while_down(world: World, chance: random.Random) -> Done:
    """Kill Kafka at a named point, then the resolver, which does what it can without it."""
    point = chance.choice(list(RESOLVE_POINTS))
    resolver, broker = _hit_broker(world, Doom(RESOLVE_POINTS[point], "none"))
    seconds = chance.uniform(0, 2 * _SECONDS)
    world.pause(seconds)
    how = "ended by itself" if resolver.ended else "kill -9"
    resolver.hit("all")
    see_dead(world, resolver, "all")
    proof = _see_whole_after(world, broker)
    world.start_resolver()
    return Done(f"{how}, {seconds:.1f} s after Kafka's", f"{resolver.hit_at}; {proof}")


def _hit_broker(world: World, doom: Doom) -> tuple[Victim, Victim]:
    """Let Kafka be hit by a doom of the resolver; return both when that was done."""
    resolver, broker = world.take_down("resolver"), world.take_down("broker")
    world.doom(replace(doom, others=[member.pid for member in broker.members()]))
    world.until(lambda: resolver.hit_at, "the resolver does not come to the point")
    return resolver, broker


def _see_whole_after(world: World, broker: Victim) -> str:
    """Start Kafka, which was killed, and see what the two have left; return what shows it."""
    broker.end()
    proof = see_cut_short(world)
    world.start_broker()
    world.see_whole()
    return proof
