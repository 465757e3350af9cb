#!/usr/bin/env bash
# Assembles every PTX under workloads/ and internal/ for each GPU generation and
# prints the registers, spills and shared memory of its kernels. PTX is the last
# thing clang checks and clang does not check all of it: an assembler of NVIDIA's
# has the last word. Fails on an error, on a spill in a kernel named in HOT, and on
# more of it than ROOM has for a kernel. What it made for the generations of
# workloads/device/cuda/machinecode has to be what the archive there holds.
#
# Of the generated tensor products it counts the instructions per edge in the machine
# code for sm_90 (scripts/build/sass), and fails where one takes more than PAPER says. NVRTC, which makes such kernels at run
# time for other irreps, compiles one for each generation it knows (TestNVRTC in workloads/device/cuda).
#
# The assembler, the disassembler and NVRTC come from Python wheels, kept under .bin/; no toolkit needed.
#
#   PTXAS=/path/to/ptxas         one that is there already
#   NVDISASM=/path/to/nvdisasm   likewise
#   NVRTC=/path/to/libnvrtc.so   likewise
#   ARCHS="sm_75 sm_90"          generations (default: sm_75 sm_80 sm_90 sm_100 sm_120)
#   WRITE=1                      make the archive of machine code instead of comparing it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

archs=${ARCHS:-sm_75 sm_80 sm_90 sm_100 sm_120}
# Kernels whose speed is promised: a register that lives in memory is a defect there.
HOT=' gemm linear radial sph scatter_atomic scatter_sorted gemm_lib_fp32 gemm_lib_tf32 gemm_lib_bf16 gemm_lib_fp16 '
HOT+='tp_csr_small tp_csr_mace_medium tp_csr_mace_large tp_csr_nequip_lips tp_csr_deepaw_natural tp_csr_deepaw '
HOT+='tp_grad_small tp_grad_mace_medium tp_grad_mace_large tp_grad_nequip_lips tp_grad_deepaw_natural tp_grad_deepaw '
HOT+='tp_gradx_small tp_gradx_mace_medium tp_gradx_mace_large '
# These may keep that many bytes a thread in memory: numbers that a warp uses once a row or once a batch of edges. Their
# loops over edges hold some hundred registers of sums and of what was read ahead, and none of those is spilled: the
# machine code of the loops has no access to local memory.
ROOM=' tp_csr:96 tp_fused:96 '

# What the design of the generated products came to on paper: instructions per edge in the loop over edges + for M.
PAPER='mace-large:1=1126+27 deepaw:3=3950+350'
# The paper of the gradients had 2,600 for mace-large and 7,500 for deepaw. It lacked the branches that hold loads where they
# are; for deepaw it took lanes without a channel for work, and two channels a lane where the weights' own order
# lets a lane read but one. This, and dx, is what was counted when they were made.
PAPER+=' grad:mace-large:1=2920+13 grad:deepaw:3=9704+32 gradx:mace-large:1=1542+56'

