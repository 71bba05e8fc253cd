#!/bin/sh
# sh tools/test.sh: builds everything, runs all tests, says what was skipped and why, and ends with a line
# "N passed, N failed, N skipped". The exit code is 0 only when nothing failed. Installs what is missing (setup.sh).
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh

set_up tests
log=$build/Testing/Temporary/LastTest.log
rm -f "$log"
code=0
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --timeout 600 || code=$?
[ -e "$log" ] || die "ctest ran nothing"
awk -f tools/test_counts.awk "$log" || code=1
exit $code
