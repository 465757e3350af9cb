"""gpu-check: prove a GPU."""
import sys

import parts
import runner
import summary

TOOL = runner.Tool(
    name="gpu-check", about="Prove a GPU with gpuprof; results in results.tar.gz.", parts=parts.SECONDS, table=parts.table,
    build=summary.build, render=summary.render, archive="results", budget=765,
    order=["summary.json", "summary.txt", "figures.jsonl", "peers.jsonl", "doctor.json", "runs", "checks", "sweeps", "null", "traces", "logs"],
    # A dry run's times are of no GPU: they are not handed on.
    dry_order=["summary.json", "summary.txt", "figures.jsonl", "peers.jsonl", "doctor.json", "checks", "traces"])

if __name__ == "__main__":
    sys.exit(runner.main(TOOL))
