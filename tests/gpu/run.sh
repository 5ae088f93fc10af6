#!/usr/bin/env bash
# Everything that needs a GPU: the CUDA cases of the unit suite and of the kernel-level ABI's, both under
# compute-sanitizer too, and the decode benchmark.
# Exits non-zero when a case failed or was skipped, or when a tool found an error. A short table comes last.
#
#   tests/gpu/run.sh [--build DIR] [--arch ARCH] [--racecheck] [--no-bench]
#
#   --build DIR   use the build in DIR (bin/unit_tests, bin/ops_tests, bin/bench_decode, lib/) and build nothing
#   --arch ARCH   the architecture to build for, as compute_ARCH and sm_ARCH (default 90a)
#   --racecheck   also look for races in shared memory, in a few cases of each kernel but the narrow kernel of
#                 attention (see below): it takes minutes
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
        cmake --build "$build" --parallel "$(nproc)" --target nanolith_cuda unit_tests ops_tests bench_decode &&
        strip --strip-unneeded "$build/lib/libnanolith_cuda.so"
}

# cases PROGRAM FILTER [COMMAND...]: those cases of a suite, which must run, with a command before the program's.
cases() {
    local program=$1 filter=$2 xml=$logs/$1.xml count
    shift 2
    rm -f "$xml"
    "$@" "$build/bin/$program" "--gtest_filter=$filter" "--gtest_output=xml:$xml" || return 1
    count=$(grep -c '<testcase .*result="completed"' "$xml")
    echo "$count cases"
    [ "$count" -gt 0 ] || { echo "$program has no such cases"; return 1; }
    ! "$root/tests/unexplained_skips.sh" "$xml" . || { echo "the cases above were skipped"; return 1; }
}

if [ -z "$build" ]; then
    build=$root/build/gpu
    step build build_all || finish
fi
export NANOLITH_BACKEND_PATH=$build/lib
unit='*CUDA*'
ops='*/cuda'
memcheck=(compute-sanitizer --tool memcheck --leak-check full --report-api-errors no --error-exitcode 99)
# race KERNEL PROGRAM FILTER: watches the kernels with KERNEL in their names while these cases run. Without such a choice,
# or while another one runs, the tool may end a program that launches many kinds of kernels.
race() {
    step "race-$1" cases "$2" "$3" compute-sanitizer --tool racecheck --error-exitcode 99 --kernel-name "kns=$1"
}
step unit cases unit_tests "$unit"
step ops cases ops_tests "$ops"
step memcheck-unit cases unit_tests "$unit" "${memcheck[@]}"
step memcheck-ops cases ops_tests "$ops:-*TenThousand*:*NothingLeaks*:*MoreMemory*" "${memcheck[@]}"
if [ $racecheck = yes ]; then
    race attention_kernel ops_tests '*Cascade.*/cuda:*PrefillWithHistory/cuda'
    race portable_kernel ops_tests '*EveryPageSize*/cuda'
    race merge ops_tests '*Merge*/cuda'
    race append_kernel ops_tests '*Append.EveryFormat/cuda'
    race short_kernel unit_tests '*DecodesOneToEight*CUDA_bfloat16'
    race streamed_kernel unit_tests '*DecodesOneToEight*CUDA_bfloat16'
    race staged_kernel unit_tests '*ManyRowsTest.OfWholeLines*CUDA_bfloat16'
    race streamed_compact unit_tests '*CompactWeightsTest.AreThose*/CUDA_bfloat16'
    race rounded_compact unit_tests '*CompactWeightsTest.OfManyRows/CUDA_bfloat16'
    race grouped unit_tests '*ExpertsOfWholeLines/CUDA_bfloat16'
    race gate unit_tests '*ExpertsOfFewRows/CUDA_bfloat16'
    race down_kernel unit_tests '*ExpertsOfFewRows/CUDA_bfloat16'
    race norm unit_tests '*FamilyExecutorTest.AllTogether/CUDA_bfloat16'
    race sample_kernel unit_tests '*DrawsAsDefined*CUDA_bfloat16'
    # Not narrow_kernel. There a warp writes to shared memory, waits for its lanes (__syncwarp), and one lane arrives at
    # an mbarrier for all of them. The tool does not see that this orders the writes of the other lanes, and reports
    # them. It reports nothing in a build in which all lanes arrive.
fi
[ $bench = no ] || step bench "$build/bin/bench_decode"
finish
