import sys

for step in range(20001):
    sys.stdout.write(f"\r\x1b[32m{'#' * (step // 500):<40}\x1b[0m {step / 200:6.2f}%")
    if step == 13377:
        sys.stdout.write("\nwarning: mirror 'kappa' sent a stale index\n")
print("\ndone")
