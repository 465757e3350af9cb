#!/usr/bin/env python3
"""Compare the service of the workload serving in real time with queueing theory: M/D/1 and greedy batching, at load 0.7.

    go build -o gpuprof ./cmd/gpuprof && python3 scripts/check/serving_realtime.py ./gpuprof [--seconds 55] [--rounds 3] [--busy N]

Each case runs `gpuprof run serving --preset synthetic`, whose batch of b requests takes tau + alpha b, once a round with another
seed. The mean latency is divided by the one that theory gives, and its 95 % interval is a bootstrap over the runs' blocks. Theory is
asked twice: with the batch times of the settings, and with tau longer by what the run's own service time shows that a batch took
beyond them (a sleep ends late, the host thread looks every 20 us). The second ratio is judged: its interval must reach into 0.95 to
1.05 and be narrower than 0.3. A run says itself that its sender was late: by the warning generator-late, or by the status partial with
the reason generator. Such a case is not judged, and neither is one whose batches took so much longer than they should that no queue
would stay finite: the machine was busy, and theory has no mean for it. Percentiles of the wait of M/D/1 are printed beside it.

Exits 1 where a case is off or not judged: the machine must be idle. With --busy N, N loops keep the cores busy meanwhile, and a case
may be not judged, but not off.
"""
import argparse
import json
import math
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile

BOUND = 0.05  # how far from 1 the judged ratio's interval may lie
WIDTH = 0.3  # an interval this wide would agree with nearly everything
LOAD = 0.7
# Waits of M/D/1 at load 0.7 in units of the service time, by share.
MD1_WAITS = {0.5: 0.729751, 0.9: 3.077087, 0.99: 6.485499, 0.999: 9.894354}


def md1_latency(tau, alpha, rate):
    """Mean latency of batches of one that all take as long: S + rho S / (2 (1 - rho))."""
    s = tau + alpha
    rho = rate * s
    return s + rho * s / (2 * (1 - rho))


def poisson(mean, most):
    """Probabilities of 0 … most; what lies beyond is added to the last."""
    out = [math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(most)]
    return out + [max(0.0, 1 - sum(out))]


def greedy_latency(tau, alpha, rate, most=200):
    """Mean latency of a service that takes what waits. The requests that come during a batch are the next batch, so that sizes are a
    Markov chain L' ~ Poisson(rate S(max(L, 1))); the latency is sum pi (rate S^2 / 2 + b S) / sum pi (rate S + [L = 0])."""
    times = [tau + alpha * max(size, 1) for size in range(most + 1)]
    rows = [poisson(rate * s, most) for s in times]
    pi = [1 / (most + 1)] * (most + 1)
    while True:
        after = [sum(pi[i] * rows[i][j] for i in range(most + 1)) for j in range(most + 1)]
        apart, pi = sum(abs(a - b) for a, b in zip(after, pi)), after
        if apart < 1e-9:
            break
    top = sum(p * (rate * s * s / 2 + max(size, 1) * s) for size, (p, s) in enumerate(zip(pi, times)))
    return top / sum(p * (rate * s + (size == 0)) for size, (p, s) in enumerate(zip(pi, times)))


# name: settings, tau, alpha, requests per second, theory. The limit of 128 requests per batch is never reached at this load.
CASES = {
    "M/D/1": (["max_batch=1"], 0.004, 0.0, LOAD / 0.004, md1_latency),
    "greedy batching": (["max_batch=128"], 0.004, 0.001, LOAD / 0.001, greedy_latency),
}


def check_theory():
    """The formulas against published values, in ms."""
    assert abs(1e3 * md1_latency(1e-3, 0, 700) - (1 + 0.7 / 0.6)) < 1e-12
    for rate, want in {100: 6.417997, 300: 9.519672, 500: 13.628890, 700: 22.645806}.items():
        got = 1e3 * greedy_latency(0.004, 0.001, rate)
        assert abs(got / want - 1) < 1e-6, (rate, got, want)


def measure(gpuprof, settings, tau, alpha, rate, seed, seconds):
    """One run; its result, and the exit code."""
    knobs = [*settings, f"tau={tau}", f"alpha={alpha}", f"rate={rate:.6g}", "max_delay=0", "depth=1", "queue=0"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "run.json")
        command = [gpuprof, "run", "serving", "--preset", "synthetic", "--device", "host", "--seed", str(seed), "--samples", "20", "--warmup", "5",
                   "--min-time", f"{seconds}s", "-o", str(out)]
        for knob in knobs:
            command += ["--set", knob]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not out.exists():
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads(out.read_text()), done.returncode


