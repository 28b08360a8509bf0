"""Random fleets until stopped, or one of them again: `python -m tests.sync.simulate [SEED] [--steps 3,7,12]`.

Without a seed: one after another from a random one on, until one fails or it is interrupted. Of one that fails, the steps that it needs and
the command that repeats it are printed. A seed means the same fleet at the same commit only.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from itertools import count

from streams.model.errors import LandfallError
from tests.sync.plans import Plan, Step, plan_of
from tests.sync.voyages import Voyage

TOLD_EVERY = 500
FAILURES = (AssertionError, LandfallError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What does not hold, and what errors in the code look like."""


def failure(plan: Plan) -> str | None:
    """What does not hold, None when all does. An error that nobody meant to raise is a failure like any other."""
    try:
        Voyage(plan).sail()
    except FAILURES as problem:
        return f"{type(problem).__name__}: {problem}"
    return None


def shrunk(plan: Plan, fails: Callable[[Plan], bool]) -> list[int]:
    """The numbers of the steps that are needed for the plan to fail: without any one of them it does not."""
    kept = list(range(len(plan.steps)))
    size = len(kept) // 2
    while size:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if fails(plan.only(fewer)):
                kept = fewer
            else:
                at += size
        size = size // 2
    return kept


def command(seed: int) -> str:
    """How seed `seed`, which fails, is repeated with no more steps than it needs."""
    steps = shrunk(plan_of(seed), lambda plan: failure(plan) is not None)
    return f".venv/bin/python -m tests.sync.simulate {seed} --steps {','.join(map(str, steps))}"


def until_stopped(first: int) -> None:
    """Seeds from `first` on. Raises AssertionError with the command that repeats it at the first that fails."""
    for number in count():
        if number % TOLD_EVERY == 0:
            print(f"{number} fleets from seed {first} on: all held", flush=True)
        problem = failure(plan_of(first + number))
        assert problem is None, f"seed {first + number}: {problem}\n{command(first + number)}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument("--steps", type=lambda text: [int(number) for number in text.split(",")])
    asked = parser.parse_args()
    if asked.seed is None:
        return until_stopped(random.randrange(1 << 48))
    plan = plan_of(asked.seed)
    plan = plan.only(asked.steps) if asked.steps else plan
    print(f"{plan.shape}: {', '.join(f'{way.a}–{way.b} ({way.link})' for way in plan.ways)}", flush=True)
    voyage = Voyage(plan)

    def told(number: int, step: Step) -> None:
        print(f"{voyage.fleet.clock.at_s:10.3f} s  {number:2}  {step.kind}", flush=True)

    voyage.sail(told)
    print(f"{voyage.fleet.clock.at_s:10.3f} s  at rest: all held")


if __name__ == "__main__":
    main()
