"""Power of the best tests under three noise models of docs/statistics.md (internal/compare/machine_test.go).

Stage 2 of a gate has 24 blocks there, stages 2 and 3 have 48; a block has two processes of 10 samples. The critical
value of each test comes from simulated sides at the equivalence margin (+2 %), of which 5 % (stages 2 and 3: 4 %) may
count as regressed."""
import sys
import numpy as np

rng = np.random.default_rng(1)
DRAWS, SAMPLES, MARGIN = int(sys.argv[1]) if len(sys.argv) > 1 else 20000, 10, 1.02

def processes(n, times):
    """Draws n processes of 1 % noise between them and AR(1) 0.5 of 1 % inside them: [draw, process, sample]."""
    x = rng.standard_normal((DRAWS, n, SAMPLES), dtype=np.float32)
    for i in range(1, SAMPLES):
        x[..., i] = 0.5 * x[..., i - 1] + np.sqrt(0.75) * x[..., i]
    return times * np.exp(0.01 * (x + rng.standard_normal((DRAWS, n, 1), dtype=np.float32)))

def ticks(n, times):
    x = processes(n, times) / 0.67 + rng.random((DRAWS, n, SAMPLES), dtype=np.float32)
    return np.log(np.floor(x).mean((1, 2)))  # sufficient: a sample has one tick or two

def throttled(n, times):
    x = processes(n, times)
    length = np.round(SAMPLES * 0.5 * (0.8 + 0.4 * rng.random((DRAWS, n, 1))))
    return np.where(np.arange(SAMPLES) < length, 1.3 * x, x)

def modes(n, times):
    return processes(n, times) * np.where(rng.random((DRAWS, n, 1)) < 0.5, 1.3, 1)

def known(noise):  # whether a sample is slow shows: the test that knows by how much removes it
    def statistic(n, times):
        x = noise(n, times)
        return np.log(np.where(x > 1.15 * times, x / 1.3, x)).mean((1, 2))
    return statistic

def mean(noise):  # the share of slow samples or processes may change with the program
    return lambda n, times: np.log(noise(n, times).mean((1, 2)))

print("test | blocks | found of no change, +5 %, +10 % (%)")
for name, statistic in [("ticks", ticks), ("throttled, slow samples divided", known(throttled)), ("throttled, mean", mean(throttled)),
                        ("modes, slow processes divided", known(modes)), ("modes, mean", mean(modes))]:
    for blocks, level in ((24, 0.05), (48, 0.04)):
        change = lambda times: statistic(blocks, times) - statistic(blocks, 1)
        critical = np.quantile(change(MARGIN), 1 - level)
        print(name, "|", blocks, "|", *(f"{100 * (change(times) > critical).mean():.1f}" for times in (1, 1.05, 1.10)))
