"""One engine with one network in a process of its own; latency.py starts it and talks to it.

A line of JSON for each line read from standard input, after a first one when the network is loaded:

    {"ready": true} or {"skipped": "why"}
    run SECONDS -> {"seconds": [of each inference], "others": cores that other processes took meanwhile}
    output      -> {"output": [every element]}

A run has at least three inferences, after two that don't count. Whatever the libraries print to standard output goes
to standard error.

    python bench/worker.py ENGINE NETWORK THREADS
"""

import json
import os
import sys
import time
import traceback

from other_work import Meter

AT_LEAST, WARM_UP = 3, 2


def pin(threads: int) -> None:
    """Keeps the process on the last `threads` of its cores, the first being where systems put their own work."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-threads:])


def timed(step, seconds: float) -> list[float]:
    """Seconds of each call of `step`, repeated for `seconds`."""
    for _ in range(WARM_UP):
        step()
    clock = time.perf_counter
    taken, end = [], clock() + seconds
    while len(taken) < AT_LEAST or clock() < end:
        started = clock()
        step()
        taken.append(clock() - started)
    return taken


def main() -> None:
    """Load, then answer until standard input ends."""
    engine, name, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: object) -> None:
        print(json.dumps(values), file=answers, flush=True)

    pin(threads)
    from engines import SkippedError, load
    from suite import samples

    try:
        [feed] = samples(name, 1)
        ready = load(name, engine, threads, feed)
        ready.step()
    except SkippedError as reason:
        answer(skipped=str(reason))
        return
    except Exception as error:
        traceback.print_exc()
        answer(skipped=f"{type(error).__name__}: {error}".splitlines()[0])
        return
    answer(ready=True)
    for line in sys.stdin:
        command, *values = line.split()
        if command == "run":
            meter = Meter()
            answer(seconds=timed(ready.step, float(values[0])), others=meter.cores())
        elif command == "output":
            answer(output=ready.output().ravel().tolist())
        else:
            raise ValueError(f"found the command {command!r}, expected 'run' or 'output'")


if __name__ == "__main__":
    main()
