#!/usr/bin/env python3
"""Ask the workload serving over HTTP with clients of other makes, and compare their latencies with the run's.

    go build -o gpuprof ./cmd/gpuprof && python3 scripts/check/serving_clients.py ./gpuprof [--rate 40] [--seconds 20] [--bound 5]

vegeta sends requests on a schedule (pinned in the module scripts/check/vegeta, which go fetches), and curl, where it is found, what is
right and what is wrong. Of the same requests the run's latencies begin at the first byte and end when the answer is there, so that
none of its percentiles may be above vegeta's (0.1 % for the digits of its histogram); both have to count the same requests. With
--bound, vegeta's percentiles may be that many ms above, which an idle machine keeps. Exits 1 where something differs.
"""
import argparse
import csv
import io
import json
import math
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [0.25]}]}
SHARES = (0.5, 0.9, 0.99)


class Service:
    """gpuprof run serving, listening."""

    def __init__(self, gpuprof, folder, tau):
        self.out = pathlib.Path(folder, "run.json")
        command = [gpuprof, "run", "serving", "--preset", "synthetic", "--device", "host", "--samples", "10", "--warmup", "5", "--max-time", "10m",
                   "--set", "arrivals=http:127.0.0.1:0", "--set", f"tau={tau}", "--set", "alpha=0.0001", "-o", str(self.out)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            if found := re.search(r"listening for requests at (http://\S+)", line):
                self.url = found[1] + "/v2/models/synthetic/infer"
                return
        sys.exit(f"gpuprof does not listen:\n{said}")

    def stop(self):
        """Ctrl-C; the requests of the result."""
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate()[1]
        if self.process.returncode != 130:
            sys.exit(f"gpuprof ended with code {self.process.returncode}:\n{said}")
        return json.loads(self.out.read_text())["requests"]


def build_vegeta(folder):
    subprocess.run(["go", "build", "-C", str(ROOT / "scripts/check/vegeta"), "-o", f"{folder}/", "tool"], check=True)
    return str(pathlib.Path(folder, "vegeta"))


def attack(vegeta, url, folder, rate, seconds):
    """Latencies in seconds of vegeta's requests, in order of their length; all must be answered."""
    body = pathlib.Path(folder, "body.json")
    body.write_text(json.dumps(BODY))
    results = subprocess.run([vegeta, "attack", f"-rate={rate}", f"-duration={seconds}s", f"-body={body}"], input=f"POST {url}\n".encode(), capture_output=True, check=True).stdout
    table = subprocess.run([vegeta, "encode", "--to", "csv"], input=results, capture_output=True, check=True).stdout.decode()
    rows = list(csv.reader(io.StringIO(table)))
    bad = [row for row in rows if row[1] != "200"]
    if bad:
        sys.exit(f"{len(bad)} of {len(rows)} requests were not answered, the first with {bad[0][1]} {bad[0][5]}")
    return sorted(float(row[2]) * 1e-9 for row in rows)


def compare(theirs, requests, bound):
    """Sentences about what differs."""
    faults = []
    completed = requests["processes"][0]["completed"]
    if completed != len(theirs):
        faults.append(f"vegeta has {len(theirs)} answers and the run {completed}")
    ours = {p["share"]: p["s"] for p in requests["latency"]["percentiles"]}
    pairs = [(f"p{100 * share:g}", ours[share], theirs[math.ceil(share * len(theirs)) - 1]) for share in SHARES if share in ours]
    pairs.append(("longest", requests["latency"]["max_s"], theirs[-1]))
    pairs.append(("mean", requests["latency"]["mean_s"], sum(theirs) / len(theirs)))
    for name, our, their in pairs:
        print(f"  {name}: gpuprof {1e3 * our:.3f} ms, vegeta {1e3 * their:.3f} ms, {1e3 * (their - our):+.3f} ms")
        if our > their * 1.001:
            faults.append(f"{name} is longer in the run than for vegeta")
        if bound is not None and their - our > bound * 1e-3:
            faults.append(f"{name} is {1e3 * (their - our):.3f} ms longer for vegeta, and may be {bound:g}")
    return faults


def curl(url, folder):
    """Right and wrong requests by curl; sentences about what differs."""
    faults = []
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "parameters": {"binary_data_size": 4}}]})
    binary = pathlib.Path(folder, "binary")
    binary.write_bytes(head.encode() + b"\0\0\x80\x3e")
    large = pathlib.Path(folder, "large")
    large.write_bytes(b" " * ((32 << 20) + 1))
    for name, args, status, words in (
        ("JSON", ["--data", json.dumps(BODY), url], "200", '"data":[0.5]'),
        ("a binary tensor", ["--data-binary", f"@{binary}", "--header", f"Inference-Header-Content-Length: {len(head)}", url], "200", '"data":[0.5]'),
        ("broken JSON", ["--data", "{", url], "400", "its JSON is broken"),
        ("another model", ["--data", "{}", url.replace("synthetic", "other")], "404", "no such model"),
        ("a large body", ["--data-binary", f"@{large}", url], "413", "larger than"),
        ("health", [url.split("/v2")[0] + "/v2/health/ready"], "200", '"ready":true'),
    ):
        got = subprocess.run(["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", *args], capture_output=True, text=True, check=False).stdout
        if not got.endswith("\n" + status) or words not in got:
            faults.append(f"curl with {name}: {got!r}, want {status} with {words}")
    print(f"  curl: 6 requests, {len(faults)} with another answer")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuprof", help="path of the program")
    parser.add_argument("--rate", type=int, default=40, help="requests per second")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--tau", type=float, default=0.01, help="seconds per batch")
    parser.add_argument("--bound", type=float, metavar="MS", help="how far vegeta's percentiles may be above the run's")
    args = parser.parse_args()
    gpuprof = str(pathlib.Path(args.gpuprof).resolve())
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        vegeta = build_vegeta(folder)
        service = Service(gpuprof, folder, args.tau)
        theirs = attack(vegeta, service.url, folder, args.rate, args.seconds)
        print(f"{len(theirs)} requests of vegeta, {args.rate} per second")
        faults += compare(theirs, service.stop(), args.bound)
        if shutil.which("curl"):
            service = Service(gpuprof, folder, args.tau)
            faults += curl(service.url, folder)
            requests = service.stop()
            if requests["processes"][0]["completed"] != 2:
                faults.append(f"curl has 2 answers and the run {requests['processes'][0]['completed']}")
        else:
            print("  curl: not found, so nothing was asked with it")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
