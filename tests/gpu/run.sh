#!/usr/bin/env bash
# Everything that needs a GPU: the unit suite's CUDA cases, the same under compute-sanitizer, and the decode benchmark.
# Exits non-zero when a case failed or was skipped, or when a tool found an error. A short table comes last.
#
#   tests/gpu/run.sh [--build DIR] [--arch ARCH] [--racecheck] [--no-bench]
#
#   --build DIR   use the build in DIR (bin/unit_tests, bin/bench_decode, lib/libnanolith_cuda.so) and build nothing
#   --arch ARCH   the architecture to build for, as compute_ARCH and sm_ARCH (default 90a)
#   --racecheck   also look for races in shared memory
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=
arch=90a
racecheck=no
bench=yes
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=$(cd "${2:?--build needs a folder}" && pwd) || exit 2; shift ;;
        --arch) arch=${2:?--arch needs an architecture}; shift ;;
        --racecheck) racecheck=yes ;;
        --no-bench) bench=no ;;
        *) echo "unknown option $1; see the head of $0" >&2; exit 2 ;;
    esac
    shift
done

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
table=()
failed=0
# step NAME COMMAND...: runs it, shows the end of its output, and keeps its result for the table.
step() {
    local name=$1 begin=$SECONDS
    shift
    echo "== $name: $*"
    if "$@" >"$logs/$name" 2>&1; then
        tail -n 3 "$logs/$name"
        table+=("$(printf '%-14s ok      %4d s' "$name" $((SECONDS - begin)))")
    else
        tail -n 60 "$logs/$name"
        table+=("$(printf '%-14s FAILED  %4d s' "$name" $((SECONDS - begin)))")
        failed=1
        return 1
    fi
}
finish() {
    echo
    [ -s "$logs/bench" ] && cat "$logs/bench" && echo
    printf '%s\n' "${table[@]}"
    exit $failed
}

build_all() {
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DNL_CUDA=ON -DNL_CUDA_ARCHITECTURES="$arch-real" \
        -DNL_BUILD_TESTS=ON -DNL_BUILD_BENCH=ON -DNL_BUILD_EXAMPLES=OFF &&
        cmake --build "$build" --parallel "$(nproc)" --target nanolith_cuda unit_tests bench_decode &&
        strip --strip-unneeded "$build/lib/libnanolith_cuda.so"
}

# The CUDA cases of the unit suite, each of which must run. Arguments: a command to put before the program's.
cuda_cases() {
    local xml=$logs/cases.xml cases
    "$@" "$build/bin/unit_tests" "--gtest_filter=*CUDA*" "--gtest_output=xml:$xml" || return 1
    cases=$(grep -c '<testcase ' "$xml")
    echo "$cases cases"
    [ "$cases" -gt 0 ] || { echo "no CUDA cases in the unit suite"; return 1; }
    ! grep -o '<testcase .*result="skipped"' "$xml" || { echo "the cases above were skipped"; return 1; }
}

if [ -z "$build" ]; then
    build=$root/build/gpu
    step build build_all || finish
fi
export NANOLITH_BACKEND_PATH=$build/lib
step unit cuda_cases
step memcheck cuda_cases compute-sanitizer --tool memcheck --leak-check full --report-api-errors no --error-exitcode 99
[ $racecheck = no ] || step racecheck cuda_cases compute-sanitizer --tool racecheck --error-exitcode 99
[ $bench = no ] || step bench "$build/bin/bench_decode"
finish
