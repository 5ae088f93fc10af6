#!/usr/bin/env bash
# Builds the fuzz targets and runs all of them, side by side on the cores, for MINUTES in all (5 where none is given):
# each target gets as much of the time as the others. The last line is "N passed, N failed, N skipped", a target each.
#
#   tests/fuzz/run.sh [--no-install] [MINUTES [TARGET...]]
#
# Inputs that reach new code are kept in build/fuzz/corpus and used again by the next run; those that fail are in
# build/fuzz/findings: `build/fuzz/bin/fuzz_TARGET FILE` runs one of them again. Each line tells how many inputs ran.
set -uo pipefail
cd "$(dirname "$0")/../.."
. scripts/setup.sh
logs=$PWD/build/logs
mkdir -p "$logs"
. scripts/counts.sh

install=yes
[ "${1:-}" = --no-install ] && install=no && shift
minutes=${1:-5}
shift $(($# > 0))
targets=("$@")
[ $# -gt 0 ] || targets=(config safetensors gguf tokenizer_json tokenizer_model chat_template jinja chunk_file constraint abi)

has_libfuzzer() {
    local folder
    command -v clang++ >/dev/null && folder=$(clang++ -print-runtime-dir 2>/dev/null) || return 1
    # Debian's clang 14 names the folder of another layout than the one that it has.
    compgen -G "$folder/libclang_rt.fuzzer-*" >/dev/null ||
        compgen -G "$(clang++ -print-resource-dir)/lib/linux/libclang_rt.fuzzer-*" >/dev/null
}

# What inputs begin with: seeds, and the fixtures of other tests.
gather() {
    local target=$1 corpus=build/fuzz/corpus/$1 file
    mkdir -p "$corpus" build/fuzz/findings
    if [ -d "tests/fuzz/seeds/$target" ]; then cp tests/fuzz/seeds/"$target"/* "$corpus"; fi
    [ "$target" != jinja ] || cp tests/fuzz/seeds/chat_template/* "$corpus"
    case $target in
        config) for file in tests/parity/fixtures/*/config.json; do cp "$file" "$corpus/$(basename "${file%/*}")"; done ;;
        tokenizer_json)
            for file in tests/text/fixtures/*/{tokenizer,tekken}.json; do cp "$file" "$corpus/$(basename "${file%/*}")"; done ;;
        gguf)
            for file in tests/text/gguf/*.gguf; do cp "$file" "$corpus/$(basename "$file")"; done ;;
        tokenizer_model)
            for file in tests/text/fixtures/*/tokenizer.model; do cp "$file" "$corpus/$(basename "${file%/*}")"; done ;;
    esac
}

# Longest inputs, in bytes: as long as the seeds, so that whole files are changed.
longest() {
    case $1 in
        tokenizer_* | gguf) echo 60000 ;;
        *) echo 4096 ;;
    esac
}

fuzz() {  # target seconds
    nice -n 10 "build/fuzz/bin/fuzz_$1" -max_total_time="$2" -max_len="$(longest "$1")" -timeout=100 -rss_limit_mb=3000 \
        -artifact_prefix="build/fuzz/findings/$1-" -print_final_stats=1 "build/fuzz/corpus/$1" >"$logs/fuzz-$1.log" 2>&1
}

if ! has_libfuzzer; then
    missing_packages+=(clang libclang-rt-dev libomp-dev)
    if ! install_missing $install >"$logs/fuzz-install.log" 2>&1 || ! has_libfuzzer; then
        skip "fuzzing: clang with libFuzzer is not there"
        exit
    fi
fi
use_build_tools
check configure-fuzz cmake --preset fuzz &&
    check build-fuzz cmake --build build/fuzz --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}" || exit

at_once=$(($(nproc) < ${#targets[@]} ? $(nproc) : ${#targets[@]}))
rounds=$(((${#targets[@]} + at_once - 1) / at_once))
seconds=$((minutes * 60 / rounds))
for ((first = 0; first < ${#targets[@]}; first += at_once)); do
    pids=()
    for target in "${targets[@]:first:at_once}"; do
        gather "$target"
        fuzz "$target" $seconds &
        pids+=($!)
    done
    for ((i = 0; i < ${#pids[@]}; ++i)); do
        target=${targets[first + i]}
        if wait "${pids[i]}"; then
            runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/fuzz-$target.log")
            pass "fuzz-$target: $runs inputs in $seconds s"
        else
            fail "fuzz-$target: an input is in build/fuzz/findings"
            grep -vE '^(INFO|#[0-9]+\s+(NEW|REDUCE|pulse|INITED|RELOAD))' "$logs/fuzz-$target.log" | tail -n 60
        fi
    done
done