# fetch NAME PACKAGE VERSION MEMBER: unpacks a program, or a library with what lies beside it, into its folder under
# .bin, once, and prints its path; a download that breaks off is tried again.
fetch() {
  local try scratch cache=.bin/$1-$3
  if [ -x "$cache/$1" ]; then
    echo "$cache/$1"
    return
  fi
  scratch=$(mktemp -d)
  for try in 1 2 3; do
    if python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" "$2==$3"; then
      break
    fi
    if [ "$try" -eq 3 ]; then
      echo "ptxas: downloading $2 $3 failed three times; check the network or name the program in ${1^^}" >&2
      rm -rf "$scratch"
      return 1
    fi
    sleep $((try * 5))
  done
  mkdir -p "$cache.new"
  python3 -m zipfile -e "$scratch"/*.whl "$scratch/wheel"
  cp "$scratch/wheel/nvidia/$4" "$cache.new/$1"
  case "$1" in *.so) cp "$scratch/wheel/nvidia/${4%/*}"/*.so.* "$cache.new/" ;; esac
  chmod +x "$cache.new/$1"
  rm -rf "$cache" "$scratch"
  mv "$cache.new" "$cache"
  echo "$cache/$1"
}

ptxas=${PTXAS:-$(fetch ptxas nvidia-cuda-nvcc-cu12 12.9.86 cuda_nvcc/bin/ptxas)}
# There is no wheel of it that old; it reads what the assembler of 12.9 writes.
nvrtc=${NVRTC:-$(fetch libnvrtc.so nvidia-cuda-nvrtc-cu12 12.9.86 cuda_nvrtc/lib/libnvrtc.so.12)}
nvdisasm=${NVDISASM:-$(fetch nvdisasm nvidia-cuda-nvdisasm 13.5.37 cu13/bin/nvdisasm)}

roots=()
for root in workloads internal; do
  if [ -d "$root" ]; then roots+=("$root"); fi
done
mapfile -t files < <(find "${roots[@]}" -name '*.ptx.zst' -not -path '*/testdata/*' | LC_ALL=C sort)
if [ "${#files[@]}" -eq 0 ]; then
  echo 'ptxas: no PTX'
  exit 0
fi

# table: ptxas' report on standard input as one line a kernel; fails on a hot kernel that spills.
table() {
  awk -v hot="$HOT" -v room="$ROOM" -v file="$1" -v arch="$2" '
    /Compiling entry function/ { split($0, q, "\047"); name = q[2]; spill = frame = 0 }
    / bytes stack frame/ { frame = $1 }
    /bytes spill stores/ { for (i = 1; i < NF; i++) if ($(i + 1) == "bytes" && $(i + 2) == "spill") spill += $i }
    /Used [0-9]+ registers/ {
      for (i = 1; i < NF; i++) if ($i == "Used") registers = $(i + 1)
      smem = 0
      for (i = 1; i < NF; i++) if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) smem = $i
      printf "%-7s %-40s %-20s %4d registers %6d bytes shared %5d bytes spilled\n", arch, file, name, registers, smem, spill
      if (i = index(room, " " name ":")) {
        split(substr(room, i + 1), q, "[: ]")
        if (frame > q[2] + 0) { printf "ptxas: %s for %s keeps %d bytes in memory, the limit is %d\n", name, arch, frame, q[2] > "/dev/stderr"; bad = 1 }
      }
      if (spill > 0 && index(hot, " " name " ")) { printf "ptxas: %s for %s spills %d bytes\n", name, arch, spill > "/dev/stderr"; bad = 1 }
    }
    END { exit bad }'
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# assemble N ARCH FILE: machine code goes to $scratch/ARCH, the table to $scratch/N, what is wrong to $scratch/N.wrong.
assemble() {
  local out=$scratch/$1 arch=$2 file=$3
  local code=$scratch/$arch/$1
  mkdir -p "$scratch/$arch"
  zstd -dcq "$file" >"$code.ptx"
  if "$ptxas" -v -arch "$arch" -o "$code.cubin" "$code.ptx" >"$out.report" 2>&1; then
    table "$file" "$arch" <"$out.report" >"$out" 2>"$out.wrong" || [ -s "$out.wrong" ]
    # Its warnings are about the age of the format.
    case $arch:$file in sm_90:*/tensorproduct_gen_* | sm_90:*/tensorproduct_gengrad_* | sm_90:*/tensorproduct_gengradx_*)
      file=${file##*/tensorproduct_gen}
      file=${file#_}
      "$nvdisasm" -c "$code.cubin" >"$scratch/${file%.ptx.zst}.sass" 2>"$out.warnings" || { cat "$out.warnings" >>"$out.wrong"; }
      ;;
    esac
  else
    { echo "ptxas: $file does not assemble for $arch:" && cat "$out.report"; } >"$out.wrong"
  fi
}
export -f assemble table
export scratch ptxas nvdisasm HOT ROOM

# One assembler a processor: each takes one core for up to some seconds.
n=100 jobs=()
for file in "${files[@]}"; do
  target=$(zstd -dcq "$file" | sed -n 's/^\.target sm_\([0-9]*\).*/\1/p')
  for arch in $archs; do
    if [ "${arch#sm_}" -ge "$target" ]; then n=$((n + 1)) jobs+=("$n" "$arch" "$file"); fi
  done
done
# shellcheck disable=SC2016 # the inner bash expands them
printf '%s\0' "${jobs[@]}" | xargs -0 -n 3 -P "$(getconf _NPROCESSORS_ONLN)" bash -euo pipefail -c 'assemble "$@"' assemble

status=0
for ((i = 101; i <= n; i++)); do
  if [ -e "$scratch/$i" ]; then cat "$scratch/$i"; fi
  if [ -s "$scratch/$i.wrong" ]; then
    cat "$scratch/$i.wrong" >&2
    status=1
  fi
done
case " $archs " in *' sm_90 '*)
  # shellcheck disable=SC2086 # a word each
  go run ./scripts/build/sass "$scratch" $PAPER || status=1
  ;;
esac
GPUPROF_NVRTC=$(realpath "$nvrtc") go test -count=1 -run '^TestNVRTC$' ./workloads/device/cuda || status=1
if [ "$status" -eq 0 ]; then
  if [ -n "${WRITE:-}" ]; then
    go run ./workloads/device/cuda/machinecode/pack -write "$scratch"
  elif [ -z "${ARCHS:-}" ]; then
    go run ./workloads/device/cuda/machinecode/pack -check "$scratch" || status=1
  fi
fi
exit "$status"
