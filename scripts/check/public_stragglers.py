#!/usr/bin/env python3
"""gpuprof fleet on recordings of real training jobs whose straggler is published.

    python3 scripts/check/public_stragglers.py GPUPROF FOLDER

FOLDER has trace-AR.parquet, trace-SE.parquet and trace-ST.parquet of ByteDance-Seed/StragglerAnalysis (Apache-2.0): the
operations of each rank of three jobs with data and pipeline parallelism, 44, 43 and 32 steps. Each rank becomes an object
as gpuprof run leaves it: its computations, and a transfer from stage to stage wherever one waits for another. Needs pandas
and pyarrow.

  AR  the rank of stage 0, replica 0 costs half of a step: 23.45 s of 46.34 s by the authors
  ST  no rank is to blame: the last stage has more work than the others (M_S 1.22)
  SE  no rank is to blame: the rank that is waited for changes from step to step (M_W 0.025)
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import pandas


def column(values):
    out, last = bytearray(), 0
    for v in values:
        d = v - last
        z = (d << 1) ^ (d >> 63)
        last = v
        while z >= 0x80:
            out.append(z & 0x7F | 0x80)
            z >>= 7
        out.append(z)
    return base64.b64encode(bytes(out)).decode()


class Line:
    """The account of one rank."""

    def __init__(self):
        self.names, self.calls, self.moments, self.now = [], [], [], 0

    def name(self, text):
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text)

    def moment(self, what, work=0, held=0):
        self.moments.append((what, work, 0, held))

    def ask(self, group, step, dur=0, work=0):
        self.calls.append((self.name("transfer"), self.name(group), 0, 0, step, self.now, dur, 0))
        self.moment(2 * (len(self.calls) - 1), work)
        return len(self.calls) - 1

    def document(self, rank, world, role, steps):
        doc = dict(rank=rank, world=world, trace=f"rank {rank}", device="GPU", role=role, cut=0, names=self.names, steps=column(steps),
                   parts=dict(busy_ns=0, starved_ns=0, queued_ns=0, unknown_ns=0, outside_ns=0, classes={}, communication_hidden_ns=0))
        for i, key in enumerate(("kind", "group", "seq", "bytes", "step", "start", "dur", "after")):
            doc[key] = column([c[i] for c in self.calls])
        for i, key in enumerate(("moments", "work", "idle", "held")):
            doc[key] = column([m[i] for m in self.moments])
        return doc


def line(ops, steps, stage, dp, stages, begins, ends):
    """One rank's computations of all steps, in the order in which they began. All ranks meet before each step."""
    out, clock = Line(), 0
    for n, step in enumerate(steps):
        k = out.ask("all", n, clock - out.now)
        out.moment(2 * k + 1)
        out.now = clock
        work = 0
        for op in ops[step]:
            kind, start, dur = op
            before = stage - 1 if kind == "f" else stage + 1
            after = stage + 1 if kind == "f" else stage - 1
            start = clock + start - begins[step]
            if 0 <= before < stages:
                out.now += work
                k = out.ask(f"{dp} {kind} {before}-{stage}", n, max(0, start - out.now), work)
                out.moment(2 * k + 1)
                out.now, work = max(out.now, start), 0
            work += dur
            if 0 <= after < stages:
                out.now += work
                out.ask(f"{dp} {kind} {stage}-{after}", n, 0, work)
                work = 0
        out.now += work
        out.moment(-1 - n, work)
        clock = max(out.now, clock + ends[step] - begins[step])
    return out


def convert(path, folder):
    data = pandas.read_parquet(path)
    data["optype"] = data.optype.astype(str)
    data = data[data.optype.isin(["forward-compute", "backward-compute"])].sort_values("start_ts")
    steps = sorted(int(s) for s in data.step.unique())
    stages, replicas = int(data.stage.max()) + 1, int(data.dp_rank.max()) + 1
    begins = {s: int(w.start_ts.min() * 1e9) for s, w in data.groupby("step")}
    ends = {s: int((w.start_ts + w.duration).max() * 1e9) for s, w in data.groupby("step")}
    world = stages * replicas
    os.makedirs(os.path.join(folder, "program"))
    for (stage, dp), own in data.groupby(["stage", "dp_rank"]):
        ops = {s: [] for s in steps}
        for o, s, t, d in zip(own.optype, own.step, own.start_ts, own.duration):
            ops[int(s)].append((o[0], int(t * 1e9), int(d * 1e9)))
        rank = int(stage) * replicas + int(dp)
        doc = line(ops, steps, int(stage), int(dp), stages, begins, ends).document(rank, world, f"stage {stage}", steps)
        head = dict(schema_version="1.0.0", tool=dict(name="gpuprof", version="public"))
        payload = dict(head, kind="program", command=["train"], started="2024-01-01T00:00:00Z", wall_s=1, exit_code=0, folder="", warnings=[], traces=[doc])
        text = json.dumps(dict(head, kind="rank", launcher="public", rank=rank, world=world, local_rank=-1, node=f"n{rank}", attempt=0, of="program",
                               started="2024-01-01T00:00:00Z", payload=payload)).encode()
        with open(os.path.join(folder, "program", f"{rank:06d}-0-{hashlib.sha256(text).hexdigest()[:12]}.json.zst"), "wb") as f:
            f.write(text)
    return stages, replicas


def main():
    gpuprof, source = sys.argv[1:3]
    wrong = []
    for job in ("AR", "ST", "SE"):
        with tempfile.TemporaryDirectory() as folder:
            stages, replicas = convert(os.path.join(source, f"trace-{job}.parquet"), folder)
            out = subprocess.run([gpuprof, "fleet", folder, "--format", "json"], capture_output=True, text=True)
            report = json.loads(out.stdout)
        w = report["waiting"]
        named = [(s["ranks"], round(s["gain_s"], 2), round(s["cost_s"], 2), round(s["more_s"], 2), round(s["last_in"], 2)) for s in w["stragglers"]]
        print(f"{job}: {stages} stages of {replicas}; step {w['step_s']:.3f} s, replayed {w['replayed_s']:.3f} s; "
              f"(ranks, gain, cost, more, last in): {named}; even {w['even_s']:.2f} s {w.get('unclaimed', '')}")
        for note in report["notes"]:
            print("   ", note)
        steady = named
        if w.get("unclaimed"):
            wrong.append(f"{job}: {w['unclaimed']}")
        if job == "AR" and (not steady or steady[0][0] != [0] or not 0.95 <= steady[0][1] / 23.48 <= 1.05 or len(steady) > 1 and steady[1][1] > 1):
            wrong.append("AR: not the rank of stage 0, replica 0 with 23.48 s")
        if job == "ST" and (steady or not any("imbalance" in n for n in report["notes"])):
            wrong.append("ST: not an imbalance without a straggler")
        if job == "SE" and steady:
            wrong.append("SE: a rank is blamed")
    for w in wrong:
        print("FAIL", w)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
