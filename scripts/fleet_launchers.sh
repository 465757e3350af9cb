#!/usr/bin/env bash
# Ranks under launchers as they are, on one host: fleet_launchers.sh GPUPROF
#
# Under each launcher every rank runs a small workload and leaves its object. Rank 3 has
# more work, and gpuprof fleet has to find all ranks under that launcher's name and to
# name that rank. Needs root and Debian's
# openmpi-bin, slurmctld, slurmd, slurm-client and munge. Slurm's daemons listen in
# network and process namespaces of their own, and end with them.
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
exit "$failed"
