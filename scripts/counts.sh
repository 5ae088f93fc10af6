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

pass() { passed=$((passed + 1)) && echo "ok      $*"; }
skip() { skipped=$((skipped + 1)) && echo "skipped $*"; }
fail() {
    failed=$((failed + 1))
    echo "FAILED  $*"
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
