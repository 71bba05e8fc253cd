"""Every case from the field has a test whose name begins with its number, in each file that tests/README.md names."""

import os
import re
import unittest

import closing_line

TESTS = os.path.dirname(os.path.abspath(__file__))
# The cases of the list that the project works from; its gaps are numbers that were never given.
CASES = [1, 2, 3, 4, 7, 8, 9, 11, 12, 14, 16, 17, 18, 20, 21, 22, 24, 25, 27, 28, 29, 31, 32, 33, 34, 35, 38, 40, 41, 43,
         45, 48, 49, 50, 52, 54, 55]


def read(file):
    with open(os.path.join(TESTS, file), encoding="utf-8") as stream:
        return stream.read()


def cases_of(file):
    """Numbers that names of tests in a file begin with: "C14, C16: cp_async agrees ...", test_C35_..."""
    text = read(file)
    names = re.findall(r'(?:TEST_CASE|CASE)\(\s*"((?:C\d+(?:, )?)+):', text)
    numbers = [number for name in names for number in re.findall(r"C(\d+)", name)]
    numbers += re.findall(r"def test_C(\d+)_", text)
    return {int(number) for number in numbers}


def table():
    """Case -> files, as tests/README.md says."""
    rows = re.findall(r"^\| C(\d+) [^|]*\| ([^|]*)\|", read("README.md"), re.M)
    return {int(case): re.findall(r"`([^`]+)`", files) for case, files in rows}


class FieldCases(unittest.TestCase):
    def test_every_case_is_in_the_table(self):
        self.assertEqual(sorted(table()), CASES)

    def test_the_files_of_the_table_hold_tests_of_the_case(self):
        for case, files in table().items():
            self.assertTrue(files, f"C{case}")
            for file in files:
                self.assertIn(case, cases_of(file), f"README.md says that {file} tests C{case}")

    def test_no_test_of_a_case_is_missing_in_the_table(self):
        files = [f for f in os.listdir(TESTS) if re.search(r"(_test\.(cpp|py)|^cases_of_.*\.h)$", f)]
        for file in files:
            for case in cases_of(file):
                self.assertIn(file, table().get(case, []), f"C{case} in README.md")


if __name__ == "__main__":
    closing_line.main()
