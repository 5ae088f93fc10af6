#!/usr/bin/env bash
# Compiles the kernels that use what only Hopper has for a GPU from before it, as builds for several GPUs do; the tests'
# own build is for one.
#
#   tests/check_older_gpus.sh NVCC
set -euo pipefail
cd "$(dirname "$0")/../cuda"

# compile NVCC SOURCE: where the source uses the copy engine or products of warpgroups.
compile() {
    local flags=(-arch=sm_80 -std=c++20 -I. -I../src -I../include)
    if "$1" -M "${flags[@]}" "$2" | grep -qE "device/(tma|wgmma).cuh"; then
        "$1" "${flags[@]}" -Werror=all-warnings -cubin -o /dev/null "$2"
    fi
}
export -f compile
find . -name '*.cu' -print0 | xargs -0 -P "$(nproc)" -I {} bash -c 'compile "$0" "{}"' "$1"
