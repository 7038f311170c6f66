#!/usr/bin/env bash
# One recipe on two "hosts" (network namespaces joined by a virtual cable), against the same recipe in one process.
#
#   sudo benchmarks/two_hosts.sh [accelerate|torchrun] [RECIPE [--set PATH=VALUE ...]]
#
# Without a recipe it is a small one with a random encoder that has no dropout, so that training can be compared too.
# Needs root, iproute2 and the environment of `make test`. PYTHON names its interpreter; the default is .venv/bin/python.
# Each namespace has an address and interfaces of its own; they share the file system, so the store is shared.
set -euo pipefail
cd "$(dirname "$0")/.."
launcher=${1:-accelerate}
recipe=("${@:2}")
[ ${#recipe[@]} -gt 0 ] || recipe=(small.yaml)
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
work=$(mktemp -d)
hosts=(hardneg-a hardneg-b)
addresses=(10.99.0.1 10.99.0.2)

clean() {
  kill $(jobs -p) 2>/dev/null || true
  wait || true
  for host in "${hosts[@]}"; do ip netns delete "$host" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

ip netns add "${hosts[0]}"
ip netns add "${hosts[1]}"
ip link add veth0 netns "${hosts[0]}" type veth peer name veth0 netns "${hosts[1]}"
for i in 0 1; do
  ip -n "${hosts[$i]}" address add "${addresses[$i]}/24" dev veth0
  ip -n "${hosts[$i]}" link set veth0 up
  ip -n "${hosts[$i]}" link set lo up
done

export PYTHONPATH=$PWD:$PWD/tests OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TORCH_CPP_LOG_LEVEL=ERROR
unset HARDNEG_STORE
"$python" - "$work" <<'PYTHON'
import json
import sys
from pathlib import Path

from recipes.recipes import large_collection, small_tree, write_recipe
from tiny import tiny_encoder

work = Path(sys.argv[1])
encoder = tiny_encoder(work / "encoder")
config = json.loads((encoder / "config.json").read_text())
no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # each process draws masks of its own
(encoder / "config.json").write_text(json.dumps(config | no_dropout))
tree = small_tree(large_collection(work / "data"), encoder)
tree["stages"]["star"]["options"] |= {"max_steps": 30, "precision": "fp32"}
write_recipe(work / "small.yaml", tree)
PYTHON
cd "$work"

run=(-m hardneg recipe run "${recipe[@]}" --device cpu)
here() { ip netns exec "${hosts[$1]}" env GLOO_SOCKET_IFNAME=veth0 "${@:2}" 2>&1 | sed -u "s/^/[host $1] /"; }
host() {
  local place=(--main_process_ip "${addresses[0]}" --main_process_port 29400)
  if [ "$launcher" = accelerate ]; then
    here "$1" "$python" -m accelerate.commands.accelerate_cli launch --multi_gpu --num_machines 2 --num_processes 2 \
      --machine_rank "$1" "${place[@]}" --mixed_precision no --dynamo_backend no "${run[@]}" --store two --output two-out
  else
    here "$1" "$python" -m torch.distributed.run --nnodes 2 --node-rank "$1" --nproc-per-node 1 \
      --master-addr "${addresses[0]}" --master-port 29400 "${run[@]}" --store two --output two-out
  fi
}

echo "== one process"
"$python" "${run[@]}" --store one --output one-out
echo "== two hosts over $launcher"
host 1 &
host 0
wait
received=$(ip -n "${hosts[0]}" -s link show veth0 | awk '/RX:/ {getline; print $1}')
echo "== $received bytes came over the cable to host 0"
"$python" - "${recipe[0]}" <<'PYTHON'
import json
import sys
from pathlib import Path

import yaml

locks = [yaml.safe_load(Path(f"{name}-out/recipe.lock.yaml").read_text()) for name in ("one", "two")]
metrics = [json.loads(Path(f"{name}-out/metrics.json").read_text())["metrics"] for name in ("one", "two")]
keys = locks[0]["keys"]
assert keys == locks[1]["keys"], "the keys differ"
for name in (name for name in ("start-index", "start-train", "static", "static-negatives") if name in keys):
    files = sorted(p.name for p in Path("one", keys[name]).iterdir() if p.name != "manifest.json")
    for file in files:
        same = Path("one", keys[name], file).read_bytes() == Path("two", keys[name], file).read_bytes()
        print(f"{name}/{file}: {'the same bytes' if same else 'DIFFERENT'}")
        assert same
for system in metrics[0]:
    for metric, value in metrics[0][system].items():
        print(f"{system} {metric}: one process {value:.4f}, two hosts {metrics[1][system][metric]:.4f}")
        trained = 1e-3 if sys.argv[1] == "small.yaml" else 1.0  # with dropout the models are not the same
        assert abs(value - metrics[1][system][metric]) < (trained if system == "STAR" else 1e-12)
PYTHON
