#!/usr/bin/env bash
# Ranks under launchers as they are, on one host: fleet_launchers.sh GPUPROF [short]
#
# Under each launcher every rank runs a small workload and leaves its object. Rank 3 has
# more work, and gpuprof fleet has to find all ranks under that launcher's name and to
# name that rank. Then four ranks train, and rank 2 stands still in every step: it has to be
# named as the one that the others wait for.
#
# TORCH_PYTHON names a Python that has torch: ranks train with gloo, under torchrun too. Jobs
# with and without the slow rank take turns, and its cost has to be at least what the step is
# shorter without it, and at most 1.35 times that (fleet_judge.py). With "short" they train
# with the stand-in for torch, which has no torchrun, and the cost is printed and not judged:
# that takes five pairs of jobs under each launcher, which is minutes, and one pair decides
# nothing on a machine that does other things too.
#
# Needs root and Debian's openmpi-bin, slurmctld, slurmd, slurm-client, munge and iproute2.
# Slurm's daemons listen in network and process namespaces of their own, and end with them.
set -euo pipefail

gpuprof=$(realpath "${1:?the gpuprof binary}")
short=${2:-}
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
judge=$here/fleet_judge.py
export PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
trap '[ $? = 0 ] || tail -n 40 "$work/log" 2>/dev/null; rm -rf "$work"' EXIT
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

# expect JOB RANKS LAUNCHER NODES: what fleet reads of the job's folder. 4 ranks are too few to call
# one slow, exit code 3; of 8 on two cores their own noise decides whether one is.
expect() {
	local code=0
	"$gpuprof" fleet "$work/$1" --allow-mismatch batch --format json >"$work/$1.json" || code=$?
	case $2:$code in
	4:3 | 8:0 | 8:1) ;;
	*) echo "$1: fleet of $2 ranks ends with $code" >&2; failed=1 ;;
	esac
	"$judge" ranks "$@" "$work/$1.json" || failed=1
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

mpi=(mpirun --allow-run-as-root --oversubscribe -n 4)
"$judge" --self-test >"$work/judge" || { cat "$work/judge"; exit 1; }
launchers=(mpirun srun)
if ! unshare --net --pid --fork --kill-child --mount-proc true 2>"$work/unshare"; then
	if [ "$short" != short ]; then
		echo "Slurm's daemons need namespaces: $(cat "$work/unshare"); run as root" >&2
		exit 1
	fi
	echo "srun: NOT CHECKED: this machine allows no namespaces ($(head -1 "$work/unshare"))" >&2
	launchers=(mpirun)
fi
"${mpi[@]}" "$work/rank" "$work/mpirun/"
expect mpirun 4 "mpirun (Open MPI)" 1
if [[ ${launchers[*]} = *srun* ]]; then
	cluster srun -n 8 --ntasks-per-node=2 "$work/rank" "$work/srun/"
	expect srun 8 srun 4
fi
# A prolog and a health check start without PATH and HOME. Without a GPU nothing is proven.
env -i "$gpuprof" doctor --check --as prolog >/dev/null 2>"$work/prolog" || { echo "the prolog fails: $(cat "$work/prolog")" >&2; failed=1; }

if [ "$short" = short ]; then
	TORCH_PYTHON=$(command -v python3)
	export PYTHONPATH=$here/../../testdata/torchstub PYTHONDONTWRITEBYTECODE=1
elif [ -z "${TORCH_PYTHON:-}" ]; then
	echo "TORCH_PYTHON names no Python: no program was run under the launchers"
	exit "$failed"
else
	launchers+=(torchrun)
fi

# train FOLDER MILLISECONDS: what every rank does; rank 2 stands still so long in each step.
cat >"$work/train" <<'R'
#!/usr/bin/env bash
exec "$gpuprof" run --quiet --skip 8 --steps 12 -o "$1" -- "$TORCH_PYTHON" "$programs/ddp.py" --steps 22 --slow 2 --ms "$2" >/dev/null 2>>"$work/log"
R
# pairs JOB FROM TO LAUNCHER…: jobs with the slow rank and without it, in turns.
cat >"$work/pairs" <<'R'
#!/usr/bin/env bash
set -euo pipefail
job=$1 from=$2 to=$3
shift 3
for i in $(seq "$from" "$to"); do
	for ms in $([ $((i % 2)) = 1 ] && echo 200 0 || echo 0 200); do
		"$@" "$work/train" "$work/$job-$i-$ms/" "$ms"
	done
done
R
chmod 755 "$work/train" "$work/pairs"
MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
programs=$here/../../testdata/programs
export work TORCH_PYTHON programs MASTER_PORT OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo

# under LAUNCHER FROM TO: pairs under a launcher.
under() {
	case $1 in
	mpirun) "$work/pairs" train-mpirun "$2" "$3" "${mpi[@]}" ;;
	srun) cluster "$work/pairs" train-srun "$2" "$3" srun -n 4 ;;
	torchrun) env -u MASTER_PORT "$work/pairs" train-torchrun "$2" "$3" "$TORCH_PYTHON" -m torch.distributed.run --nproc-per-node 4 --no-python ;;
	esac
}

# judged WHAT LAUNCHER PAIRS: what fleet says of the pairs. 3: it takes more of them.
judged() {
	local what=$1 launcher=$2 reports=() i ms name=$2
	[ "$launcher" = mpirun ] && name="mpirun (Open MPI)"
	for i in $(seq "$3"); do
		for ms in 200 0; do
			"$gpuprof" fleet "$work/train-$launcher-$i-$ms" --format json >"$work/report-$i-$ms.json" || [ "$ms $?" = "0 3" ] || { echo "train-$launcher-$i-$ms: exit code $?" >&2; return 1; }
			reports+=("$work/report-$i-$ms.json")
		done
	done
	"$judge" "$what" "train-$launcher" "$name" "${reports[@]}"
}

for launcher in "${launchers[@]}"; do
	if [ "$short" = short ]; then
		under "$launcher" 1 1
		judged named "$launcher" 1 || failed=1
		continue
	fi
	pairs=5
	under "$launcher" 1 "$pairs"
	answer=0
	judged cost "$launcher" "$pairs" || answer=$?
	while [ "$answer" = 3 ] && [ "$pairs" -lt 10 ]; do
		under "$launcher" $((pairs + 1)) $((pairs + 1))
		pairs=$((pairs + 1)) answer=0
		judged cost "$launcher" "$pairs" || answer=$?
	done
	[ "$answer" = 0 ] || failed=1
	[ "$answer" != 3 ] || echo "train-$launcher: the ratios scatter too much to judge; run again on a machine that does less" >&2
done
exit "$failed"
