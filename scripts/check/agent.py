#!/usr/bin/env python3
"""A scripted agent that speaks only MCP finds and fixes the faults of a program, and has each change measured.

agent.py --python PYTHON [--gpuprof BIN] [--budget 5m] [--keep DIR]

It starts gpuprof mcp, records testdata/programs/agent/train.py with run_program, and reads the findings. For each
fault that was planted it makes the change that belongs to the id of the finding, at the file and line that the
finding names, and calls gate with the revision before the change as the old side. PYTHON has torch. Exit code 1: a
finding is missing or names no line, a result is larger than its limit, or a gate does not answer "improved".
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(HERE, "testdata", "programs", "agent", "train.py")
TOOLS = {"analyze", "compare", "gate", "explain", "doctor", "memory", "run_program"}
MOST_BYTES = 2000 * 3  # the limit of a result by the estimate of 3 bytes a token


GATES = 2  # a gate measures no fresh pairs for an improvement alone, so that a noisy machine may need a second one


class Failure(Exception):
    """A finding, a verdict or an answer is not as it must be."""


class Host:
    """The host of an agent: JSON-RPC with gpuprof mcp, a message a line."""

    def __init__(self, gpuprof, folder):
        self.proc = subprocess.Popen([gpuprof, "mcp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.last, self.largest = 0, 0
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent.py", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.proc.stdin.write(json.dumps(message) + "\n")
        self.proc.stdin.flush()

    def ask(self, method, params):
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        for line in self.proc.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise Failure(f"{method} failed: {answer['error']}")
                return answer["result"]
        raise Failure(f"gpuprof mcp ended instead of answering {method}")

    def call(self, tool, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = "".join(part["text"] for part in result["content"])
        self.largest = max(self.largest, len(text.encode()))
        if len(text.encode()) > MOST_BYTES:
            raise Failure(f"{tool} answered {len(text.encode())} bytes, more than {MOST_BYTES}")
        if result.get("isError"):
            raise Failure(f"{tool} failed: {text}")
        return json.loads(text)

    def close(self):
        self.proc.stdin.close()
        if self.proc.wait(timeout=60) != 0:
            raise Failure(f"gpuprof mcp ended with exit code {self.proc.returncode}")


def named_line(finding, lines):
    """The line that a finding names, from 0 on."""
    for text in finding.get("where", []) + [finding["title"]]:
        m = re.search(r"train\.py:(\d+)", text)
        if m and 0 < int(m.group(1)) <= len(lines):
            return int(m.group(1)) - 1
    raise Failure(f"the finding {finding['id']} names no line of train.py: {finding}")


def hoisted(finding, lines):
    """outside-operators: compute it once before the loop."""
    at = named_line(finding, lines)
    loop = max(i for i in range(at) if lines[i].lstrip().startswith("for "))
    line = lines[at].strip()
    indent = lines[loop][: len(lines[loop]) - len(lines[loop].lstrip())]
    return lines[:loop] + [indent + line] + lines[loop:at] + lines[at + 1 :]


def every_nth(finding, lines):
    """logging: log every n-th step."""
    at = named_line(finding, lines)
    line = lines[at]
    indent = line[: len(line) - len(line.lstrip())]
    return lines[:at] + [indent + "if step % 50 == 0:", indent + "    " + line.strip()] + lines[at + 1 :]


def with_workers(finding, lines):
    """dataloader-stall: the arguments of the data loader that the finding gives."""
    named_line(finding, lines)
    m = re.search(r"num_workers=(\d+)", finding["change"])
    if not m:
        raise Failure(f"the change of {finding['id']} gives no num_workers: {finding['change']}")
    changed = [re.sub(r"DataLoader\(Samples\(\), BATCH\)", f"DataLoader(Samples(), BATCH, num_workers={m.group(1)}, persistent_workers=True, prefetch_factor=4)", line) for line in lines]
    if changed == lines:
        raise Failure("train.py has no data loader to change")
    return changed


# The faults that were planted, and the change that belongs to the id of each finding.
CHANGES = {"dataloader-stall": with_workers, "outside-operators": hoisted, "logging": every_nth}


def git(folder, *args):
    subprocess.run(["git", "-c", "user.name=agent", "-c", "user.email=agent@example.invalid", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def improved(verdict, about, attempt):
    """Whether a gate confirms a change. One that found it faster and could not confirm that is measured again."""
    step = next((m for m in verdict.get("metrics", []) if m["name"] == "step"), None)
    if step is None:
        raise Failure(f"the gate about {about} has no metric step: {verdict}")
    low, high = step["interval"]
    print(f"  gate {attempt + 1}: {verdict['verdict']}, step {step['old']:.4f} s -> {step['new']:.4f} s, ratio {step['ratio']:.3f} (95 % interval {low} to {high})", flush=True)
    if verdict["verdict"] == "improved":
        return True
    if verdict["verdict"] == "pass" and high is not None and high < 1 and attempt + 1 < GATES:
        return False
    raise Failure(f"the gate about {about} answers {verdict['verdict']}: {verdict['summary']} {step.get('reason', '')} {verdict.get('next')}")


def fix(host, folder, command, budget):
    """Find and fix the faults one after the other; each must be found and measured as improved."""
    path, left = os.path.join(folder, "train.py"), dict(CHANGES)
    while left:
        result = host.call("run_program", command=command, folder=folder)
        findings = result["analysis"]["findings"]
        found = [f for f in findings if f["id"] in left]
        missing = set(left) - {f["id"] for f in found} if len(left) == len(CHANGES) else set()
        if missing or not found:
            raise Failure(f"no finding {', '.join(sorted(missing or left))}; the findings are {[f['id'] for f in findings]}; {result['analysis']['summary']}")
        finding = found[0]
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        lines = left.pop(finding["id"])(finding, lines)
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        print(f"{finding['id']}: {(finding.get('where') or ['-'])[0]}; claims at most {finding['claim']} {finding['unit']}", flush=True)
        for attempt in range(GATES):
            if improved(host.call("gate", against="HEAD", command=command, folder=folder, metrics=["step"], budget=budget), finding["id"], attempt):
                break
        git(folder, "commit", "-q", "-a", "-m", "change " + finding["id"])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--gpuprof", default=os.path.join(HERE, "bin", "gpuprof"))
    p.add_argument("--python", required=True, help="a Python that has torch")
    p.add_argument("--budget", default="5m", help="time for each gate (5m)")
    p.add_argument("--keep", help="work in this new folder and keep it")
    a = p.parse_args()
    if subprocess.run([a.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"agent.py: {a.python} has no torch; name one that has it with --python")
    folder = os.path.abspath(a.keep) if a.keep else tempfile.mkdtemp(prefix="gpuprof-agent-")
    os.makedirs(folder, exist_ok=True)
    host = None
    try:
        shutil.copy(PROGRAM, folder)
        with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8") as f:
            f.write("gpuprof-*\n")
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "train.py", ".gitignore")
        git(folder, "commit", "-q", "-m", "before")
        host = Host(os.path.abspath(a.gpuprof), folder)
        tools = {t["name"] for t in host.ask("tools/list", {})["tools"]}
        if tools != TOOLS:
            raise Failure(f"the tools are {sorted(tools)}, want {sorted(TOOLS)}")
        fix(host, folder, [a.python, "train.py", os.devnull], a.budget)
        print(f"ok: {len(CHANGES)} faults found, changed and measured as improved; the largest result has {host.largest} bytes, {-(-host.largest // 3)} tokens of 2000 by the estimate")
        host.close()
    except Failure as why:
        print(f"FAIL {why}")
        sys.exit(1)
    finally:
        if host and host.proc.poll() is None:
            host.proc.terminate()
            host.proc.wait()
        if not a.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
