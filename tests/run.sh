#!/usr/bin/env bash
# Builds with assertions and runs every test that this machine can run. The last line is
# "N passed, N failed, N skipped"; the exit status is 0 only when something passed and nothing failed.
#
#   tests/run.sh [--no-install]
#
# Logs are in build/logs/. The CUDA backend is built wherever nvcc is found; its tests run where there is a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

logs=$PWD/build/logs
mkdir -p "$logs"
. scripts/counts.sh

# shards PROGRAM...: how many processes share its cases: in the long programs one for four cores, and two where there are
# fewer. The others measure memory, or make threads of their own. Emulated kernels take one core each, and their cases
# differ much in length.
shards() {
    local count=1
    if [[ " $* " = */@(unit|parity|ops|abi)_tests\ * ]]; then count=$(($(nproc) < 8 ? 2 : $(nproc) / 4)); fi
    if [[ ${NANOLITH_BACKEND_PATH:-} = */cuda_host ]]; then count=$((2 * $(nproc))); fi
    echo $((count > 8 ? 8 : count))
}

# gtest NAME PROGRAM [ARGUMENTS...]: counts each of the program's test cases. Its shards run side by side, and leave
# NAME.SHARD.log and NAME.SHARD.xml.
gtest() {
    local name=$1 pids=() count shard
    shift
    count=$(shards "$@")
    rm -f "$logs/$name".*.{log,xml}
    for ((shard = 0; shard < count; ++shard)); do
        GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$shard "$@" \
            --gtest_output="xml:$logs/$name.$shard.xml" >"$logs/$name.$shard.log" 2>&1 &
        pids+=($!)
    done
    local cases=0 bad=0 skips=0 xml status failures
    for ((shard = 0; shard < count; ++shard)); do
        xml=$logs/$name.$shard.xml status=0 failures=0
        wait "${pids[shard]}" || status=$?
        if [ -s "$xml" ]; then
            cases=$((cases + $(grep -c '<testcase .*result="\(completed\|skipped\)"' "$xml")))
            skips=$((skips + $(grep -c '<testcase .*result="skipped"' "$xml")))
            failures=$(sed -n 's/.*<testsuites .*failures="\([0-9]*\)".*/\1/p' "$xml")
        fi
        if [ $status != 0 ] || [ ! -s "$xml" ]; then
            # What failed may stand far above the end.
            grep -A 15 ': Failure$' "$logs/$name.$shard.log" | head -n 150 || true
            tail -n 60 "$logs/$name.$shard.log"
            # A crash, or a sanitizer's report at the end, is a failure of no case that was counted.
            if [ "${failures:-0}" = 0 ]; then failures=1 cases=$((cases + 1)); fi
        fi
        bad=$((bad + failures))
    done
    # A shard may be without a case, but not all of them.
    if [ $cases = 0 ]; then cases=1 bad=1 && tail -n 60 "$logs/$name.0.log"; fi
    passed=$((passed + cases - bad - skips))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
    if [ $bad = 0 ]; then
        tell ok "$name: $((cases - skips)) cases, $skips skipped"
    else
        tell FAILED "$name: $bad of $cases cases"
    fi
}

# suite NAME SCRIPT...: a script that ends with counts like this one's, which are added.
suite() {
    local name=$1 counts
    shift
    "$@" 2>&1 | tee "$logs/$name.log"
    counts=$(tail -n 1 "$logs/$name.log" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    [ -n "$counts" ] || { fail "$name: it did not get to its end" && return 1; }
    set -- $counts
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3)) told=$SECONDS
}

