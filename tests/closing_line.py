"""Runs the unittest cases of a script and ends with the lines that tools/test_counts.awk reads."""

import sys
import unittest


class _Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=_Result)
    result = unittest.main("__main__", argv=sys.argv[:1], exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    reasons = {}
    for _, reason in result.skipped:
        reasons[reason] = reasons.get(reason, 0) + 1
    print(f"{result.passed} passed, {failed} failed, {skipped} skipped")
    if reasons:
        print(f"skipped {skipped}: " + "; ".join(f"{reason} (x{count})" for reason, count in reasons.items()))
    sys.exit(1 if failed or result.testsRun == 0 and not skipped else 0)
