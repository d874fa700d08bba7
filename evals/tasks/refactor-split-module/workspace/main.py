from tools import clamp, mean, shorten, slug

print(slug("Hello, World!"), shorten("a" * 30), clamp(12, 0, 10), mean([1, 2]))
