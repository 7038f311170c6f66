#!/usr/bin/env bash
# All that a machine with a GPU is asked the first time, piece by piece; a second call goes on with what is not done.
#
#   benchmarks/gpu_checks.sh [--device cuda] [--small] [--full] [--out FOLDER] [--limit SECONDS] [--until SECONDS] [PIECE ...]
#
# PYTHON names the interpreter; the default is .venv/bin/python where it is there, else python3. See README.md beside this.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
python="${PYTHON:-$root/.venv/bin/python}"
[ -x "$python" ] || python="$(command -v python3)"
export PYTHONPATH="$root:$root/benchmarks${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1
exec "$python" -m gpu.run "$@"
