import unittest

from cart import total


class Cart(unittest.TestCase):
    def test_prices_are_added(self):
        self.assertEqual(total([500, 250]), 750)

    def test_a_discount_is_a_percentage(self):
        self.assertEqual(total([1000, 1000], discount=10), 1800)
