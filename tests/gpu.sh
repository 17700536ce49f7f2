#!/bin/sh
# tests/gpu.sh WHEELS [PYTEST'S OPTIONS]: tests/test_gpu.py on a machine with a GPU and without network.
# WHEELS is a folder of packages that the machine lacks, such as faiss-cpu, pydantic, beartype and what they need.
set -e
wheels=$1; shift
site=$(mktemp -d)
python3 -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheels"/*.whl
mkdir -p "$site/dvc" "$site/mlflow" # a training asks whether they are installed, and imports neither
PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1 \
  exec python3 -m pytest -q -p no:cacheprovider --maxfail=8 tests/test_gpu.py "$@"