def mean_of(blocks):
    return sum(b["latency"]["count"] * b["latency"]["mean_s"] for b in blocks) / sum(b["latency"]["count"] for b in blocks)


def interval(blocks, draws=2000):
    """95 % of the mean, by drawing blocks with replacement."""
    rng = random.Random(1)
    means = sorted(mean_of(rng.choices(blocks, k=len(blocks))) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def beyond(requests, tau, alpha):
    """Seconds that a batch took beyond tau + alpha b, in the mean over requests."""
    served = requests["processes"][0]
    sizes = [(i + 1, n) for i, n in enumerate(served["batches"])]
    nominal = sum(b * n * (tau + alpha * b) for b, n in sizes) / sum(b * n for b, n in sizes)
    return requests["service_time"]["mean_s"] - nominal


def at(summary, share):
    return next((p["s"] for p in summary["percentiles"] if p["share"] == share), None)


def case(gpuprof, name, rounds, seconds):
    """Runs and prints one case; its verdict: agrees, off, or not judged."""
    settings, tau, alpha, rate, theory = CASES[name]
    blocks, over, late, waits, flagged = [], [], [], [], 0
    for seed in range(1, rounds + 1):
        run, code = measure(gpuprof, settings, tau, alpha, rate, seed, seconds)
        requests = run["requests"]
        blocks += [b for b in requests["processes"][0]["blocks"] if b["latency"]["count"]]
        over.append(beyond(requests, tau, alpha))
        late.append(at(requests["late"], 0.99) or requests["late"]["max_s"])
        waits.append({share: at(requests["queue_time"], share) for share in MD1_WAITS})
        warned = any(w["code"] == "generator-late" for w in run["warnings"] or [])
        stopped = run["status"] == "partial" and run.get("reason") == "generator"
        flagged += warned or stopped
        if code != 0 and not stopped:
            sys.exit(f"{name}: the run ended with code {code}: {run['status']}, {run.get('reason')}")
    extra = sum(over) / rounds
    mean, (low, high) = mean_of(blocks), interval(blocks)
    requests = sum(b["latency"]["count"] for b in blocks)
    print(f"{name}: tau {1e3 * tau:g} ms, alpha {1e3 * alpha:g} ms, {rate:g} requests/s, {requests} requests in {rounds} runs, {len(blocks)} blocks")
    print(f"  mean latency {1e3 * mean:.4f} ms [{1e3 * low:.4f} {1e3 * high:.4f}], sender late at p99 by {1e6 * max(late):.0f} us, flagged in {flagged} of {rounds} runs")
    stable = rate * (tau + extra if settings[0] == "max_batch=1" else alpha + (tau + extra) / 128) < 1
    for what, s in (("the settings", tau), (f"tau + {1e6 * extra:.0f} us as measured", tau + extra)):
        if s != tau and not stable:
            print(f"  with {what} a batch takes longer than its requests take to come: the queue grew as long as the run lasted")
            continue
        want = theory(s, alpha, rate)
        print(f"  theory with {what}: {1e3 * want:.4f} ms, ratio {mean / want:.4f} [{low / want:.4f} {high / want:.4f}]")
    if name == "M/D/1":
        for share, at_share in MD1_WAITS.items():
            known = [w[share] / tau for w in waits if w[share] is not None]
            if known:
                print(f"  wait at p{100 * share:g}: {sum(known) / len(known):.3f} tau in the mean of the runs, theory {at_share:.3f} tau")
    verdict = "agrees" if low / want <= 1 + BOUND and high / want >= 1 - BOUND else "off"
    why = "the sender was late" if flagged else "the service did not keep pace" if not stable else ""
    if why or (high - low) / want > WIDTH:
        verdict = "not judged"
    print(f"  {verdict}{': ' if why else ''}{why}", flush=True)
    return verdict


def spin():
    while True:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuprof", help="path of the program")
    parser.add_argument("--seconds", type=int, default=55, help="of load in a run, at most 55")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="loops that keep the cores busy meanwhile")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; may be repeated")
    args = parser.parse_args()
    check_theory()
    loops = [multiprocessing.Process(target=spin, daemon=True) for _ in range(args.busy)]
    for loop in loops:
        loop.start()
    verdicts = {name: case(str(pathlib.Path(args.gpuprof).resolve()), name, args.rounds, args.seconds) for name in args.case or CASES}
    for loop in loops:
        loop.terminate()
    fine = ("agrees", "not judged") if args.busy else ("agrees",)
    bad = [f"{name}: {verdict}" for name, verdict in verdicts.items() if verdict not in fine]
    if bad:
        sys.exit("; ".join(bad))


if __name__ == "__main__":
    main()
