# SPDX-License-Identifier: Apache-2.0
# Read by the scripts beside it: begin NAME opens a folder with NAME.pml, or skips where spin is not installed;
# check; finish.
passed=0 failed=0

begin() {
    model=$1
    if ! command -v spin >/dev/null 2>&1 || ! command -v "${CC:-cc}" >/dev/null 2>&1; then
        echo "skip: $model model: spin is not installed"
        echo "checks: 0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    cp "${RH_SRCDIR:-.}/tests/model/$model.pml" "$dir/" || exit 1
    cd "$dir" || exit 1
}

# check NAME WANTED_ERRORS FLAGS: all states are searched; WANTED_ERRORS is 0 or 1 (spin stops at the first).
check() {
    name=$1 wanted=$2
    shift 2
    spin -a "$@" "$model.pml" >spin.out 2>&1 && ${CC:-cc} -O2 -w -DSAFETY -o pan pan.c >cc.out 2>&1 &&
        ./pan -m100000 >pan.out 2>&1
    errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out)
    if grep -q 'Search not completed' pan.out && [ "$wanted" = 0 ]; then
        errors=incomplete
    fi
    if [ "$errors" = "$wanted" ]; then
        passed=$((passed + 1))
        echo "model: $name: errors $errors, as it must be ($(sed -n 's/^ *\([0-9e+.]*\) states, stored.*/\1/p' pan.out) states)"
    else
        failed=$((failed + 1))
        echo "model: $name: errors ${errors:-none counted}, wanted $wanted"
        cat spin.out cc.out pan.out
    fi
}

# What the last check found must read so.
found() {
    if [ "$failed" = 0 ] && ! grep -q "$1" pan.out; then
        failed=1
        echo "model: the planted bug was found as something else than '$1'"
    fi
}

finish() {
    echo "checks: $passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ]
}