build() {  # preset, cmake options... [-- targets...]
    local preset=$1 options=() targets=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
    [ $# -gt 1 ] && shift && targets=(--target "$@")
    check "configure-$preset" cmake --preset "$preset" ${options[@]+"${options[@]}"} &&
        check "build-$preset" cmake --build "build/$preset" --parallel "$(nproc)" ${targets[@]+"${targets[@]}"}
}

asan_tests=(unit_tests abi_tests ops_tests)
tsan_tests=(thread_tests)

# Where there are cores for it, what the later steps build is built beside the tests.
build_ahead() {
    [ "$(nproc)" -ge 8 ] || return 0
    {
        cmake --preset asan && cmake --build build/asan --parallel "$(nproc)" --target "${asan_tests[@]}"
        cmake --preset tsan && cmake --build build/tsan --parallel "$(nproc)" --target "${tsan_tests[@]}"
        examples/quickstart.sh --no-install --device cpu
    } >"$logs/ahead.log" 2>&1 &
    ahead=$!
}

# The version of clang's tools that .clang-format and .clang-tidy are written for: others lay out code differently.
clang_tool() {
    local tool
    for tool in "$1-14" "$1"; do
        if command -v "$tool" >/dev/null && "$tool" --version | grep -q 'version 14\.'; then echo "$tool" && return 0; fi
    done
    return 1
}

setup() {
    local install=yes
    [ "${1:-}" = --no-install ] && install=no
    need_build_tools
    need_header gtest/gtest.h libgtest-dev
    need_command nm binutils
    need_command pkg-config pkg-config
    need_command python3 python3
    python3 -c "import jsonschema" 2>/dev/null || missing_packages+=(python3-jsonschema)
    install_missing $install || return 1
    # Not every release has these; what needs them is skipped then.
    need_command clang clang
    if ! clang_tool clang-format >/dev/null; then missing_packages+=(clang-format-14); fi
    if ! clang_tool clang-tidy >/dev/null; then missing_packages+=(clang-tidy-14); fi
    need_library hiredis libhiredis-dev
    need_library openssl libssl-dev
    need_command openssl openssl
    need_command redis-server redis-server
    need_server_tools
    install_missing $install || echo "Going on without ${missing_packages[*]}"
    use_build_tools
}

style() {
    local format tidy
    check documents tests/docs/run.sh
    check messages tests/check_messages.sh
    if format=$(clang_tool clang-format); then
        check clang-format tests/check_format.sh "$format"
    else
        skip "clang-format: version 14 is not there"
    fi
    if have_nvcc; then check other-gpus tests/check_other_gpus.sh "${CUDACXX:-nvcc}"; fi
    if tidy=$(clang_tool clang-tidy); then
        check clang-tidy tests/check_tidy.py "$tidy" build/dev
    else
        skip "clang-tidy: version 14 is not there"
    fi
}

# On a machine with a GPU, tests of the CUDA backend that did not run mean that it is broken, not absent.
cuda_cases_ran() {
    grep -q '<testcase .*CUDA' "$logs"/unit_tests.*.xml || { echo "no CUDA cases in the unit suite"; return 1; }
    ! cat "$logs"/unit_tests.*.xml | tests/unexplained_skips.sh - CUDA
}

# One fixture for each thing that kernels may differ in; tables of rotations and the reading of files are the host's, and
# kernels of 8 and 4 bits have suites of their own.
emulated_families() {
    local fixture
    for fixture in llama_bias llama_gqa qwen3_tied mistral_window ernie phi3_long smollm3 gemma2 gemma3 phi4_mini \
        qwen3_moe; do
        printf ':*Parity.GreedyTokens/%s_cuda' $fixture
    done
}

# The CUDA backend's kernels as fibers on the CPU (tests/cuda_host), where no GPU runs them. The larger cases take
# minutes each there, so of those one runs. float16 is left out but for one case of the parity suite: its kernels differ
# from bfloat16's in conversions alone.
emulated_cuda() {
    check build-cuda-emulation cmake --build build/dev --parallel "$(nproc)" --target cuda_host_backend || return
    NANOLITH_BACKEND_PATH=$PWD/build/dev/cuda_host gtest cuda-emulation build/dev/bin/unit_tests \
        --gtest_filter='*CUDA*:-*BatchInvariant*CUDA_float*:*BatchInvariant.Experts*:*BatchInvariant.WideLayers*:*PrefillsAndSlices*:*DecodesRagged*CUDA_float*:*DecodesFewRows*CUDA_float*:*DecodesOneRow*CUDA_float*:*DecodesFewSequences*:*ProbeTest*CUDA_float*:*AShareOfEverything*:*ThreadsAgree*CUDA_float*:*OneToEight*CUDA_float32:*ReusesChunks*:*WrongBase*:*Family*CUDA_float*:*Family*.Experts/*:*ExpertsOfOtherSizes*:*ExpertsOfWholeLines*:*CompactWeightsTest*CUDA_float32*:*CompactFamilies*:*CUDA_float16*'
    NANOLITH_BACKEND_PATH=$PWD/build/dev/cuda_host gtest cuda-emulation-parity build/dev/bin/parity_tests \
        --gtest_filter="$(emulated_families):*ParityGguf*/ernie_cuda:*Float16IsAs*/qwen3_tied_cuda"
}

main() {
    if setup "$@"; then
        pass setup
    else
        fail setup
        return
    fi
    local cuda=() architecture program
    if have_nvcc; then
        architecture=$(gpu_architecture) || architecture=90a
        cuda=(-DNL_CUDA=ON "-DNL_CUDA_ARCHITECTURES=$architecture")
    else
        cuda=(-DNL_CUDA=OFF)
        skip "build of the CUDA backend: no nvcc"
    fi

    if ! pkg-config --exists hiredis; then skip "the shared store: no hiredis"; fi
    # Sources are compiled together, ten at a time, in a third of the time.
    if build dev "${cuda[@]}" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10; then
        local gpu=no environment=() ahead=
        build_ahead
        if have_nvcc && gpu_architecture >/dev/null; then gpu=yes; fi
        # Programs that hold the library's code look for the CUDA backend beside themselves: not where it was built.
        if [ $gpu = yes ]; then environment=(env "NANOLITH_BACKEND_PATH=$PWD/build/dev/lib"); fi
        for program in build/dev/bin/*_tests; do
            gtest "$(basename "$program")" ${environment[@]+"${environment[@]}"} "$program"
        done
        if [ $gpu = yes ]; then
            check cuda-cases-ran cuda_cases_ran
            for program in abi_tests growth_tests thread_tests; do
                NANOLITH_TEST_DEVICE=cuda gtest "$program-cuda" "build/dev/bin/$program"
            done
        elif have_nvcc; then
            emulated_cuda
        fi
        # The CPU backend as on a processor with AVX2 alone, where oneDNN has no products of bfloat16, and its own kernels
        # at each level of instructions.
        ONEDNN_MAX_CPU_ISA=AVX2 gtest parity-avx2 build/dev/bin/parity_tests --gtest_filter='*BFloat16*_cpu'
        for isa in SSE41 AVX2 AVX512_CORE; do
            ONEDNN_MAX_CPU_ISA=$isa gtest "unit-${isa,,}" build/dev/bin/unit_tests \
                --gtest_filter='CpuRows*:ProductsTest*:CompactProductsTest*'
        done
        check header tests/abi/check_header.sh
        check library tests/abi/check_library.sh build/dev
        check install tests/abi/check_install.sh build/dev
        check schemas-shipped python3 tests/grammar/schemas.py build/dev/bin/constrained examples/model
        check schemas-random python3 tests/grammar/schemas.py build/dev/bin/constrained examples/model --random-weights
        # Their own steps tell what went wrong.
        [ -z "$ahead" ] || wait "$ahead" || true
    fi
    # Fuzzing takes its five minutes at a low priority, all that follows runs beside it.
    local fuzz install=()
    if [ "${1:-}" = --no-install ]; then install=(--no-install); fi
    tests/fuzz/run.sh ${install[@]+"${install[@]}"} 5 >"$logs/fuzz-run.log" 2>&1 &
    fuzz=$!
    style
    if build asan -- "${asan_tests[@]}"; then
        for program in "${asan_tests[@]}"; do
            # Of a thread that was cancelled, AddressSanitizer takes its own clean-up of a signal stack for an overflow.
            # Megabytes of random texts take a minute there; the fuzz targets read such texts under it, too.
            ASAN_OPTIONS=use_sigaltstack=0 LSAN_OPTIONS=suppressions=$PWD/tests/leaks.txt \
                UBSAN_OPTIONS=print_stacktrace=1 gtest "asan-$program" build/asan/bin/$program \
                --gtest_filter='-SentencePieceCuts.ChangeNoToken:JsonTokenizer.TakesAMegabyteOfAnything'
        done
    fi
    if build tsan -- "${tsan_tests[@]}"; then
        for program in "${tsan_tests[@]}"; do
            TSAN_OPTIONS=halt_on_error=1 gtest "tsan-$program" build/tsan/bin/$program
        done
    fi
    check quickstart examples/quickstart.sh --no-install --device cpu
    suite server tests/server/run.sh ${install[@]+"${install[@]}"} build/dev
    suite bindings tests/bindings/run.sh ${install[@]+"${install[@]}"} build/dev
    wait $fuzz
    suite fuzz cat "$logs/fuzz-run.log"
}

main "$@"
