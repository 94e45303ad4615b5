#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The golden digests hold for every compiler and optimisation level: builds the row functions with each compiler that is
# here and compares what every table gives with tests/golden/rowfn.txt.
# It builds the same uninstrumented programs wherever it runs: once is enough.
[ "${RH_SANITIZERS:-none}" = none ] || { echo "skip: nothing here is sanitized, the plain build runs it"; exit 77; }
src=${RH_SRCDIR:-.}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0 skipped=0
flags="-std=c17 -ffp-contract=off -fno-strict-aliasing -D_GNU_SOURCE -I$src"
common="kernels/approx.c kernels/draw.c kernels/rope.c kernels/route.c kernels/rowfn.c kernels/selftest.c
    kernels/quant/quant.c kernels/quant/q8.c kernels/quant/q4.c kernels/quant/q5.c kernels/quant/kq.c
    kernels/quant/iq4.c kernels/quant/cell.c kernels/cpu/isa_scalar.c kernels/cpu/amx.c
    kernels/cpu/bf16.c kernels/cpu/bf16_selftest.c kernels/cpu/q8_plain.c
    kernels/cpu/q8_forms.c kernels/cpu/q8_selftest.c actors/status.c tests/kernels/golden_print.c"

build() { # compiler, options: objects of the program, each table with its own flags
    objects=
    for file in $common; do
        object=$dir/$(basename "$file" .c).o
        # shellcheck disable=SC2086
        $1 $flags $2 -c "$src/$file" -o "$object" || return 1
        objects="$objects $object"
    done
    if [ "$(uname -m)" = x86_64 ]; then
        avx2="-mavx2 -mfma -mf16c"
        # shellcheck disable=SC2086
        $1 $flags $2 $avx2 -c "$src/kernels/cpu/isa_avx2.c" -o "$dir/avx2.o" || return 1
        # shellcheck disable=SC2086
        $1 $flags $2 $avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl \
            -c "$src/kernels/cpu/isa_avx512.c" -o "$dir/avx512.o" || return 1
        # shellcheck disable=SC2086
        $1 $flags $2 $avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mamx-tile -mamx-bf16 \
            -c "$src/kernels/cpu/isa_amx.c" -o "$dir/tiles.o" || return 1
        # shellcheck disable=SC2086
        $1 $flags $2 $avx2 -c "$src/kernels/cpu/q8_avx2.c" -o "$dir/q8_avx2.o" || return 1
        # shellcheck disable=SC2086
        $1 $flags $2 $avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
            -c "$src/kernels/cpu/q8_vnni.c" -o "$dir/q8_vnni.o" || return 1
        # shellcheck disable=SC2086
        $1 $flags $2 $avx2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile \
            -mamx-int8 -c "$src/kernels/cpu/q8_amx.c" -o "$dir/q8_amx.o" || return 1
        objects="$objects $dir/avx2.o $dir/avx512.o $dir/tiles.o"
        objects="$objects $dir/q8_avx2.o $dir/q8_vnni.o $dir/q8_amx.o"
    fi
    # shellcheck disable=SC2086
    $1 $objects -lm -o "$dir/print"
}

try() {
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "skip: $1 is not here"
        skipped=$((skipped + 1))
        return
    fi
    if ! build "$1" "$2" || ! "$dir/print" >"$dir/got"; then
        echo "FAIL: $1 $2 does not build or run"
        failed=$((failed + 1))
        return
    fi
    for profile in bf16 q8; do
        want=$(cat "$src/tests/golden/$profile.txt")
        "$dir/print" $profile >"$dir/got_profile"
        while read -r isa digest; do
            if [ "$digest" = "$want" ]; then
                passed=$((passed + 1))
            else
                echo "FAIL: $1 $2, products of profile $profile in form $isa: $digest, not $want"
                failed=$((failed + 1))
            fi
        done <"$dir/got_profile"
    done
    for isa in $(cut -d' ' -f1 "$dir/got" | sort -u); do
        if sed -n "s/^$isa //p" "$dir/got" | diff "$src/tests/golden/rowfn.txt" -; then
            passed=$((passed + 1))
        else
            echo "FAIL: $1 $2, table $isa"
            failed=$((failed + 1))
        fi
    done
}

try gcc "-O0"
try gcc "-O3 -march=native"
try clang "-O1"
try clang "-O3 -march=native"
echo "checks: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
