import unittest

from money import split


class SplitTest(unittest.TestCase):
    def test_even(self):
        self.assertEqual(split(90, 3), [30, 30, 30])

    def test_rest(self):
        self.assertEqual(sum(split(100, 3)), 100)


unittest.main()
