"""Times a function in rounds, each between two rounds of a fixed reference loop."""

from __future__ import annotations

import gc
import math
import platform
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

ROUND_S = 0.005  # a round is at least so long: shorter functions are called several times in it
WARMUP_S = 0.1
MEASURE_S = 0.6  # rounds of a function in one process, at least FEWEST
FEWEST, MOST = 7, 200

# Wall time, or the processor time of the process with its threads, which other programs of the machine change less.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
TABLE = list(range(1024))
BLOCK = bytearray(1 << 18)


def reference() -> int:
    """A fixed amount of Python and memory traffic, about 2 ms. A machine that is slower now is slower in it too."""
    total = 0
    table = TABLE
    for i in range(25_000):
        total += table[i * 7 & 1023]
    for _ in range(8):
        total += len(bytes(BLOCK))
    return total


def synchronizer() -> Callable[[], None]:
    """Waits for the GPU where the program has used one: a launch that returned is no work that was done."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return cuda.synchronize  # type: ignore[no-any-return]
    return lambda: None


def clocked(f: Callable[[], Any], times: int, sync: Callable[[], None], clock: Callable[[], float]) -> float:
    """Seconds of one call of f, as the mean of so many calls."""
    began = clock()
    for _ in range(times):
        f()
    sync()
    return (clock() - began) / times


def rounds(f: Callable[[], Any], clock: Callable[[], float]) -> Tuple[List[float], List[float], int]:
    """Rounds of f, seconds of one call; the reference loop before, between and behind them; calls in a round."""
    gc.collect()
    began, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - began < WARMUP_S:
        f()
        calls += 1
        reference()
    sync = synchronizer()
    each = min(clocked(f, 1, sync, clock) for _ in range(3))
    times = max(1, math.ceil(ROUND_S / max(each, 1e-9)))
    data: List[float] = []
    beside = [clocked(reference, 1, sync, clock)]
    began = time.perf_counter()
    while len(data) < FEWEST or (time.perf_counter() - began < MEASURE_S and len(data) < MOST):
        data.append(clocked(f, times, sync, clock))
        beside.append(clocked(reference, 1, sync, clock))
    return data, beside, times


def scaled(data: List[float], beside: List[float], nominal_s: float) -> List[float]:
    """Each round as it would be on a machine whose reference loop takes nominal_s."""
    return [t * nominal_s * 2 / (beside[i] + beside[i + 1]) for i, t in enumerate(data)]


def benchmark(name: str, f: Callable[[], Any], nominal_s: Optional[float], paired: bool, clock: str) -> Dict[str, Any]:
    """A benchmark in the form of pytest-benchmark's JSON. clock is a key of CLOCKS."""
    data, beside, times = rounds(f, CLOCKS[clock])
    middle = statistics.median(beside)
    figures = scaled(data, beside, nominal_s or middle) if paired else data
    return {
        "name": name.rsplit("::", 1)[-1], "fullname": name,
        "stats": {"data": figures, "rounds": len(figures), "median": statistics.median(figures), "iterations": times},
        "extra_info": {"paired": paired, "clock": clock, "measured_median_s": statistics.median(data), "reference_median_s": middle},
    }


def machine() -> Dict[str, Any]:
    return {
        "machine": platform.machine(), "python_implementation": platform.python_implementation(),
        "python_version": platform.python_version(), "cpu": {"brand_raw": processor()},
    }


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()
