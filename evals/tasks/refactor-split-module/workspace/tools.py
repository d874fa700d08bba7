import re

LIMIT = 20


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def shorten(text, limit=LIMIT):
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clamp(number, low, high):
    return max(low, min(high, number))


def mean(numbers):
    return sum(numbers) / len(numbers)
