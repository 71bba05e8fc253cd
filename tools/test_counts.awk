# Adds up ctest's log (LastTest.log): test cases where an executable is Catch2's, one test where it is a script that
# prints no "N passed, N failed, N skipped" of its own. Prints what the emulator ran, the reasons of skipped tests, then
# the sum. Ends with 1 when something failed or nothing ran.

function finish_test() {
  if (!open) return
  if (!counted) {  # a script, or an executable that died before its summary
    if (ended == "Passed") total_passed++
    else if (ended == "Skipped") total_skipped++
    else total_failed++
  } else {
    # Catch2 2.13 counts a skipped case as passed; 3 counts it apart.
    if (catch_cases > 0 && passed + failed + skipped > catch_cases) passed = catch_cases - failed - skipped
    if (ended != "Passed" && failed == 0) failed = 1
    total_passed += passed
    total_failed += failed
    total_skipped += skipped
  }
  open = 0
}

/^[0-9]+\/[0-9]+ Testing: / {
  finish_test()
  open = 1
  counted = passed = failed = skipped = catch_cases = 0
  ended = "Failed"
}

/^All tests passed \(/ {  # (12 assertions in 3 test cases)
  for (i = 1; i <= NF; ++i) if ($i == "test") catch_cases = passed = $(i - 1)
  counted = 1
}

/^test cases: / {  # test cases: 5 | 3 passed | 1 skipped | 1 failed
  catch_cases = $3
  for (i = 4; i <= NF; ++i) {
    if ($i == "passed") passed = $(i - 1)
    if ($i == "failed") failed = $(i - 1)
  }
  counted = 1
}

/^No tests ran/ { counted = 1 }

/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {
  passed = $1
  failed = $3
  skipped = NF > 4 ? $5 : 0
  counted = 1
}

/^skipped [0-9]+: / {  # skipped 3: no GPU (x2); mounting is not permitted (x1)
  skipped = $2 + 0
  line = $0
  sub(/^skipped [0-9]+: /, "", line)
  n = split(line, parts, "; ")
  for (i = 1; i <= n; ++i) {
    count = parts[i]
    sub(/.*\(x/, "", count)
    sub(/ \(x[0-9]+\)$/, "", parts[i])
    reasons[parts[i]] += count + 0
  }
}

/^emulated [0-9]+ kernels in [0-9]+ calls: / {
  kernels += $2
  calls += $5
  ctas += $7
  wgmmas += $9
  mmas += $11
  seconds += $13
}

/^Test (Passed|Failed|Skipped)/ {
  ended = $2
  sub(/\..*/, "", ended)
}

END {
  finish_test()
  if (calls > 0)
    printf "emulated %d kernels in %d calls, an order of execution each: %d CTAs, %d wgmmas, %d mmas, %d minutes of a core\n",
      kernels, calls, ctas, wgmmas, mmas, seconds / 60 + 0.5
  for (reason in reasons) printf "skipped %d: %s\n", reasons[reason], reason
  printf "%d passed, %d failed, %d skipped\n", total_passed, total_failed, total_skipped
  if (total_failed > 0 || total_passed == 0) exit 1
}
