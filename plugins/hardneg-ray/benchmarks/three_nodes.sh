#!/usr/bin/env bash
# A recipe on three "machines" (network namespaces on one bridge), against the same recipe in one process.
#
#   sudo plugins/hardneg-ray/benchmarks/three_nodes.sh [kill]
#
# The first has the command and Ray's head, the others an actor each; all see one store. With `kill` the second one's Ray
# is killed after its first block.
# Needs root, iproute2 and the environment of `make test`. PYTHON names its interpreter; the default is .venv/bin/python.
set -euo pipefail
cd "$(dirname "$0")/../../.."
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
work=$(mktemp -d)
hosts=(hardneg-a hardneg-b hardneg-c)

clean() {
  for host in "${hosts[@]}"; do
    ip netns pids "$host" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns delete "$host" 2>/dev/null || true
  done
  rm -rf "$work" 2>/dev/null || true # who would start a machine again sees that it is over
  wait || true
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

for host in "${hosts[@]}"; do ip netns add "$host"; done
ip -n "${hosts[0]}" link add bridge type bridge
ip -n "${hosts[0]}" address add 10.98.0.1/24 dev bridge
for i in 1 2; do
  ip link add "port$i" netns "${hosts[0]}" type veth peer name veth0 netns "${hosts[$i]}"
  ip -n "${hosts[0]}" link set "port$i" master bridge up
  ip -n "${hosts[$i]}" address add "10.98.0.$((i + 1))/24" dev veth0
  ip -n "${hosts[$i]}" link set veth0 up
done
ip -n "${hosts[0]}" link set bridge up
for host in "${hosts[@]}"; do ip -n "$host" link set lo up; done

export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TORCH_CPP_LOG_LEVEL=ERROR RAY_DISABLE_IMPORT_WARNING=1
export XDG_CACHE_HOME=$work/cache HARDNEG_STORE=$work/store RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | base64 | tr -d '/+=')
mkdir -p /tmp/ray "$work/store"
PYTHONPATH=plugins/hardneg-ray/tests "$python" - "$work" "$@" <<'PYTHON'
import sys
from pathlib import Path

from small_work import recipe

recipe(Path(sys.argv[1]))
PYTHON
cd "$work"

# a machine's own /tmp/ray
here() {
  local hidden='mount -t tmpfs none /tmp/ray'
  ip netns exec "${hosts[$1]}" unshare -m bash -c "$hidden; exec \"\$@\"" host "${@:2}" 2>&1 | sed -u "s/^/[host $1] /"
}
# Ray gives a machine thirty seconds to come up: a busy one is started again
node() {
  until grep -qs 'Ray runtime started' "$work/ray-$1.log"; do
    here "$1" "$python" -m ray.scripts.scripts start --block --disable-usage-stats --object-store-memory 80000000 \
      "${@:2}" >"$work/ray-$1.log" || true
    [ -d "$work" ] || return 0
  done
}
up() { until grep -qs 'Ray runtime started' "$work/ray-$1.log"; do sleep 1; done; }
raylet() {
  ip netns pids "${hosts[$1]}" | while read -r pid; do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != raylet ] || echo "$pid"
  done | head -n 1
}

echo "== one process"
"$python" -m hardneg recipe run r.yaml --device cpu --store one --output one-out >/dev/null
echo "== three machines"
node 0 --head --node-ip-address 10.98.0.1 --port 6379 --num-cpus 0 --include-dashboard=false &
up 0
for i in 1 2; do
  node "$i" --address 10.98.0.1:6379 --node-ip-address "10.98.0.$((i + 1))" --num-cpus 1 &
done
if [[ " $* " = *" kill "* ]]; then
  {
    until compgen -G "$work/store/*.partial/checkpoints/blocks/*.npz" > /dev/null; do sleep 0.05; done
    echo "== the second machine's Ray is killed"
    kill -9 "$(raylet 1)"
  } &
fi
# the driver lives where Ray's head does: it shares that machine's /tmp/ray by the address alone
nsenter -t "$(raylet 0)" -n -m --wd="$work" "$python" -m hardneg recipe run r.yaml --device cpu --output three-out \
  --engine ray --engine-option address=10.98.0.1:6379 --engine-option num_cpus=1
"$python" - "$work" <<'PYTHON'
import sys
from pathlib import Path

import yaml

work = Path(sys.argv[1])
locks = [yaml.safe_load((work / f"{name}-out" / "recipe.lock.yaml").read_text()) for name in ("one", "three")]
assert locks[0]["keys"] == locks[1]["keys"], "the keys differ"
for name in ("index", "run", "mined", "ranked"):
    key = locks[0]["keys"][name]
    own = work / "one" / key
    for path in sorted(path for path in own.rglob("*") if path.is_file() and path.name != "manifest.json"):
        place = path.relative_to(own)
        same = path.read_bytes() == (work / "store" / key / place).read_bytes()
        print(f"{name}/{place}: {'the same bytes' if same else 'DIFFERENT'}")
        assert same
PYTHON
for i in 1 2; do
  received=$(ip -n "${hosts[$i]}" -s link show veth0 | awk '/RX:/ {getline; print $1}')
  echo "== $received bytes came over the cable to host $i"
done
