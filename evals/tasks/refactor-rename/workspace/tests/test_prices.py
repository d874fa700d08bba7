import unittest

from shop import calc
from shop.calculator import recalculate


class PricesTest(unittest.TestCase):
    def test_calc(self):
        self.assertEqual(calc([100, 50], 10), 135)

    def test_recalculate(self):
        self.assertEqual(recalculate({"prices": [10]}), 10)
