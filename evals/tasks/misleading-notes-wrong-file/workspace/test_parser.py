import unittest

from parser import parse


class ParserTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(parse("copy a b"), ("copy", ["a", "b"]))

    def test_quotes(self):
        self.assertEqual(parse('copy "my file" b'), ("copy", ["my file", "b"]))
