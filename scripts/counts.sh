# Sourced by tests/run.sh and tests/bindings/run.sh: counts what passed, failed and was skipped, and ends the script with
# "N passed, N failed, N skipped"; the exit status is 0 only when something passed and nothing failed. Set `logs` first,
# the folder for the tests' output.
passed=0
failed=0
skipped=0
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ] && [ $passed -gt 0 ] && exit 0
    exit 1
}
trap finish EXIT
trap 'kill $(jobs -p) 2>/dev/null; failed=$((failed + 1)); exit' INT TERM

# tell STATUS WHAT...: a line that ends with the seconds since the last one.
told=$SECONDS
tell() {
    local status=$1
    shift
    printf '%-7s %s (%d s)\n' "$status" "$*" $((SECONDS - told))
    told=$SECONDS
}
pass() { passed=$((passed + 1)) && tell ok "$*"; }
skip() { skipped=$((skipped + 1)) && tell skipped "$*"; }
fail() {
    failed=$((failed + 1))
    tell FAILED "$*"
}

# check NAME COMMAND...: one test. Its output is shown when it fails.
check() {
    local name=$1
    shift
    if "$@" >"$logs/$name.log" 2>&1; then
        pass "$name"
    else
        fail "$name: $*"
        tail -n 40 "$logs/$name.log"
        return 1
    fi
}
