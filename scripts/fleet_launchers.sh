#!/usr/bin/env bash
# Ranks under launchers as they are, on one host: fleet_launchers.sh GPUPROF
#
# Under each launcher every rank runs a small workload and leaves its object. Rank 3 has
# more work, and gpuprof fleet has to find all ranks under that launcher's name and to
# name that rank. Then four ranks train with PyTorch and gloo (TORCH_PYTHON names a Python
# that has torch; without it that part is left out, and so it is said). Rank 2 stands still
# in every step: it has to be named as the one that the others wait for, and its cost has
# to be at least what the step is shorter without it, and at most 1.35 times that. Needs
# root and Debian's openmpi-bin, slurmctld, slurmd, slurm-client and munge. Slurm's daemons
# listen in network and process namespaces of their own, and end with them.
set -euo pipefail

gpuprof=$(realpath "${1:?the gpuprof binary}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
export gpuprof
failed=0

# rank JOB: what every rank does.
cat >"$work/rank" <<'R'
#!/usr/bin/env bash
batch=4
[ "${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-}}" = 3 ] && batch=1024
exec "$gpuprof" run e3nn --preset small --device host --set edges=40 --set batch="$batch" --warmup 1 --samples 15 --quiet -o "$1" >/dev/null
R
chmod 755 "$work/rank"

# expect JOB RANKS LAUNCHER NODES: what fleet reads of the job's folder.
expect() {
	"$gpuprof" fleet "$work/$1" --allow-mismatch batch --format json >"$work/$1.json" || [ $? -le 1 ] || failed=1
	python3 - "$work/$1.json" "$@" <<'P' || failed=1
import json, sys
r = json.load(open(sys.argv[1]))
job, ranks, launcher, nodes = sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
slow = [o["rank"] for o in r["off"] if o["metric"] == "step"][:1]
got = (r["world"], r["launcher"], len(r["nodes"]), len(r["missing_ranks"]), len(r["problems"]), slow)
print(f"{job}: {got[0]} ranks by {got[1]} on {got[2]} nodes, {got[3]} missing, {got[4]} left out; slowest step: rank {slow}")
sys.exit(got != (ranks, launcher, nodes, 0, 0, [3]))
P
}

# cluster COMMAND…: with Slurm's daemons, four of them nodes of this host.
cluster() {
	local dir=$work/slurm
	mkdir -p "$dir"/{state,spool,log}
	cat >"$dir/slurm.conf" <<C
ClusterName=gpuprof
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=n[1-4] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[27821-27824] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
C
	export dir
	export SLURM_CONF=$dir/slurm.conf
	# Slurm wants an address that is not loopback, and munge a key of its own.
	unshare --net --pid --fork --kill-child --mount-proc bash -euc '
		ip link set lo up
		ip addr add 10.99.0.1/32 dev lo
		head -c 128 /dev/urandom >"$dir/munge.key"
		chmod 600 "$dir/munge.key"
		munged --force --key-file="$dir/munge.key" --socket="$dir/munge.sock" --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge.seed"
		slurmctld -i
		for node in n1 n2 n3 n4; do slurmd -N "$node"; done
		for _ in $(seq 100); do
			[ "$(sinfo -h -o %t -N | grep -c idle)" = 4 ] && break
			sleep 0.2
		done
		"$@"' cluster "$@"
}

mpirun --allow-run-as-root --oversubscribe -n 4 "$work/rank" "$work/mpirun/"
expect mpirun 4 "mpirun (Open MPI)" 1
cluster srun -n 8 --ntasks-per-node=2 "$work/rank" "$work/srun/"
expect srun 8 srun 4
# A prolog and a health check start without PATH and HOME. Without a GPU nothing is proven.
env -i "$gpuprof" doctor --check --as prolog >/dev/null 2>"$work/prolog" || { echo "the prolog fails: $(cat "$work/prolog")" >&2; failed=1; }

if [ -z "${TORCH_PYTHON:-}" ]; then
	echo "TORCH_PYTHON names no Python: no program was run under the launchers"
	exit "$failed"
fi

# train FOLDER MILLISECONDS: what every rank does; rank 2 stands still so long in each step.
cat >"$work/train" <<'R'
#!/usr/bin/env bash
exec "$gpuprof" run --quiet --skip 8 --steps 12 -o "$1" -- "$TORCH_PYTHON" "$programs/ddp.py" --slow 2 --ms "$2" >/dev/null
R
chmod 755 "$work/train"
programs=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../testdata/programs")
export TORCH_PYTHON programs OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo

# straggler JOB LAUNCHER: the job with its slow rank against the one without.
straggler() {
	for how in slow even; do
		"$gpuprof" fleet "$work/$1-$how" --format json >"$work/$1-$how.json" || { echo "$1-$how: exit code $?" >&2; failed=1; }
	done
	python3 - "$work/$1-slow.json" "$work/$1-even.json" "$1" "$2" <<'P' || failed=1
import json, sys
slow, even = (json.load(open(f)) for f in sys.argv[1:3])
named = slow["waiting"]["stragglers"]
gain = slow["waiting"]["step_s"] - even["waiting"]["step_s"]
first = named[0] if named else {"ranks": [], "cost_s": 0, "cause": ""}
print(f"{sys.argv[3]}: {slow['world']} ranks by {slow['launcher']}; step {slow['waiting']['step_s'] * 1e3:.1f} ms, without the slow rank {even['waiting']['step_s'] * 1e3:.1f} ms; "
      f"named: rank {first['ranks']}, up to {first['cost_s'] * 1e3:.1f} ms, {first['cost_s'] / gain:.2f} times the gain; {first['cause']} {slow['waiting'].get('unclaimed', '')}")
sys.exit(not (slow["launcher"] == sys.argv[4] and first["ranks"] == [2] and 1 <= first["cost_s"] / gain <= 1.35 and slow["exit_code"] == 0))
P
}

for ms in 200 0; do
	how=$([ "$ms" = 0 ] && echo even || echo slow)
	mpirun --allow-run-as-root --oversubscribe -x TORCH_PYTHON -x programs -x gpuprof -x OMP_NUM_THREADS -x GLOO_SOCKET_IFNAME -n 4 "$work/train" "$work/train-mpirun-$how/" "$ms"
	"$TORCH_PYTHON" -m torch.distributed.run --nproc-per-node 4 --no-python "$work/train" "$work/train-torchrun-$how/" "$ms"
	cluster srun -n 4 "$work/train" "$work/train-srun-$how/" "$ms"
done
straggler train-mpirun "mpirun (Open MPI)"
straggler train-torchrun torchrun
straggler train-srun srun
exit "$failed"
