#!/usr/bin/env bash
# Compiles the kernels that use what only Hopper has for GPUs from before it and after it, as builds for those and for
# several do; the tests' own build is for one.
#
#   tests/check_other_gpus.sh NVCC
set -euo pipefail
cd "$(dirname "$0")/../cuda"

# compile NVCC SOURCE: where the source uses the copy engine or products of warpgroups.
compile() {
    local architecture included flags=(-std=c++20 -I. -I../src -I../include)
    included=$("$1" -M "${flags[@]}" "$2")
    [[ $included =~ device/(tma|wgmma)\.cuh ]] || return 0
    for architecture in sm_80 sm_120; do
        "$1" "${flags[@]}" "-arch=$architecture" -Werror=all-warnings -cubin -o /dev/null "$2"
    done
}
export -f compile
find . -name '*.cu' -print0 | xargs -0 -P "$(nproc)" -I {} bash -c 'set -e; compile "$0" "{}"' "$1"
